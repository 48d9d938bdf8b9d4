"""Forks: a child uses nothing of its parent's, and no answer reaches another process."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import warnings
from importlib.util import find_spec
from typing import Any

import httpx
import pytest

from dragoman import Budget, DragomanError, Limit, Limits, Session
from dragoman.limits.limit import LocalCounters
from dragoman.testing.faults.server import FaultyServer, HttpReply, Pause, ReceivedRequest, json_reply, sse_reply
from dragoman.transport.engines.network import resolver
from dragoman.transport.retry import RetryQuota
from tests.unit.session.handwritten_replies import handwritten_anthropic
from tests.unit.transport.connections.fork_program import MODEL

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

CASES = [
    ("sync", "httpx"),
    ("async", "aiohttp"),
    pytest.param("async", "httpx", marks=pytest.mark.exhaustive),
    pytest.param("pool", "httpx", marks=pytest.mark.exhaustive),
    pytest.param("sync", "httpx2", marks=pytest.mark.exhaustive),
    pytest.param("async", "httpx2", marks=pytest.mark.exhaustive),
]
CHILDREN = 4


def echo(request: ReceivedRequest) -> HttpReply:
    """Answer with the question itself."""
    question = json.loads(request.body)["messages"][-1]["content"]
    text = question if isinstance(question, str) else question[0]["text"]
    return json_reply(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-6",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "engine"), CASES)
def test_no_answer_reaches_another_process(kind: str, engine: str, exhaustive: bool) -> None:
    """Parent and children ask at once after a fork with open connections: every answer is to the own question."""
    if find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed")
    calls = 200 if exhaustive else 40
    with FaultyServer(echo) as server:
        program = [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-m",
            "tests.unit.transport.connections.fork_program",
        ]
        arguments = [server.url, engine, kind, str(CHILDREN), str(calls)]
        done = subprocess.run([*program, *arguments], capture_output=True, text=True, check=True, timeout=300)
    outcomes: list[dict[str, Any]] = json.loads(done.stdout)
    assert [outcome["errors"] for outcome in outcomes] == [[]] * (CHILDREN + 2)
    assert [outcome["foreign"] for outcome in outcomes] == [0] * (CHILDREN + 2)
    assert [outcome["right"] for outcome in outcomes] == [8, *[calls] * (CHILDREN + 1)]
    assert done.stderr == ""


def in_child(work: Any) -> str:
    """Return what the function returns in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, str(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        text = stream.read().decode()
    os.waitpid(child, 0)
    return text


def test_a_fork_in_the_middle_of_a_stream_leaves_it_to_the_parent() -> None:
    """The child gets a typed error and takes nothing from the stream; the parent reads it to its end."""
    frames = handwritten_anthropic("One two three four five six.").frames
    with FaultyServer(sse_reply(*frames[:4], Pause(0.5), *frames[4:])) as server:
        session = Session(MODEL, api_key="none", base_url=server.url)
        stream = session.stream("Hi")
        assert next(stream).type == "message_start"

        def read_on() -> str:
            try:
                return stream.get_reply().text
            except DragomanError as error:
                return type(error).__name__

        assert in_child(read_on) == "NetworkError"
        assert stream.get_reply().text == "One two three four five six."


def test_a_session_from_before_a_fork_goes_on_in_the_child() -> None:
    """As in a server that loads its program before it forks: both ask in the same session, each on its own."""
    with FaultyServer(echo) as server:
        providers = {"anthropic": {"api_key": "none", "base_url": server.url, "max_retries": 0}}
        session = Session(MODEL, providers=providers)
        session.ask("Hi")
        assert in_child(lambda: session.ask("child").text) == "child"
        assert session.ask("parent").text == "parent"
        assert [message.text for message in session.messages] == ["Hi", "Hi", "parent", "parent"]


def test_a_lock_that_a_thread_holds_does_not_stop_a_child() -> None:
    """Budgets, limits and retries work in the child, whatever other threads did at the moment of the fork."""
    budget, limits, quota = Budget(usd=1), Limits([Limit(requests=10)]), RetryQuota()
    counters = limits._counters
    assert isinstance(counters, LocalCounters)
    locks = [counters._lock, budget._lock, quota._lock, resolver._lock]
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)

    def use() -> str:
        quota.refund()
        resolver.resolve("127.0.0.1", 1, 60)
        limits.acquire(MODEL, 1, 1)
        return str(budget.spend_of(None).usd)

    assert in_child(use) == "0"
    done.set()
    thread.join()


def test_a_callers_client_is_warned_about_in_a_child() -> None:
    """Its connections are not ours to drop. It is said once."""
    with FaultyServer(echo) as server, httpx.Client() as client:
        providers = {"anthropic": {"client": client, "api_key": "none", "base_url": server.url}}
        session = Session(MODEL, providers=providers)
        session.ask("0")

        def ask_twice() -> list[str]:
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                session.ask("1")
                session.ask("2")
            return [str(warning.message)[:27] for warning in found]

        assert in_child(ask_twice) == "['the client of this provider']"
