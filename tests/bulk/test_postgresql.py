"""The manifest in PostgreSQL, if a server is configured: the same run with the same guarantees."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from dragoman import Client
from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk import bulk
from dragoman.bulk.manifest.manifest import Manifest, lock_run
from dragoman.policy.plugins import UntrustedData
from dragoman.store.database import Database
from tests.bulk.provider import HAIKU, SONNET, Provider, error_reply, number
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url


@pytest.fixture
def database_url() -> Iterator[str]:
    server = postgres_url()
    if server is None:
        pytest.skip(SKIP_REASON)
    with postgres_place(server) as url:
        yield url


def test_a_run_in_postgresql(database_url: str) -> None:
    """Answers, errors and retries, in a run with another one in the same database."""
    broken = {2}
    provider = Provider(lambda prompt, _: error_reply(400, "bad") if number(prompt) in broken else "nul \0 and \\0")
    rows = [f"question {n}" for n in range(6)]
    with bulk(rows, [HAIKU, SONNET], manifest=database_url, name="one", providers=provider.settings) as report:
        assert report.errors == 2
        assert [row["answer"] for row in report][:2] == ["nul \0 and \\0"] * 2
    broken.clear()
    with bulk(
        rows, [HAIKU, SONNET], manifest=database_url, name="one", providers=provider.settings, retry_errors=True
    ) as report:
        assert (report.finished, report.errors) == (True, 0)
    assert provider.requests == 14
    with bulk(rows[:1], HAIKU, manifest=database_url, name="two", providers=provider.settings) as report:
        assert report.finished
    assert provider.requests == 15


def test_one_process_at_a_time_in_postgresql(database_url: str) -> None:
    """The lock is by run name: another run may proceed at the same time."""
    manifest = Manifest(database_url, "one")
    try:
        with pytest.raises(ConfigurationError, match="another process"):
            Manifest(database_url, "one")
        Manifest(database_url, "two").close()
    finally:
        manifest.close()
    Manifest(database_url, "one").close()


def test_a_run_in_another_schema_is_another_run(database_url: str) -> None:
    """Its rows are others, so neither waits for the other."""
    server = postgres_url()
    assert server is not None
    with postgres_place(server) as elsewhere:
        one, other = Manifest(database_url, "one"), Manifest(elsewhere, "one")
        one.close()
        other.close()


def test_a_run_that_has_ended_is_free_at_once(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may notice the end of a connection later: the lock does not wait for that."""
    database = Database(database_url, timeout=30.0, synchronous="full", pool_size=4)
    try:
        lock = lock_run(database, "ended")
        left: list[Connection] = []
        with monkeypatch.context() as held:
            held.setattr(Connection, "detach", lambda connection: left.append(connection))
            held.setattr(Connection, "close", lambda _: None)
            lock.close()
        lock_run(database, "ended").close()
        left[0].close()
    finally:
        database.close()


def test_a_manifest_from_before_labels_gets_their_column(database_url: str) -> None:
    """A run in it continues, and keeps the labels of its rows."""
    rows = [{"prompt": "question 0", "secrecy": ["pii"]}]
    Manifest(database_url).close()
    database = Database(database_url, timeout=30.0, synchronous="full", pool_size=1)
    database.write(lambda connection: connection.exec_driver_sql("ALTER TABLE bulk_answers DROP COLUMN labels"))
    database.close()
    settings = {"client": Client(policy=[UntrustedData()]), "providers": Provider().settings}
    bulk(rows, HAIKU, manifest=database_url, labels="secrecy", **settings).close()
    with bulk(rows, HAIKU, manifest=database_url, **settings) as report:
        assert [row["security_labels"] for row in report] == [["pii"]]
