"""In a notebook an event loop runs: sync classes work there, and what is shown is short."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncSession, Client, Session, ask
from dragoman.bulk import Progress, bulk
from dragoman.testing import ScriptedProvider, scripted_reply
from tests.bulk.mock_provider import mock_provider
from tests.bulk.provider import HAIKU, Provider
from tests.bulk.scale import request_counts

_MOST_SHOWN = 400
"""Characters of a signature: five lines."""


def look_up(city: str) -> str:
    """Look a city up."""
    return city


def test_sync_calls_work_where_a_loop_runs() -> None:
    """The loop waits for them, as for any sync call; the run has a loop of its own, and the caller's context."""
    provider, seen = Provider(), list[Progress]()

    async def cell() -> None:
        with bulk(["a", "b"], HAIKU, providers=provider.settings, progress=seen.append) as report:
            assert [row["answer"] for row in report] == ["re: a", "re: b"]
        with Client(providers=provider.settings).bulk(["c"], HAIKU) as report:
            assert [row["answer"] for row in report] == ["re: c"]
        with ScriptedProvider("Yes.") as scripted:
            assert ask(scripted.model, "Hi").text == "Yes."

    asyncio.run(cell())
    assert seen[-1].done == 2


INTERRUPTED = """
import asyncio, signal, sys
from dragoman.bulk import bulk

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background

async def cell():
    rows = [{"prompt": f"row {n}"} for n in range(40)]
    settings = {"providers": {"anthropic": {"base_url": sys.argv[1], "api_key": "none"}}, "concurrency": 2}
    with bulk(rows, "anthropic:claude-haiku-4-5", manifest=sys.argv[2], **settings) as report:
        print(report.resumed, report.finished)

asyncio.new_event_loop().run_until_complete(cell())  # as a notebook does: an interrupt is raised in the cell
"""


@pytest.mark.skipif(os.name == "nt", reason="a process there gets no Ctrl-C of its own")
def test_an_interrupt_of_the_cell_ends_the_run(tmp_path: Path) -> None:
    """It waits for what is in flight, keeps it, and a second call goes on."""
    with mock_provider(0.2) as url:
        words = [sys.executable, "-c", INTERRUPTED, url, str(tmp_path / "m")]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30
        while request_counts(url)["requests"] < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert "KeyboardInterrupt" in said
        sent = request_counts(url)["requests"]
        assert 4 <= sent < 40
        second = subprocess.run(words, capture_output=True, text=True, check=True)
        assert second.stdout.split() == [str(sent), "True"]
        assert request_counts(url)["requests"] == 40


@pytest.mark.parametrize("shown", [ask, Session, Session.ask, Session.stream, Client.ask, Client.stream, bulk])
def test_a_signature_is_short(shown: Callable[..., Any]) -> None:
    """A prompt is a `UserInput`, and not all of its members."""
    assert len(str(inspect.signature(shown))) <= _MOST_SHOWN


LOSSES = """
from dragoman import Session
from dragoman.testing import ScriptedProvider
from dragoman.testing.doubles.scripted_adapter import ALL_CAPABILITIES

capabilities = ALL_CAPABILITIES.model_copy(update={"sampling": "never"})
with ScriptedProvider(*["Yes."] * 4, capabilities=capabilities) as provider:
    for _ in range(2):
        with Session(provider.model) as session:
            session.ask("Hi", top_k=3, temperature=0.5)
            session.ask("Hi", top_k=3, temperature=0.5)
"""


def test_a_kind_of_loss_is_printed_once() -> None:
    """In a program without logging; one that has set it up gets a record for each loss."""
    quiet = subprocess.run([sys.executable, "-c", LOSSES], capture_output=True, text=True, check=True)
    set_up = "import logging\nlogging.basicConfig()\n" + LOSSES
    logged = subprocess.run([sys.executable, "-c", set_up], capture_output=True, text=True, check=True)
    assert len(quiet.stderr.splitlines()) == 1
    assert len(logged.stderr.splitlines()) >= 4


def _script() -> tuple[Any, ...]:
    return scripted_reply("Let me see.", calls={"look_up": {"city": "Bern"}}), "It is there."


def test_texts_of_two_rounds_are_apart() -> None:
    """An empty line is between them, and none before the first or after the last."""
    with ScriptedProvider(*_script()) as provider, Session(provider.model, tools=[look_up]) as session:
        stream = session.stream("Where?")
        assert "".join(stream.text_deltas()) == "Let me see.\n\nIt is there."


def test_texts_of_two_async_rounds_are_apart() -> None:
    async def run() -> str:
        with ScriptedProvider(*_script()) as provider:
            async with AsyncSession(provider.model, tools=[look_up]) as session, session.stream("Where?") as stream:
                return "".join([text async for text in stream.text_deltas()])

    assert asyncio.run(run()) == "Let me see.\n\nIt is there."
