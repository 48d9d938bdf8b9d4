"""The embedded model answers with message bodies, which the grammar of its runtime enforces.

The grammar cannot express all rules of a body, and the limit may cut any answer: then the error says so.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from dragoman.canonical.events import OutputComplete
from dragoman.formats import MessageBody, MessageBodySchema
from dragoman.output.errors import OutputError
from dragoman.session import AsyncSession, Session
from tests.unit.formats.body.strategies import SCENARIOS, schema
from tests.unit.local.live.conftest import MODEL
from tests.unit.local.live.wording import reword

pytestmark = pytest.mark.live_local

QUESTION = "What is the capital of France?"
CHAT = MessageBodySchema.from_json(SCENARIOS["chat agent"][0])
CHAT_BODY = Annotated[MessageBody, CHAT]
CUT = "the answer was cut at the limit of output tokens"


def body_or_fault(answer: Callable[[], MessageBody]) -> MessageBody | str:
    """Return the answer, or the fault."""
    try:
        return answer()
    except OutputError as error:
        return str(error)


@pytest.mark.exhaustive
def test_the_model_answers_with_a_body() -> None:
    """Of one text part, as requested; its stream is valid from start to end."""

    def answer() -> MessageBody:
        with Session(MODEL) as session:
            events = list(session.stream(reword(QUESTION), output=CHAT_BODY, output_retries=0, max_output_tokens=60))
        assert isinstance(events[-1], OutputComplete)
        body: MessageBody = events[-1].value
        return body

    match body_or_fault(answer):
        case MessageBody(parts=(part,)):
            assert part.content_type.startswith("text/")
        case fault:
            assert CUT in str(fault)


@pytest.mark.exhaustive
def test_the_model_writes_a_named_part() -> None:
    """Of the requested name and type, unless it is cut, or refers to an invalid address."""
    wanted = schema({"name": "/capital.txt", "contentType": "text/plain", "required": True})
    kind: Any = Annotated[MessageBody, wanted]

    async def answer() -> MessageBody:
        async with AsyncSession(MODEL) as session:
            reply: Any = await session.ask(reword(QUESTION), output=kind, output_retries=0, max_output_tokens=60)
        body: MessageBody = reply.output
        return body

    match body_or_fault(lambda: asyncio.run(answer())):
        case MessageBody() as body:
            assert [part.name for part in body.list("/*.{txt,md}")] == ["/capital.txt"]
        case fault:
            assert CUT in fault or "a content URL is absolute" in fault


def test_a_truncated_answer_is_no_body() -> None:
    """The error says how it ended: five tokens do not hold the smallest answer of the grammar."""
    with Session(MODEL) as session, pytest.raises(OutputError, match=CUT):
        session.ask(reword(QUESTION), output=CHAT_BODY, output_retries=0, max_output_tokens=5)
