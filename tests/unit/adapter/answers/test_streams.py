"""Streams for clients: never without an end, and never an end that a client takes for a complete reply."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Message, RequestContext, get_adapter
from dragoman.adapter.answers.reply_writer import FAILED
from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import (
    ErrorEvent,
    MessageComplete,
    MessageStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
    UsageUpdate,
)
from dragoman.canonical.message import MessageMetadata, MessageStatus, StopReason
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.errors import OverloadedError, StreamTruncatedError, UnsupportedReplyError
from tests.conformance.way_back.grammar import GRAMMARS
from tests.sampling import examples

WIRES = tuple(GRAMMARS)
ENDS = {
    "anthropic": b"message_stop",
    "openai-chat": b"[DONE]",
    "openai": b"response.completed",
    "google": b"finishReason",
    "ollama": b'"done":true',
}
"""What only a complete stream has."""
BEHIND = "mistral:mistral-large-latest"
USAGE = TokenUsage(input_tokens=5, cached_input_tokens=2, output_tokens=7, reasoning_tokens=3)
CALLS = {"tu_1": {"city": "Bern"}, "tu_2": {"city": "Rome"}}


def context(**fields: Any) -> RequestContext:
    fields.setdefault("client_fields", {"stream_options": {"include_usage": True}})
    return RequestContext(model=BEHIND, **fields)


def message(*blocks: Any, stop: StopReason = StopReason.END_TURN, **fields: Any) -> Message:
    metadata = MessageMetadata(model=BEHIND, provider="mistral", stop_reason=stop, usage=Usage(**dict(USAGE)), **fields)
    return Message(id="m1", role="assistant", content=blocks, metadata=metadata)  # type: ignore[arg-type]  # pydantic makes the role


def call_events(index: int, call_id: str, cut: bool = False) -> list[StreamEvent]:
    text = json.dumps(CALLS[call_id])
    events: list[StreamEvent] = [ToolUseStart("m1", index, call_id, "weather")]
    events += [ToolUseInputDelta("m1", index, call_id, part) for part in (text[:5], text[5:])]
    return events if cut else [*events, ToolUseEnd("m1", index, call_id, CALLS[call_id])]


def whole_reply() -> list[StreamEvent]:
    """Thinking, a text and two calls."""
    blocks = [
        ThinkingBlock(text="Hmm."),
        TextBlock(text="I look."),
        *(ToolUseBlock(id=call_id, name="weather", input=arguments) for call_id, arguments in CALLS.items()),
    ]
    return [
        MessageStart("m1", "mistral-large"),
        ThinkingDelta("m1", 0, "Hm"),
        ThinkingDelta("m1", 0, "m."),
        TextDelta("m1", 1, "I "),
        TextDelta("m1", 1, "look."),
        *call_events(2, "tu_1"),
        *call_events(3, "tu_2"),
        UsageUpdate("m1", USAGE),
        MessageComplete(message(*blocks, stop=StopReason.TOOL_USE)),
    ]


def write(wire: str, events: Iterable[StreamEvent], given: RequestContext | None = None) -> bytes:
    return b"".join(get_adapter(f"{wire}:client").iter_encoded(events, given or context()))


def read(wire: str, body: bytes) -> StreamEvent:
    """The last event of a stream, read by the client's own adapter."""
    adapter = get_adapter(f"{wire}:client")
    return list(adapter.iter_stream([body], RequestContext(model=f"{wire}:client")))[-1]


@pytest.mark.parametrize("wire", WIRES)
def test_a_complete_reply_ends_completely(wire: str) -> None:
    body = write(wire, whole_reply())
    assert list(GRAMMARS[wire](body)) == []
    last = read(wire, body)
    assert isinstance(last, MessageComplete)
    assert last.message.text == "I look."
    assert last.message.thinking == "Hmm."
    assert [call.input for call in last.message.tool_uses] == list(CALLS.values())
    assert last.message.usage is not None
    assert last.message.usage.prompt_tokens == 7
    assert last.message.usage.output_tokens == 7


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_says_what_a_whole_reply_says(wire: str) -> None:
    """The same blocks, stop reason and counts."""
    events = whole_reply()
    complete = events[-1]
    assert isinstance(complete, MessageComplete)
    adapter, given = get_adapter(f"{wire}:client"), RequestContext(model=f"{wire}:client")
    whole = adapter.from_wire_response(adapter.to_wire_response(complete.message, context()), given)
    last = read(wire, write(wire, events))
    assert isinstance(last, MessageComplete)
    assert [block.model_dump(exclude={"id"}) for block in last.message.content] == [
        block.model_dump(exclude={"id"}) for block in whole.content
    ]
    assert last.message.stop_reason == whole.stop_reason
    assert last.message.usage is not None
    assert whole.usage is not None
    assert last.message.usage.total_tokens == whole.usage.total_tokens


