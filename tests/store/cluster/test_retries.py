"""Transactions that PostgreSQL asks to repeat are repeated: serialization failures and deadlocks, on a real server."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection, event, make_url, text

from dragoman.canonical.message import Message
from dragoman.store import Store, StoreBusyError
from dragoman.store import database as database_module
from tests.store.load import integrity
from tests.store.turns import change, reply, rows, tool_turn

TURNS: dict[str, Callable[[], list[Message]]] = {
    "one statement": lambda: [Message.user("?"), reply("!")],
    "several statements": lambda: tool_turn().messages,
}


def set_options(url: str, **settings: str) -> str:
    """The URL with more settings of PostgreSQL."""
    parsed = make_url(url)
    options = " ".join([str(parsed.query["options"]), *(f"-c{name}={value}" for name, value in settings.items())])
    return parsed.update_query_dict({"options": options}).render_as_string(hide_password=False)


def strict(url: str, **settings: str) -> str:
    """Every transaction is serializable, as on CockroachDB."""
    return set_options(url, default_transaction_isolation="serializable", **settings)


@contextmanager
def failures(store: Store) -> Iterator[list[str]]:
    """The SQLSTATE of every error that the database raises inside the context."""
    found: list[str] = []

    def note(context: Any) -> None:
        found.append(str(getattr(context.original_exception, "sqlstate", None)))

    event.listen(store._database.engine, "handle_error", note)
    try:
        yield found
    finally:
        event.remove(store._database.engine, "handle_error", note)


def wait_for_lock(connection: Connection) -> None:
    """Until another connection waits for a lock of this one."""
    query = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))")
    while not connection.execute(query).scalar_one():
        time.sleep(0.01)


@contextmanager
def run_in_thread(work: Callable[[], Any]) -> Iterator[Future[Any]]:
    """Runs in another thread inside the context."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_a_serialization_failure_is_hidden(server_place: str, turn: Callable[[], list[Message]]) -> None:
    """Another program changes the session while the turn waits for it: SQLSTATE 40001, and then the turn is stored."""
    with Store(strict(server_place)) as store:
        session = store.create()
        with failures(store) as found, store._database.engine.connect() as other:
            other.execute(text("UPDATE sessions SET title = 'theirs'"))
            with run_in_thread(lambda: store.append(session.id, turn(), expected_version=0)) as appended:
                wait_for_lock(other)
                other.commit()
                assert appended.result() == 1
        assert found == ["40001"]
        kept = store.load(session.id)
        assert (kept.record.title, kept.version, len(kept.messages)) == ("theirs", 1, len(turn()))


def test_concurrent_serialization_failures_are_hidden(server_place: str) -> None:
    """Four threads append to one session: nothing is lost or doubled, and no failure reaches them."""
    with Store(strict(server_place), pool_size=4) as store:
        session = store.create()
        turns = [[turn() for turn in TURNS.values()] for _ in range(4)]
        together = threading.Barrier(4)

        def work(number: int) -> list[int]:
            together.wait()
            return [store.append(session.id, turn, expected_version=None) for turn in turns[number]]

        with failures(store) as found, ThreadPoolExecutor(4) as pool:
            versions = [version for each in pool.map(work, range(4)) for version in each]
        assert sorted(versions) == list(range(1, 9))
        assert set(found) <= {"40001"}
        kept = [message.id for message in store.load(session.id).messages]
        for turn in (turn for each in turns for turn in each):
            first = kept.index(turn[0].id)
            assert kept[first : first + len(turn)] == [message.id for message in turn]
        assert len(kept) == sum(len(turn) for each in turns for turn in each)
        assert integrity.faults(store) == []


def test_a_deadlock_is_hidden(server_place: str) -> None:
    """Another program holds what the turn needs next and needs what it holds: SQLSTATE 40P01, and then the turn is
    stored.
    """
    # The first one that looks for a deadlock and finds it gives way: the other program never looks.
    patient = set_options(server_place, deadlock_timeout="1h")
    with Store(strict(server_place, deadlock_timeout="20ms")) as store, Store(patient) as others:
        session = store.create()
        with failures(store) as found, others._database.engine.connect() as other, ThreadPoolExecutor(1) as pool:
            other.execute(text("LOCK TABLE tool_calls IN ACCESS EXCLUSIVE MODE"))
            met: list[Future[None]] = []

            def take_the_session() -> None:
                other.execute(text("UPDATE sessions SET title = 'theirs'"))
                other.commit()

            def meet(connection: Connection, *_: Any) -> None:
                """The turn holds the session by now."""
                if not met:
                    met.append(pool.submit(take_the_session))
                    wait_for_lock(connection)

            event.listen(store._database.engine, "after_cursor_execute", meet)
            assert store.append(session.id, tool_turn().messages, expected_version=0) == 1
            met[0].result()
        assert found[0] == "40P01"
        # Run again, because of the other program, or in a deadlock again: it took the session back before that woke.
        assert set(found[1:]) <= {"40001", "40P01"}
        kept = store.load(session.id)
        assert (kept.record.title, len(kept.messages)) == ("theirs", 4)
        assert rows(store, "SELECT status FROM tool_calls") == [("succeeded",)]


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_a_lasting_serialization_failure_is_a_busy_error(
    server_place: str, turn: Callable[[], list[Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time limit of the store, with random pauses between the tries: bounded, and never at once."""
    pauses: list[float] = []
    Store(server_place).close()  # concurrent tests may be creating their tables, and one waits for the other
    monkeypatch.setattr(database_module, "time", SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append))
    with Store(server_place, timeout=0.5) as store:
        session = store.create()
        change(
            store,
            "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'never' USING ERRCODE = '40001'; END $$",
        )
        change(store, "CREATE TRIGGER never BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION never()")
        with failures(store) as found, pytest.raises(StoreBusyError, match=r"more than 0\.5 s"):
            store.append(session.id, turn(), expected_version=0)
        assert set(found) == {"40001"}
        assert len(found) == len(pauses) + 1 > 10
        assert 0.5 <= sum(pauses) < 0.6
        assert len(set(pauses)) == len(pauses)
        assert store.load(session.id).version == 0
