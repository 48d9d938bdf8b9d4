"""PostgreSQL as a cluster of two nodes would have the tables: each one split by the hash of the session's id.

A node is the part of each table that ends with its name. What PostgreSQL plans for such tables is what decides whether
a cluster (Citus, say) needs one of its machines for a statement, or all of them.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, event, text

from dragoman.store import Store
from dragoman.store.schema import metadata

NODES = ("node0", "node1")


def key_of(table: str) -> str:
    """The column that says on which node a row is."""
    return "id" if table == "sessions" else "session_id"


def spread(store: Store) -> None:
    """Splits the tables of an empty store. PostgreSQL refuses where a key of one does not hold the session's id."""
    store._database.write(_spread)


def _spread(connection: Connection) -> None:
    for table in (each.name for each in metadata.sorted_tables):
        statements = [
            f"ALTER TABLE {table} RENAME TO {table}_whole",
            f"CREATE TABLE {table} (LIKE {table}_whole INCLUDING ALL) PARTITION BY HASH ({key_of(table)})",
        ]
        for number, node in enumerate(NODES):
            share = f"FOR VALUES WITH (MODULUS {len(NODES)}, REMAINDER {number})"
            statements.append(f"CREATE TABLE {table}_{node} PARTITION OF {table} {share}")
        if table != "sessions":
            reference = "FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE"
            statements.append(f"ALTER TABLE {table} ADD {reference}")
        for statement in statements:
            connection.execute(text(statement))


@dataclass
class Asked:
    """A statement that the store has run, with its parameters, and the nodes whose tables its plan names."""

    statement: str
    parameters: Mapping[str, Any]
    nodes: frozenset[str] = frozenset()


@contextmanager
def watched(store: Store, *, plans: bool = False) -> Iterator[list[Asked]]:
    """What the store says to its database meanwhile, but for BEGIN and its like."""
    found: list[Asked] = []

    def note(connection: Connection, _: Any, statement: str, parameters: Any, *__: Any) -> None:
        if not re.match(r"\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b", statement):
            return
        found.extend(
            Asked(statement, each, _nodes(connection, statement, each) if plans else frozenset())
            for each in (parameters if isinstance(parameters, list) else [parameters])
        )

    event.listen(store._database.engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(store._database.engine, "before_cursor_execute", note)


def _nodes(connection: Connection, statement: str, parameters: Any) -> frozenset[str]:
    cursor = connection.connection.cursor()
    cursor.execute("EXPLAIN (FORMAT JSON) " + statement, parameters)
    (plan,) = cursor.fetchone() or ([],)
    cursor.close()
    names = re.findall(r'"Relation Name": "(\w+)"', json.dumps(plan))
    return frozenset(name.rsplit("_", 1)[1] for name in names if name.endswith(NODES))


def nodes_of(store: Store, session_id: str) -> set[str]:
    """Where the rows of a session are, in all tables."""
    found: set[str] = set()
    for table in (each.name for each in metadata.sorted_tables):
        query = text(f"SELECT DISTINCT tableoid::regclass::text FROM {table} WHERE {key_of(table)} = :id")
        names: Sequence[str] = store._database.read(
            lambda connection, query=query: connection.execute(query, {"id": session_id}).scalars().all()  # type: ignore[misc]
        )
        found |= {name.rsplit("_", 1)[1] for name in names}
    return found