@pytest.mark.parametrize("wire", WIRES)
def test_every_beginning_of_a_stream_is_broken(wire: str) -> None:
    """Cut after any event, the reply ends with the wire's error and without its end."""
    events = whole_reply()
    for count in range(len(events)):
        body = write(wire, events[:count])
        assert ENDS[wire] not in body
        last = read(wire, body)
        assert isinstance(last, ErrorEvent), count
        assert b"error" in body


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("started", [0, 4, 7])
def test_an_error_in_the_stream_is_the_wires_own(wire: str, started: int) -> None:
    """The client's adapter reads an error, and nothing follows it."""
    error = OverloadedError("busy", provider="mistral", status=503)
    body = write(wire, [*whole_reply()[:started], ErrorEvent(error), *whole_reply()[started:]])
    assert ENDS[wire] not in body
    assert b"busy" in body
    assert isinstance(read(wire, body), ErrorEvent)


@pytest.mark.parametrize("wire", WIRES)
def test_an_exception_of_the_source_ends_the_stream(wire: str) -> None:
    """Its text may hold internals, so the client gets its kind only."""

    def events() -> Iterator[StreamEvent]:
        yield from whole_reply()[:4]
        raise RuntimeError("/etc/secret")

    body = write(wire, events())
    assert isinstance(read(wire, body), ErrorEvent)
    assert b"secret" not in body


@pytest.mark.parametrize("wire", WIRES)
def test_a_cancelled_source_ends_nothing(wire: str) -> None:
    """The cancellation goes on, and the bytes so far have no end."""
    closed = False

    async def events() -> AsyncIterator[StreamEvent]:
        nonlocal closed
        try:
            for event in whole_reply()[:5]:
                yield event
            await asyncio.sleep(3600)
        finally:
            closed = True

    async def run() -> bytes:
        got: list[bytes] = []

        async def client() -> None:
            async for data in get_adapter(f"{wire}:client").encode_stream(events(), context()):
                got.append(data)  # noqa: PERF401  # the test reads it while it grows

        task = asyncio.create_task(client())
        while len(got) < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return b"".join(got)

    assert ENDS[wire] not in asyncio.run(run())
    assert closed


@pytest.mark.parametrize("wire", WIRES)
def test_the_source_is_closed_with_the_stream(wire: str) -> None:
    """A client that leaves releases the provider's connection."""
    closed = False

    def events() -> Iterator[StreamEvent]:
        nonlocal closed
        try:
            yield from whole_reply()
        finally:
            closed = True

    stream = get_adapter(f"{wire}:client").iter_encoded(events(), context())
    next(stream)
    stream.close()  # type: ignore[attr-defined]  # it is a generator
    assert closed


@pytest.mark.parametrize("wire", WIRES)
def test_both_twins_write_the_same(wire: str) -> None:
    moment = datetime(2026, 11, 22, tzinfo=UTC)
    adapter = get_adapter(f"{wire}:client")

    async def events() -> AsyncIterator[StreamEvent]:
        for event in whole_reply():
            yield event

    async def gather() -> list[bytes]:
        return [data async for data in adapter.encode_stream(events(), context(clock=lambda: moment))]

    assert asyncio.run(gather()) == list(adapter.iter_encoded(whole_reply(), context(clock=lambda: moment)))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "events",
    [
        [TextDelta("m1", 0, "x")],
        [MessageStart("m1", "m"), MessageStart("m2", "m")],
        [MessageStart("m1", "m"), ToolUseInputDelta("m1", 0, "tu_1", "{")],
        [MessageStart("m1", "m"), ToolUseEnd("m1", 0, "tu_1", {})],
        [MessageStart("m1", "m"), *call_events(0, "tu_1"), ToolUseStart("m1", 0, "tu_1", "weather")],
        [MessageStart("m1", "m"), "no event"],
    ],
)
def test_events_in_a_wrong_order_are_an_error(wire: str, events: list[Any]) -> None:
    """Never a reply that looks complete."""
    body = write(wire, [*events, MessageComplete(message(TextBlock(text="x")))])
    assert ENDS[wire] not in body
    assert isinstance(read(wire, body), ErrorEvent)


