"""A stream has a work budget: what carries nothing costs next to nothing, and the event loop runs in between."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import FrameTooLargeError, RequestTimeoutError
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.replies import framing, stream_decoder
from dragoman.adapter.replies.framing import Frame, NdjsonDecoder, SseDecoder
from dragoman.adapter.replies.stream_decoder import (
    decode_batches,
    decode_batches_async,
    decode_stream,
    decode_stream_async,
)
from dragoman.canonical.events import ErrorEvent, StreamEvent
from tests.laws.streams.call_counts import calls_of
from tests.unit.adapter.toy_adapter import ToyDecoder, lines

SIZE = 64 * 1024
HELLO = lines('{"text": "Hel"}', '{"text": "lo"}', '{"done": true}')


def context() -> RequestContext:
    return RequestContext(model="toy:m")


def error_of(events: list[StreamEvent]) -> Exception:
    last = events[-1]
    assert isinstance(last, ErrorEvent)
    return last.error


@pytest.mark.parametrize("nothing", [b"\n", b"\r\n", b"\r", b":\n", b": ping\n\n", b":\r\n\r\n"])
def test_what_carries_nothing_is_skipped_in_one_step(nothing: bytes) -> None:
    """Twice the empty lines and comments are not one call more, and few objects."""
    small, large = (nothing * (size // len(nothing)) for size in (SIZE // 2, SIZE))
    assert calls_of(lambda: SseDecoder().feed(large)) <= calls_of(lambda: SseDecoder().feed(small)) < 30
    assert len(list(SseDecoder()._lines.feed(large))) < 5


def test_skipped_lines_change_no_frame() -> None:
    """Frames before, between and after long runs are as without them; a run of empty lines still ends a frame."""
    run = b"\n" * 500 + b":x\n" * 500
    body = run + b"event: a\n" + b":c\n" * 9 + b"data: 1\n" + run + b"data: 2\n\n" + run + b"data: 3\n:\ndata: 4\n\n"
    assert SseDecoder().feed(body) == [Frame("a", b"1"), Frame("", b"2"), Frame("", b"3\n4")]


@pytest.mark.parametrize(
    ("cap", "piece"),
    [("MAX_EVENT_LINES", b"data:\n"), ("MAX_IDLE_LINES", b"id\n"), ("MAX_IDLE_LINES", b" \n")],
)
def test_lines_have_a_cap(monkeypatch: pytest.MonkeyPatch, cap: str, piece: bytes) -> None:
    """Lines of one event, and lines without data, are counted; one more than the cap is a typed error."""
    monkeypatch.setattr(framing, cap, 50)
    new = NdjsonDecoder if piece == b" \n" else SseDecoder
    assert new().feed(piece * 50) == []
    with pytest.raises(FrameTooLargeError, match="over 50 lines"):
        new().feed(piece * 51)


def test_frames_and_the_events_of_one_frame_have_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream ends with a typed error, after what came before it."""
    monkeypatch.setattr(stream_decoder, "MAX_FRAMES", 20)
    events = list(decode_stream([lines('{"text": "x"}') * 30], ToyDecoder(context())))
    assert [event.type for event in events].count("text_delta") == 20
    assert isinstance(error_of(events), FrameTooLargeError)
    monkeypatch.setattr(stream_decoder, "MAX_FRAME_EVENTS", 1)
    events = list(decode_stream([HELLO], ToyDecoder(context())))
    assert isinstance(error_of(events), FrameTooLargeError)


def test_a_dense_frame_and_a_thousand_calls_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame is parsed in one step, so its values are counted first; nobody runs a thousand calls of one reply."""
    with monkeypatch.context() as patch:
        patch.setattr(stream_decoder, "_LARGE_FRAME", 100)
        patch.setattr(stream_decoder, "MAX_FRAME_VALUES", 50)
        text, dense = lines('{"text": "' + 200 * "x" + '"}'), lines('{"type": [' + "0," * 51 + "0]}")
        assert [event.type for event in ToyDecoder(context()).feed(text)] == ["message_start", "text_delta"]
        assert isinstance(error_of(ToyDecoder(context()).feed(dense)), FrameTooLargeError)
    monkeypatch.setattr(stream_decoder, "MAX_CALLS", 9)
    calls = [{"index": at, "id": f"c{at}", "function": {"name": "f", "arguments": "{}"}} for at in range(2000)]
    chunk = b"data: " + json.dumps({"choices": [{"delta": {"tool_calls": calls}}]}).encode() + b"\n\n"
    decoder = get_adapter("openai-chat:gpt-5.1").decoder(RequestContext(model="openai-chat:gpt-5.1"))
    events = decoder.feed(chunk)
    assert [event.type for event in events].count("tool_use_start") == 9
    assert "calls tools over 9 times" in str(error_of(events))


def test_warnings_about_unknown_events_have_a_cap(caplog: pytest.LogCaptureFixture) -> None:
    """A stream of ever new kinds does not fill the log."""
    body = b"".join(b'{"type": "kind %d"}\n' % number for number in range(500)) + HELLO
    with caplog.at_level(logging.WARNING, "dragoman.adapter"):
        assert list(decode_stream([body], ToyDecoder(context())))[-1].type == "message_complete"
    assert len(caplog.records) <= 100


def test_the_first_event_of_a_burst_comes_before_the_rest_is_decoded() -> None:
    """One chunk with thousands of deltas: the first is handed out after a few KiB."""
    body = lines('{"text": "some text of a delta"}') * 5000
    decoder = ToyDecoder(context())
    events = decode_stream([body], decoder)
    next(events)
    assert decoder.frames_received < 200

    async def first() -> int:
        decoder = ToyDecoder(context())
        events = decode_stream_async(one_chunk(body), decoder)
        await anext(events)
        seen = decoder.frames_received
        await events.aclose()
        return seen

    assert asyncio.run(first()) < 200


async def one_chunk(body: bytes) -> AsyncIterator[bytes]:
    yield body


class SteppingClock:
    """Each look is a millisecond later."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.mark.parametrize("chunks", [1, 200])
def test_decoding_gives_way_to_the_event_loop(chunks: int) -> None:
    """Other tasks run every few milliseconds of work, whether the bytes come as one chunk or as many."""
    body = lines('{"text": "some text of a delta"}') * 4000

    async def main() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async def pieces() -> AsyncIterator[bytes]:
            size = len(body) // chunks + 1
            for start in range(0, len(body), size):
                yield body[start : start + size]

        other = asyncio.create_task(count())
        async for _ in decode_batches_async(pieces(), ToyDecoder(context()), clock=SteppingClock()):
            pass
        other.cancel()
        return turns

    assert asyncio.run(main()) >= 4


def silent_chunks(piece: bytes, clock: Callable[[float], None], seconds: float) -> Iterator[bytes]:
    for _ in range(10_000):
        clock(seconds)
        yield piece


@pytest.mark.parametrize(
    "piece", [b" " * 300 + b"\n", b'{"type": "mood", "pad": "' + b"x" * 300 + b'"}\n', b"x" * 300], ids=len
)
def test_what_carries_no_event_is_life_for_a_stated_time(piece: bytes) -> None:
    """Large comments, events of unknown kinds and a frame that never ends: after twice the timeout they are silence."""
    now = 0.0

    def advance(seconds: float) -> None:
        nonlocal now
        now += seconds

    chunks = silent_chunks(piece, advance, 0.3)
    *_, last = decode_batches(chunks, ToyDecoder(context()), idle_timeout=2.0, clock=lambda: now)
    assert isinstance(error_of([*last]), RequestTimeoutError)
    assert 2.0 < now < 5.0
