"""The embedded model speaks: whole, streamed, limited and counted."""

import asyncio
import json
from decimal import Decimal

import jsonschema_rs
import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import ContextOverflowError, InvalidRequestError, RequestTimeoutError
from dragoman.canonical.events import MessageComplete, StreamEvent, TextDelta
from dragoman.canonical.message import Message, StopReason
from dragoman.canonical.usage import CostStatus
from dragoman.transport.local import AsyncLocalTransport
from dragoman.transport.local.files import model_file
from dragoman.transport.local.model import loaded_model
from tests.live_local.conftest import Asker

QUESTION = "What is the capital of France?"


def test_it_answers_counts_and_costs_nothing(ask: Asker) -> None:
    """The counts are the runtime's own, the price is zero and known, and the same question has the same answer."""
    first, second = ask(QUESTION), ask(QUESTION)
    assert "Paris" in first.text
    assert first.stop_reason is StopReason.END_TURN
    assert first.usage is not None
    assert first.usage.input_tokens > len(QUESTION.split())
    assert 0 < first.usage.output_tokens < 50
    assert (first.usage.cost_usd, first.usage.cost_status) == (Decimal(0), CostStatus.FREE)
    assert (second.content, second.usage) == (first.content, first.usage)
    assert first.metadata.model == "local:smollm2-135m"


@pytest.mark.parametrize("question", [QUESTION, "Write three words with an emoji each, such as 🌱, and one in Greek."])
def test_streams_and_the_whole_reply_agree(ask: Asker, question: str) -> None:
    """Sync, async and unstreamed are one message, and its pieces join to it."""
    context = ask.context()
    options = AdapterOptions(context=context, stream=True, max_output_tokens=24)
    wire = ask.adapter.to_wire([Message.user(question)], [], options)
    with ask.transport.stream(ask.adapter, wire) as reply:
        events = list(ask.adapter.iter_stream(reply.chunks, context))

    async def streamed() -> list[StreamEvent]:
        async with AsyncLocalTransport().stream(ask.adapter, wire) as reply:
            return [event async for event in ask.adapter.stream_response(reply.chunks, context)]

    whole = ask(question, max_output_tokens=24)
    for told in (events, asyncio.run(streamed())):
        complete = told[-1]
        assert isinstance(complete, MessageComplete)
        assert complete.message.content == whole.content
        assert complete.message.stop_reason is whole.stop_reason
        pieces = [event.text for event in told if isinstance(event, TextDelta)]
        assert len(pieces) > 3
        assert "".join(pieces) == whole.text


def test_it_stops_where_it_is_told_to(ask: Asker) -> None:
    """By a count of tokens, and before a stop sequence, which it does not say."""
    cut = ask("Count from one to twenty.", max_output_tokens=5)
    assert cut.stop_reason is StopReason.MAX_TOKENS
    assert cut.usage is not None
    assert cut.usage.output_tokens == 5
    stopped = ask(QUESTION, stop_sequences=("Par",))
    assert stopped.stop_reason is StopReason.STOP_SEQUENCE
    assert stopped.text == ask(QUESTION).text.partition("Par")[0]


def test_a_temperature_turns_sampling_on(ask: Asker) -> None:
    """A seed makes it repeatable; a temperature of 0 is none."""
    story = "Tell me a story."
    drawn = [ask(story, temperature=1.5, seed=seed, max_output_tokens=12).text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    greedy = ask(story, max_output_tokens=12).text
    assert ask(story, temperature=0.0, max_output_tokens=12).text == greedy


def test_a_schema_binds_the_answer(ask: Asker) -> None:
    """The text is JSON that obeys it, whatever the model would rather say."""
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "large": {"type": "boolean"}},
        "required": ["city", "large"],
        "additionalProperties": False,
    }
    reply = ask("Describe Paris in JSON.", output_schema=schema)
    assert reply.stop_reason is StopReason.END_TURN
    jsonschema_rs.validate(schema, json.loads(reply.text))


def test_leaving_a_stream_frees_the_model(ask: Asker) -> None:
    """The rest is not written: the next answer does not wait for hundreds of tokens."""
    wire = ask.adapter.to_wire([Message.user("Count to one thousand.")], [], AdapterOptions(stream=True))
    with ask.transport.stream(ask.adapter, wire) as reply:
        first = [next(reply.chunks) for _ in range(3)]
    assert len(first) == 3
    with ask.transport.stream(ask.adapter, wire) as again:
        assert [next(again.chunks) for _ in range(3)] == first
    assert "Paris" in ask(QUESTION).text


def test_cancelling_an_async_stream_frees_the_model_and_the_loop_runs_on(ask: Asker) -> None:
    """Other tasks get their turns while the model writes."""
    wire = ask.adapter.to_wire([Message.user("Count to one thousand.")], [], AdapterOptions(stream=True))
    turns = 0

    async def listen() -> None:
        async with AsyncLocalTransport().stream(ask.adapter, wire) as reply:
            async for _ in reply.chunks:
                pass

    async def main() -> None:
        nonlocal turns
        task = asyncio.create_task(listen())
        while turns < 20:
            await asyncio.sleep(0.01)
            turns += 1
            assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert "Paris" in ask(QUESTION).text


def test_what_it_cannot_serve_is_a_typed_error(ask: Asker) -> None:
    """Refused before anything is written, with the runtime's own words, and late is late."""
    with pytest.raises(InvalidRequestError, match="max_new_tokens"):
        ask(QUESTION, max_output_tokens=0)
    with pytest.raises(InvalidRequestError, match="nonsense"):
        ask(QUESTION, output_schema={"type": "nonsense"})
    with pytest.raises(InvalidRequestError, match="seed"):
        ask(QUESTION, temperature=1.0, seed=-1)
    with pytest.raises(ContextOverflowError, match="8192"):
        ask("word " * 9000)
    wire = ask.adapter.to_wire([Message.user("Count to one thousand.")], [], AdapterOptions())
    with pytest.raises(RequestTimeoutError):
        ask.transport.send(ask.adapter, wire, timeout=0.001)


def test_the_model_is_loaded_once(ask: Asker) -> None:
    """All transports of a process share it, under its name and under its path, so it takes its memory once."""
    ask(QUESTION)
    told: list[str] = []
    names = ("smollm2-135m", str(model_file("smollm2-135m")))
    assert len({id(loaded_model(name, told.append)) for name in names}) == 1
    assert told == []
