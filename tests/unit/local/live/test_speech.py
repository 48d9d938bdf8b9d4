"""The embedded model writes text: whole, streamed, limited and counted."""

import asyncio
import json
import math
from decimal import Decimal
from typing import Any

import jsonschema_rs
import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import ContextOverflowError, InvalidRequestError, RequestTimeoutError
from dragoman.adapter.wirejson import loads_object
from dragoman.canonical.events import MessageComplete, StreamEvent, TextDelta
from dragoman.canonical.message import Message, StopReason
from dragoman.canonical.usage import CostStatus
from dragoman.local import AsyncLocalTransport
from dragoman.local.files import model_file
from dragoman.local.model import get_model
from tests.unit.local.live.conftest import FREE_ENDS, LONG, Asker, forced_schema
from tests.unit.local.live.wording import reword

pytestmark = pytest.mark.live_local

QUESTION = "What is the capital of France?"


def test_a_reply_has_counts_and_costs_nothing(ask: Asker) -> None:
    """The counts are the runtime's own, and the price is zero and known."""
    reply = ask(reword(QUESTION), max_output_tokens=12)
    assert reply.stop_reason in FREE_ENDS
    assert reply.usage is not None
    assert reply.usage.output_tokens <= 12
    assert (reply.usage.cost_usd, reply.usage.cost_status) == (Decimal(0), CostStatus.FREE)
    assert reply.metadata.model == "local:smollm2-135m"


def test_the_prompt_is_counted_as_the_model_reads_it(ask: Asker) -> None:
    """The template and the tokens are in the model's file: the count is the same on every machine."""
    reply = ask(QUESTION, max_output_tokens=1)
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (37, 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("one two three four five six seven", marks=pytest.mark.exhaustive),
        "🌱 and λόγος and 🌳 and ῥῆμα",
    ],
)
def test_streams_and_the_whole_reply_agree(ask: Asker, text: str) -> None:
    """Sync, async and unstreamed are one message, and its pieces join to it. The grammar allows one text only."""
    context = ask.context()
    options: dict[str, Any] = {"output_schema": forced_schema(text), "max_output_tokens": 100}
    wire = ask.adapter.to_wire(
        [Message.user(reword(QUESTION))], [], AdapterOptions(context=context, stream=True, **options)
    )
    with ask.transport.stream(ask.adapter, wire) as reply:
        events = list(ask.adapter.iter_stream(reply.chunks, context))

    async def collect_async() -> list[StreamEvent]:
        async with AsyncLocalTransport().stream(ask.adapter, wire) as reply:
            return [event async for event in ask.adapter.stream_response(reply.chunks, context)]

    whole = ask(reword(QUESTION), **options)
    assert json.loads(whole.text) == text
    assert whole.stop_reason is StopReason.END_TURN
    for stream_events in (events, asyncio.run(collect_async())):
        complete = stream_events[-1]
        assert isinstance(complete, MessageComplete)
        assert complete.message.content == whole.content
        assert complete.message.stop_reason is whole.stop_reason
        pieces = [event.text for event in stream_events if isinstance(event, TextDelta)]
        assert len(pieces) > 1
        assert "".join(pieces) == whole.text


def test_a_reply_stops_at_its_limits(ask: Asker) -> None:
    """At a count of tokens, and before a stop sequence, which is not part of it. The grammar makes it reach both."""
    cut = ask(reword(QUESTION), output_schema=forced_schema(LONG), max_output_tokens=5)
    assert cut.stop_reason is StopReason.MAX_TOKENS
    assert cut.usage is not None
    assert cut.usage.output_tokens == 5
    assert json.dumps(LONG).startswith(cut.text)
    stopped = ask(reword(QUESTION), output_schema=forced_schema("one two three four five"), stop_sequences=("four",))
    assert stopped.stop_reason is StopReason.STOP_SEQUENCE
    assert stopped.text == '"one two three '


@pytest.mark.exhaustive
def test_sampling_draws_from_what_is_allowed(ask: Asker) -> None:
    """At a temperature that makes all tokens equally likely, other seeds draw other numbers."""
    schema = {"type": "integer", "minimum": 100_000, "maximum": 999_999}
    drawn = [ask(reword(QUESTION), temperature=1e6, seed=seed, output_schema=schema) for seed in range(4)]
    numbers = [json.loads(reply.text) for reply in drawn]
    assert {reply.stop_reason for reply in drawn} == {StopReason.END_TURN}
    assert all(100_000 <= number <= 999_999 for number in numbers)
    assert len(set(numbers)) > 1


