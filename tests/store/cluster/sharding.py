"""PostgreSQL with the tables as on a cluster of two nodes: each one split by the hash of the session's id.

A node is the part of each table that ends with its name: in the same database (`shard_tables`), or one of them in a
database of its own, which is a store by itself and independent of the other (`shard_over_databases`). PostgreSQL's
plans for such tables show whether a cluster (Citus, for example) needs one of its machines for a statement, or all of
them.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, create_engine, event, make_url, text

from dragoman.store import Store
from dragoman.store.schema import distribution_column, metadata

NODES = ("node0", "node1")
_EXTENSION_LOCK = 20261123
"""PostgreSQL's lock for one test at a time: an arbitrary number."""


def shard_tables(store: Store) -> None:
    """Splits the tables of an empty store. PostgreSQL refuses if a key of one does not contain the session's id."""
    store._database.write(_spread)


def _spread(connection: Connection) -> None:
    for each in metadata.sorted_tables:
        table = each.name
        statements = [
            f"ALTER TABLE {table} RENAME TO {table}_whole",
            f"CREATE TABLE {table} (LIKE {table}_whole INCLUDING ALL) PARTITION BY HASH ({distribution_column(each)})",
        ]
        for number, node in enumerate(NODES):
            share = f"FOR VALUES WITH (MODULUS {len(NODES)}, REMAINDER {number})"
            statements.append(f"CREATE TABLE {table}_{node} PARTITION OF {table} {share}")
        if table != "sessions":
            reference = "FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE"
            statements.append(f"ALTER TABLE {table} ADD {reference}")
        for statement in statements:
            connection.execute(text(statement))


@contextmanager
def create_database(server: str) -> Iterator[str]:
    """The URL of a new database on that server. Raises DBAPIError if its user may not create one."""
    name = f"dragoman_{uuid4().hex}"
    url = make_url(server).set(drivername="postgresql+psycopg")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        try:
            yield url.set(database=name).render_as_string(hide_password=False)
        finally:
            with engine.connect() as connection:
                connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    finally:
        engine.dispose()


@contextmanager
def shard_over_databases(store: Store, other: str) -> Iterator[str]:
    """Puts the sessions of the second node into that database, where a store has its tables; returns the name of its
    server.
    """
    url = make_url(other)
    server = f"server_{url.database}"
    server_options = {"host": url.host, "port": url.port, "dbname": url.database}
    user = {"user": url.username, "password": url.password}
    statements = [
        # Extensions belong to the database, which concurrent tests share: without the lock, both would create it.
        f"SELECT pg_advisory_xact_lock({_EXTENSION_LOCK})",
        "CREATE EXTENSION IF NOT EXISTS postgres_fdw WITH SCHEMA public",
        f"CREATE SERVER {server} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({_options(server_options)})",
        f"CREATE USER MAPPING FOR CURRENT_USER SERVER {server} OPTIONS ({_options(user)})",
    ]
    for each in metadata.sorted_tables:
        table = each.name
        statements += [
            f"ALTER TABLE {table} RENAME TO {table}_{NODES[0]}",
            (
                f"CREATE TABLE {table} (LIKE {table}_{NODES[0]} INCLUDING DEFAULTS)"
                f" PARTITION BY HASH ({distribution_column(each)})"
            ),
            f"ALTER TABLE {table} ATTACH PARTITION {table}_{NODES[0]} FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
            (
                f"CREATE FOREIGN TABLE {table}_{NODES[1]} PARTITION OF {table} FOR VALUES WITH (MODULUS 2, REMAINDER 1)"
                f" SERVER {server} OPTIONS (schema_name 'public', table_name '{table}')"
            ),
        ]

    def work(connection: Connection) -> None:
        for statement in statements:
            connection.execute(text(statement))

    store._database.write(work)
    try:
        yield server
    finally:
        store._database.write(lambda connection: connection.execute(text(f"DROP SERVER {server} CASCADE")))


def _options(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} '{value}'" for name, value in values.items() if value is not None)


@dataclass
class ExecutedStatement:
    """A statement of the store, with its parameters, and the nodes whose tables its plan names."""

    statement: str
    parameters: Mapping[str, Any]
    nodes: frozenset[str] = frozenset()


@contextmanager
def record_statements(store: Store, *, plans: bool = False) -> Iterator[list[ExecutedStatement]]:
    """The statements that the store sends to its database inside the context, except BEGIN and the like."""
    found: list[ExecutedStatement] = []

    def note(connection: Connection, _: Any, statement: str, parameters: Any, *__: Any) -> None:
        if not re.match(r"\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b", statement):
            return
        found.extend(
            ExecutedStatement(statement, each, _nodes(connection, statement, each) if plans else frozenset())
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


def nodes_with_rows(store: Store, session_id: str) -> set[str]:
    """The nodes with rows of a session, in any table."""
    found: set[str] = set()
    for table in metadata.sorted_tables:
        query = text(
            f"SELECT DISTINCT tableoid::regclass::text FROM {table.name} WHERE {distribution_column(table)} = :id"
        )
        names: Sequence[str] = store._database.read(
            lambda connection, query=query: connection.execute(query, {"id": session_id}).scalars().all()  # type: ignore[misc]
        )
        found |= {name.rsplit("_", 1)[1] for name in names}
    return found
