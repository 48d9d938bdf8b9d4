"""What a database reports about its own state."""

from sqlalchemy import text

from dragoman.store import Store

_ORPHANS = " UNION ALL ".join(
    f"SELECT '{table}' FROM {table} WHERE session_id NOT IN (SELECT id FROM sessions)"
    for table in ("messages", "attempts", "tool_calls", "tool_ids", "turns")
)


def faults(store: Store) -> list[str]:
    """Empty if the database is valid: its pages, its foreign keys and its index for searches."""

    def ask(statement: str) -> list[str]:
        return store._database.write(lambda connection: [str(row) for row in connection.execute(text(statement))])

    found = ask(_ORPHANS)
    if store._database.is_sqlite:
        found += [row for row in ask("PRAGMA integrity_check") if row != "('ok',)"]
        found += ask("PRAGMA foreign_key_check")
        store._database.write(
            lambda connection: connection.exec_driver_sql(
                "INSERT INTO message_search(message_search, rank) VALUES ('integrity-check', 1)"
            )
        )
    return found
