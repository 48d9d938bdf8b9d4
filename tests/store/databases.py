"""Databases for the tests: SQLite on disk and in memory, and PostgreSQL if there is one.

PostgreSQL: set DRAGOMAN_TEST_POSTGRES_URL to a database that the tests may fill, such as
``postgresql://postgres@127.0.0.1:5432/dragoman_test``. Each test gets a schema of its own, which is dropped after it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from sqlalchemy import create_engine, make_url, text

POSTGRES_URL = "DRAGOMAN_TEST_POSTGRES_URL"
SKIP_REASON = f"no PostgreSQL: set {POSTGRES_URL} to the URL of a database that the tests may fill"


def postgres_url() -> str | None:
    return os.environ.get(POSTGRES_URL) or None


@contextmanager
def postgres_place(server: str) -> Iterator[str]:
    """The URL of an empty schema in that database."""
    schema = f"dragoman_{uuid4().hex}"
    url = make_url(server).set(drivername="postgresql+psycopg")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE SCHEMA {schema}"))
    try:
        yield url.update_query_dict({"options": f"-csearch_path={schema}"}).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
        engine.dispose()
