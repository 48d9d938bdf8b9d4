"""The embedded model answers with message bodies, held to them by the grammar of its runtime."""

import asyncio

import pytest

from dragoman.canonical.events import MessageComplete
from dragoman.canonical.message import Message
from dragoman.formats import MessageBodyError, MessageBodySchema
from dragoman.session import AsyncSession, Session
from tests.live_local.conftest import MODEL
from tests.unit.formats.bodies import SCENARIOS, schema

QUESTION = "What is the capital of France?"
CHAT = MessageBodySchema.from_json(SCENARIOS["chat agent"][0])


def test_it_answers_with_a_body() -> None:
    """One that says what was asked for, in the part that was asked for; its stream is right from beginning to end."""
    with Session(MODEL) as session:
        events = list(session.stream(QUESTION, output_schema=CHAT, max_output_tokens=100))
        assert isinstance(events[-1], MessageComplete)
        body = CHAT.read(events[-1].message)
    assert body.text()
    assert CHAT.check(body) == ()


def test_it_writes_a_named_part() -> None:
    """Of the name and the type that were asked for."""
    wanted = schema({"name": "/capital.txt", "contentType": "text/plain", "required": True})

    async def answered() -> Message:
        async with AsyncSession(MODEL) as session:
            return await session.ask(QUESTION, output_schema=wanted, max_output_tokens=100)

    body = wanted.read(asyncio.run(answered()))
    assert [part.name for part in body.list("/*.{txt,md}")] == ["/capital.txt"]


def test_an_answer_that_is_cut_is_no_body() -> None:
    """And is told as such, with how it ended."""
    with Session(MODEL) as session, pytest.raises(MessageBodyError, match="the reply ended with max_tokens"):
        session.ask(QUESTION, output_schema=CHAT, max_output_tokens=5)