@pytest.mark.parametrize("wire", WIRES)
def test_a_text_inside_a_call_waits_for_its_end(wire: str) -> None:
    """Some servers mix them; no wire can say two blocks at once."""
    start, first, second, end = call_events(0, "tu_1")
    other = call_events(2, "tu_2")
    blocks = [
        ToolUseBlock(id="tu_1", name="weather", input=CALLS["tu_1"]),
        TextBlock(text="ab"),
        ToolUseBlock(id="tu_2", name="weather", input=CALLS["tu_2"]),
    ]
    events = [
        MessageStart("m1", "m"), start, first, TextDelta("m1", 1, "a"), other[0], second, other[1],
        TextDelta("m1", 1, "b"), end, *other[2:], MessageComplete(message(*blocks, stop=StopReason.TOOL_USE)),
    ]  # fmt: skip
    body = write(wire, events)
    assert list(GRAMMARS[wire](body)) == []
    last = read(wire, body)
    assert isinstance(last, MessageComplete)
    assert [call.input for call in last.message.tool_uses] == list(CALLS.values())
    assert last.message.text == "ab"


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_that_was_cut_is_not_completed(wire: str) -> None:
    """Its arguments stay as they are, or the call is a loss: a tool must not run with half of them."""
    cut = ToolUseBlock(id="tu_1", name="weather", input={}, raw_input='{"cit')
    events = [
        MessageStart("m1", "m"), ToolUseStart("m1", 0, "tu_1", "weather"),
        ToolUseInputDelta("m1", 0, "tu_1", '{"cit'), MessageComplete(message(cut, stop=StopReason.MAX_TOKENS)),
    ]  # fmt: skip
    given = context()
    last = read(wire, write(wire, events, given))
    assert isinstance(last, MessageComplete)
    assert last.message.stop_reason is StopReason.MAX_TOKENS
    calls = last.message.tool_uses
    if calls:
        assert [call.raw_input for call in calls] == ['{"cit']
    else:
        assert "invalid_input" in {loss.kind for loss in given.losses}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stop", FAILED)
def test_a_failed_reply_is_an_error(wire: str, stop: StopReason) -> None:
    """No wire has a word for a reply that its provider broke off, so it is not passed off as one."""
    failed = message(TextBlock(text="x"), stop=stop)
    body = write(wire, [MessageStart("m1", "m"), TextDelta("m1", 0, "x"), MessageComplete(failed)])
    assert isinstance(read(wire, body), ErrorEvent)
    assert get_adapter(f"{wire}:client").to_wire_response(failed, context()).status == 500
    broken = message(TextBlock(text="x"), status=MessageStatus.PARTIAL)
    assert isinstance(read(wire, write(wire, [MessageStart("m1", "m"), MessageComplete(broken)])), ErrorEvent)


@pytest.mark.parametrize("wire", WIRES)
def test_what_no_event_carries_comes_from_the_message(wire: str) -> None:
    """An image at the end, or its loss."""
    image = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")
    given = context()
    events = [
        MessageStart("m1", "m"), TextDelta("m1", 0, "see"), MessageComplete(message(TextBlock(text="see"), image)),
    ]  # fmt: skip
    body = write(wire, events, given)
    assert (b"aGk=" in body) is not any(loss.kind == "media" for loss in given.losses)
    assert isinstance(read(wire, body), MessageComplete)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "blocks",
    [(TextBlock(text="other"), TextBlock(text="B")), (TextBlock(text="A"), TextBlock(text="other")),
     (TextBlock(text="A"),)],
)  # fmt: skip
def test_a_message_that_is_not_what_was_sent_is_a_loss(wire: str, blocks: tuple[TextBlock, ...]) -> None:
    """Nothing can take back what the client has."""
    given = context()
    events = [
        MessageStart("m1", "m"), TextDelta("m1", 0, "A"), TextDelta("m1", 1, "B"), MessageComplete(message(*blocks)),
    ]  # fmt: skip
    body = write(wire, events, given)
    assert isinstance(read(wire, body), MessageComplete)
    assert [loss.kind for loss in given.losses if loss.kind == "flattened"] == ["flattened"]


