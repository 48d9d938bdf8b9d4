"""A skimming decoder leaves text out, and finds the same counts, ids, end and errors."""

from collections.abc import Iterable
from typing import Any

import pytest

from dragoman import RequestContext, get_adapter
from dragoman.adapter.contract import WireAdapter
from dragoman.adapter.replies.stream_decoder import StreamDecoder, replay
from dragoman.blocks import ToolUseBlock
from dragoman.errors import MalformedReplyError, StreamTruncatedError
from dragoman.events import ErrorEvent, MessageComplete, StreamEvent
from tests.benchmarks.wires import WIRES, arguments, words
from tests.laws.streams.call_counts import calls_of

NAMES = ("messages", "responses", "chat")
DELTAS = 40


def decoder_of(name: str, *, skims: bool) -> StreamDecoder:
    model = WIRES[name].model
    adapter = get_adapter(model)
    assert isinstance(adapter, WireAdapter)
    decoder = adapter.reply_decoder(RequestContext.for_model(model))
    if skims:
        decoder.skim()
    return decoder


def known(events: Iterable[StreamEvent]) -> tuple[Any, ...]:
    last = list(events)[-1]
    if isinstance(last, ErrorEvent):
        usage = None if last.partial is None else last.partial.usage
        return type(last.error), str(last.error), usage and usage.output_tokens
    assert isinstance(last, MessageComplete)
    meta = last.message.metadata
    usage = meta.usage
    assert usage is not None
    calls = [block for block in last.message.content if isinstance(block, ToolUseBlock)]
    return (
        meta.model,
        meta.stop_reason,
        meta.status,
        usage.cost_usd,
        usage.raw,
        [(call.name, call.input) for call in calls],
    )


def both(name: str, chunks: list[bytes]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    plain, skimming = decoder_of(name, skims=False), decoder_of(name, skims=True)
    return known(replay(plain, chunks)), known(replay(skimming, chunks))


@pytest.mark.parametrize("name", NAMES)
def test_the_counts_and_the_end_are_those_of_the_whole_stream(name: str) -> None:
    frames = [*WIRES[name].text_stream([*words(DELTAS), 'é "data":\\n\n', "\u2028", ""])]
    stream = b"".join(frames)
    for size in (1, 7, 100, len(stream)):
        plain, skimmed = both(name, [stream[start : start + size] for start in range(0, len(stream), size)])
        assert skimmed == plain
    plain, skimmed = both(name, frames)
    assert skimmed == plain


@pytest.mark.parametrize("name", NAMES)
def test_calls_are_read_as_always(name: str) -> None:
    plain, skimmed = both(name, [*WIRES[name].call_stream([arguments(500)] * 2)])
    assert skimmed == plain


@pytest.mark.parametrize("name", NAMES)
def test_most_of_the_text_is_left_out_and_each_chunk_still_gives_an_event(name: str) -> None:
    frames = [*WIRES[name].text_stream(words(200))]

    def work(*, skims: bool) -> int:
        decoder = decoder_of(name, skims=skims)
        return calls_of(lambda: replay(decoder, frames))

    assert work(skims=True) < work(skims=False) / 2
    decoder = decoder_of(name, skims=True)
    given = [decoder.feed(frame) for frame in frames]
    assert all(given[10:190])
    assert decoder.frames_received >= 200


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_frame_among_the_text_is_an_error_as_always(name: str) -> None:
    good = [*WIRES[name].text_stream(words(DELTAS))]
    middle = good[DELTAS // 2]
    wrong = {
        "an escape that JSON lacks": middle.replace(b"word", b"wor\\d"),
        "no UTF-8": middle.replace(b"word", b"wor\xff"),
        "a control character": middle.replace(b"word", b"wor\x01"),
        "no text": middle.replace(b"word", b"7").replace(b'"7', b"7").replace(b' "', b" "),
        "a cut object": middle.replace(b"}\n\n", b"\n\n"),
    }
    for what, frame in wrong.items():
        assert frame != middle, what
        plain, skimmed = both(name, [*good[: DELTAS // 2], frame, *good[DELTAS // 2 + 1 :]])
        assert skimmed == plain, what
        assert issubclass(plain[0], MalformedReplyError), what


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_that_breaks_off_is_truncated_as_always(name: str) -> None:
    plain, skimmed = both(name, [*WIRES[name].text_stream(words(DELTAS))][: DELTAS // 2])
    assert skimmed == plain
    assert plain[0] is StreamTruncatedError


def test_text_of_a_block_that_was_not_opened_is_decoded() -> None:
    frames = [*WIRES["messages"].text_stream(words(DELTAS))]
    frames[10] = frames[10].replace(b'"index": 0', b'"index": 5').replace(b'"index":0', b'"index":5')
    plain, skimmed = both("messages", frames)
    assert skimmed == plain
    assert plain[0] is MalformedReplyError