def test_a_schema_binds_the_answer(ask: Asker) -> None:
    """The text is JSON that obeys it, unless the limit cuts it."""
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "large": {"type": "boolean"}},
        "required": ["city", "large"],
        "additionalProperties": False,
    }
    reply = ask(reword(QUESTION), output_schema=schema)
    assert reply.stop_reason in FREE_ENDS
    if reply.stop_reason is StopReason.END_TURN:
        jsonschema_rs.validate(schema, json.loads(reply.text))
    assert reply.text.startswith("{")
    chosen = ask(reword(QUESTION), output_schema={"enum": ["Paris", "Lyon", None, 7]}, max_output_tokens=20)
    assert json.loads(chosen.text) in ["Paris", "Lyon", None, 7]
    assert chosen.stop_reason is StopReason.END_TURN


def test_an_abandoned_generation_ends(ask: Asker) -> None:
    """At its next piece the runtime detects that the caller left, and does not write the other four hundred words."""
    wire = ask.adapter.to_wire([Message.user(reword(QUESTION))], [], AdapterOptions(output_schema=forced_schema(LONG)))
    lines: list[dict[str, Any]] = []
    unwanted = 0

    def is_wanted() -> bool:
        nonlocal unwanted
        unwanted += len(lines) >= 3
        return len(lines) < 3

    body = loads_object(wire.body, what="the request")
    get_model("smollm2-135m", lambda _: None).run(body, lines.append, is_wanted, math.inf)
    assert [line["type"] for line in lines] == ["start", "text", "text"]
    assert unwanted < 10  # at the next piece, for what the runtime had held back, and when it had returned


def test_leaving_a_stream_frees_the_model(ask: Asker) -> None:
    """Repeatedly: each stream starts, and the next request is served."""
    options = AdapterOptions(stream=True, output_schema=forced_schema(LONG))
    wire = ask.adapter.to_wire([Message.user(reword(QUESTION))], [], options)
    for _ in range(2):
        with ask.transport.stream(ask.adapter, wire) as reply:
            types = [json.loads(next(reply.chunks))["type"] for _ in range(3)]
        assert types == ["start", "text", "text"]
    assert ask(reword(QUESTION), max_output_tokens=1).stop_reason in FREE_ENDS


def test_cancelling_an_async_stream_frees_the_model_and_the_loop(ask: Asker) -> None:
    """Another task gets its turn while the model writes: after the third of some four hundred lines."""
    options = AdapterOptions(stream=True, output_schema=forced_schema(LONG))
    wire = ask.adapter.to_wire([Message.user(reword(QUESTION))], [], options)

    async def main() -> None:
        begun = asyncio.Event()

        async def listen() -> None:
            count = 0
            async with AsyncLocalTransport().stream(ask.adapter, wire) as reply:
                async for _ in reply.chunks:
                    count += 1
                    if count == 3:
                        begun.set()

        task = asyncio.create_task(listen())
        await begun.wait()
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ask(reword(QUESTION), max_output_tokens=1).stop_reason in FREE_ENDS


def test_an_unsupported_request_is_a_typed_error(ask: Asker) -> None:
    """Refused before anything is written, with the runtime's own words; a timeout is one too."""
    with pytest.raises(InvalidRequestError, match="max_new_tokens"):
        ask(QUESTION, max_output_tokens=0)
    with pytest.raises(InvalidRequestError, match="nonsense"):
        ask(QUESTION, output_schema={"type": "nonsense"})
    with pytest.raises(InvalidRequestError, match="seed"):
        ask(QUESTION, temperature=1.0, seed=-1)
    with pytest.raises(ContextOverflowError, match="room for 8191"):
        ask("word " * 9000)
    wire = ask.adapter.to_wire([Message.user(QUESTION)], [], AdapterOptions(output_schema=forced_schema(LONG)))
    with pytest.raises(RequestTimeoutError):
        ask.transport.send(ask.adapter, wire, timeout=0.001)


def test_the_model_is_loaded_once(ask: Asker) -> None:
    """All transports of a process share it, under its name and under its path, so it takes its memory once."""
    ask(QUESTION, max_output_tokens=1)
    loaded_names: list[str] = []
    names = ("smollm2-135m", str(model_file("smollm2-135m")))
    assert len({id(get_model(name, loaded_names.append)) for name in names}) == 1
    assert loaded_names == []
