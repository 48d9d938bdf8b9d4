"""A skimming decoder leaves text out, and finds the same counts, ids, end and errors."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from dragoman import RequestContext, get_adapter
from dragoman.adapter.replies.stream_decoder import StreamDecoder, replay
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.blocks import ToolUseBlock
from dragoman.errors import MalformedReplyError, StreamTruncatedError
from dragoman.events import ErrorEvent, MessageComplete, StreamEvent, TextDelta
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
def test_a_part_of_a_frame_is_never_taken_for_a_whole_one(name: str) -> None:
    """Wherever it is cut: the rest of it arrives later."""
    frame = decoder_of(name, skims=False).text_frame
    assert frame is not None
    whole = [each for each in WIRES[name].text_stream(words(DELTAS)) if frame.one.fullmatch(each)][:2]
    for cut in range(len(whole[1])):
        found = frame.run.match(whole[0] + whole[1][:cut])
        assert found is not None
        assert found.end() == len(whole[0])
    assert frame.run.fullmatch(b"".join(whole))


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


def joined(name: str, chunks: list[bytes]) -> tuple[list[StreamEvent], StreamDecoder]:
    decoder = decoder_of(name, skims=False)
    decoder.join_text()
    return replay(decoder, chunks), decoder


def texts_of(events: Iterable[StreamEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]


def message_of(events: list[StreamEvent]) -> Any:
    last = events[-1]
    reply = (
        last.partial if isinstance(last, ErrorEvent) else last.message if isinstance(last, MessageComplete) else None
    )
    if reply is None:
        return None
    meta = reply.metadata
    usage = None if meta.usage is None else meta.usage.raw
    error = str(last.error) if isinstance(last, ErrorEvent) else ""
    return reply.content, meta.status, meta.stop_reason, meta.provider_raw, usage, error


@pytest.mark.parametrize("name", NAMES)
def test_joined_text_is_the_same_reply_in_fewer_deltas(name: str) -> None:
    """Wherever the bytes are cut, with escapes and empty texts among the deltas."""
    odd = ['é "data":\\n\n', "\u2028", "", "\U0001f600"]
    frames = [*WIRES[name].text_stream([*words(DELTAS), *odd, *words(DELTAS)])]
    stream = b"".join(frames)
    usual = decoder_of(name, skims=False)
    plain = replay(usual, frames)
    for size in (1, 7, 100, 1000, len(stream)):
        events, decoder = joined(name, [stream[start : start + size] for start in range(0, len(stream), size)])
        assert message_of(events) == message_of(plain), size
        assert "".join(texts_of(events)) == "".join(texts_of(plain))
        assert decoder.frames_received == usual.frames_received
    assert len(texts_of(joined(name, [b"".join(WIRES[name].text_stream(words(DELTAS)))])[0])) < 5
    assert len(texts_of(joined(name, frames)[0])) == len(texts_of(plain))


@pytest.mark.parametrize("name", NAMES)
def test_halves_of_characters_are_not_joined(name: str) -> None:
    frames = [*WIRES[name].text_stream(words(DELTAS))]
    for number, half in ((20, b"\\ud83d"), (21, b"\\ude00"), (25, b"\\ud83d")):
        frames[number] = frames[number].replace(b"word", half)
    plain, events = replay(decoder_of(name, skims=False), frames), joined(name, [b"".join(frames)])[0]
    assert message_of(events) == message_of(plain)
    assert texts_of(events) == texts_of(plain)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_frame_among_joined_text_is_an_error_after_the_text_before_it(name: str) -> None:
    good = [*WIRES[name].text_stream(words(DELTAS))]
    middle = good[DELTAS // 2]
    for wrong in (middle.replace(b"word", b"wor\\d"), middle.replace(b"word", b"wor\xff")):
        stream = b"".join([*good[: DELTAS // 2], wrong, *good[DELTAS // 2 + 1 :]])
        plain, events = replay(decoder_of(name, skims=False), [stream]), joined(name, [stream])[0]
        assert message_of(events) == message_of(plain)
        assert "".join(texts_of(events)) == "".join(texts_of(plain))


@pytest.mark.parametrize("name", NAMES)
def test_joined_text_keeps_the_caps(name: str) -> None:
    """The body cap counts the bytes that arrived, and a joined frame is no larger than one frame may be."""
    frames = [*WIRES[name].text_stream(words(DELTAS))]
    stream, adapter = b"".join(frames), get_adapter(WIRES[name].model)
    assert isinstance(adapter, WireAdapter)
    settings: list[dict[str, Any]] = [{"body_cap": len(stream) // 2}, {"frame_cap": max(map(len, frames))}]
    for caps in settings:
        ends = []
        for joins in (False, True):
            decoder = adapter.reply_decoder(replace(RequestContext.for_model(WIRES[name].model), **caps))
            if joins:
                decoder.join_text()
            ends.append(known(replay(decoder, [stream])))
        assert ends[0] == ends[1], caps
