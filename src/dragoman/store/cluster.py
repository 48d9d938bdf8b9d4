"""The store over several machines: what a cluster has to be told about its tables."""

from sqlalchemy import Table

from dragoman.store.schema import metadata, sessions


def distribution_column(table: Table) -> str:
    """The column by which a table is spread: the session's id, so that all that a session has is on one machine."""
    return "id" if table is sessions else "session_id"


def citus_statements() -> tuple[str, ...]:
    """What spreads the store's tables over the machines of a Citus cluster, in the order in which it has to be said:
    the sessions first, and each other table with the rows of its sessions, so that foreign keys hold.

    It is said once, on the coordinator, after a `Store` has made the tables; what they hold already goes with them. The
    table of the version stays where it is. Of the tables' keys each begins with the session's id, as Citus wants it.
    """
    others = [table for table in metadata.sorted_tables if table is not sessions]
    return (
        f"SELECT create_distributed_table('{sessions.name}', '{distribution_column(sessions)}')",
        *(
            f"SELECT create_distributed_table('{table.name}', '{distribution_column(table)}', colocate_with "
            f"=> '{sessions.name}')"
            for table in others
        ),
    )
