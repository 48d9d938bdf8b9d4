"""A stream whose events are read as they arrive together, by programs that pass them on."""

import asyncio

import pytest

from dragoman import AsyncClient, MessageComplete, TextDelta
from dragoman.errors import OverloadedError
from dragoman.session.effects import SessionEvent
from dragoman.testing import ScriptedProvider


async def read(model: str) -> list[SessionEvent]:
    async with AsyncClient().session(model) as session, session.stream("Hello?") as stream:
        return [event async for events in stream.batches() for event in events]


def test_batches_hold_the_events_of_the_stream() -> None:
    with ScriptedProvider("one two three", "one two three") as provider:
        events = asyncio.run(read(provider.model))

        async def one_by_one() -> list[SessionEvent]:
            async with AsyncClient().session(provider.model) as session, session.stream("Hello?") as stream:
                return [event async for event in stream]

        expected = asyncio.run(one_by_one())
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "one two three"
    assert [type(event) for event in events] == [type(event) for event in expected]
    assert isinstance(events[-1], MessageComplete)


def test_a_session_goes_on_after_batches_were_left() -> None:
    async def leave_and_ask(model: str) -> tuple[int, str]:
        async with AsyncClient().session(model) as session:
            async with session.stream("Hello?") as stream:
                async for events in stream.batches():
                    if events:
                        break
            kept = len(session.messages)
            return kept, (await session.ask("Again?")).text

    with ScriptedProvider("one two three", "four") as provider:
        kept, text = asyncio.run(leave_and_ask(provider.model))
    assert (kept, text) == (2, "four")


def test_an_error_ends_batches() -> None:
    with ScriptedProvider(OverloadedError("busy")) as provider, pytest.raises(OverloadedError, match="busy"):
        asyncio.run(read(provider.model))