@pytest.mark.parametrize("wire", WIRES)
def test_the_end_of_a_text_that_had_no_delta_is_sent(wire: str) -> None:
    """Some providers send the rest of an item with its end only."""
    whole = message(TextBlock(text="A and more. "), TextBlock(text="B and more."))
    events = [
        MessageStart("m1", "m"), TextDelta("m1", 0, "A"), TextDelta("m1", 1, "B"), MessageComplete(whole),
    ]  # fmt: skip
    given = context()
    last = read(wire, write(wire, events, given))
    assert isinstance(last, MessageComplete)
    assert sorted(last.message.text) == sorted(whole.text)
    assert [loss.block_index for loss in given.losses if loss.kind == "flattened"] == [0]


def test_message_start_says_the_tokens_that_are_known() -> None:
    """The provider's if it sends them at its start, else the estimate, else 0; the last event has the true counts."""

    def counts(events: list[StreamEvent], given: RequestContext) -> tuple[int, int]:
        found = [json.loads(line[6:]) for line in write("anthropic", events, given).decode().split("\n")
                 if line.startswith("data: ")]  # fmt: skip
        return found[0]["message"]["usage"]["input_tokens"], found[-2]["usage"]["input_tokens"]

    end = MessageComplete(message(TextBlock(text="x")))
    start, text = MessageStart("m1", "m"), TextDelta("m1", 0, "x")
    assert counts([start, UsageUpdate("m1", TokenUsage(input_tokens=4)), text, end], context()) == (4, 5)
    assert counts([start, text, end], context(estimated_input_tokens=9)) == (9, 5)
    assert counts([start, text, end], context()) == (0, 5)


def test_chat_sends_counts_only_if_they_were_asked_for() -> None:
    """A client that did not ask may stop at a chunk without choices."""
    assert b'"usage"' in write("openai-chat", whole_reply())
    assert b'"usage"' not in write("openai-chat", whole_reply(), context(client_fields={}))


def test_google_streams_an_array_to_a_client_that_asked_for_one() -> None:
    """A broken array is not JSON."""
    given = context(client_query={"alt": "json"})
    body = write("google", whole_reply(), given)
    assert len(json.loads(body)) == 8
    last = read("google", body)
    assert isinstance(last, MessageComplete)
    assert last.message.text == "I look."
    for count in range(len(whole_reply())):
        broken = write("google", whole_reply()[:count], context(client_query={"alt": "json"}))
        assert isinstance(read("google", broken), ErrorEvent)
        with pytest.raises(ValueError, match=r"delimiter|char"):
            json.loads(broken)
    assert get_adapter("google:client").reply_encoder(given).media_type == "application/json"
    assert get_adapter("google:client").reply_encoder(context()).media_type == "text/event-stream"
    assert get_adapter("ollama:client").reply_encoder(context()).media_type == "application/x-ndjson"


@pytest.mark.parametrize("wire", WIRES)
@examples(300, sampled=15)
@given(parts=st.lists(st.tuples(st.integers(0, 3), st.text(max_size=6)), max_size=12))
def test_any_text_arrives_as_it_is(wire: str, parts: list[tuple[int, str]]) -> None:
    """Whatever characters it has, and however it is cut."""
    blocks = [[text for place, text in parts if place == index] for index in range(4)]
    events: list[StreamEvent] = [MessageStart("m1", "m")]
    for index, texts in enumerate(blocks):
        events += [TextDelta("m1", index, text) for text in texts]
    whole = message(*(TextBlock(text="".join(texts)) for texts in blocks))
    last = read(wire, write(wire, [*events, MessageComplete(whole)]))
    assert isinstance(last, MessageComplete)
    assert last.message.text == whole.text


def test_other_adapters_say_who_writes_replies() -> None:
    adapter = get_adapter("cohere:command-a")
    with pytest.raises(UnsupportedReplyError, match="anthropic"):
        adapter.to_wire_response(message(TextBlock(text="x")), context())
    with pytest.raises(UnsupportedReplyError):
        adapter.to_wire_response(StreamTruncatedError("x"), context())
    with pytest.raises(UnsupportedReplyError):
        adapter.iter_encoded([], context())
    with pytest.raises(UnsupportedReplyError):
        adapter.encode_stream(_no_events(), context())


async def _no_events() -> AsyncIterator[StreamEvent]:
    for event in whole_reply()[:0]:
        yield event
