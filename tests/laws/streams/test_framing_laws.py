"""Laws of framing: however the bytes are cut, the same frames come out, and the work is linear in the bytes."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.adapter.errors import FrameTooLargeError
from dragoman.adapter.replies.framing import Frame, JsonArrayDecoder, NdjsonDecoder, SseDecoder
from dragoman.testing.strategies import json_values
from tests.laws.streams.call_counts import bytes_touched

Decoder = SseDecoder | NdjsonDecoder | JsonArrayDecoder
BOM = b"\xef\xbb\xbf"
many = settings(max_examples=10 * settings().max_examples)
"""These laws are quick to check."""


def slow_lines(data: bytes) -> list[bytes]:
    """The lines of the WHATWG grammar, read byte by byte; the last one is unclosed."""
    data = data.removeprefix(BOM)
    lines = [b""]
    for index in range(len(data)):
        byte = data[index : index + 1]
        if byte == b"\n" and data[index - 1 : index] == b"\r":
            continue
        if byte in (b"\r", b"\n"):
            lines.append(b"")
        else:
            lines[-1] += byte
    return lines


def slow_sse(data: bytes) -> list[Frame]:
    """Server-sent events by the letter of the grammar, except that an unclosed last event counts too."""
    frames: list[Frame] = []
    event, values = b"", list[bytes]()
    for line in [*slow_lines(data), b""]:
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if line == b"":
            if values:
                frames.append(Frame(event.decode("utf-8", "replace"), b"\n".join(values)))
            event, values = b"", []
        elif field == b"data":
            values.append(value)
        elif field == b"event":
            event = value
    return frames


def slow_ndjson(data: bytes) -> list[Frame]:
    return [Frame("", line) for line in slow_lines(data) if line.strip()]


KINDS: Sequence[tuple[Callable[..., Decoder], Callable[[bytes], list[Frame]]]] = (
    (SseDecoder, slow_sse),
    (NdjsonDecoder, slow_ndjson),
)


def decode(decoder: Decoder, chunks: Iterable[bytes]) -> list[Frame]:
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.finish()


def cut_at(data: bytes, positions: Iterable[int]) -> Iterator[bytes]:
    """The data in pieces; a position that occurs twice gives an empty one."""
    start = 0
    for position in sorted(positions):
        yield data[start:position]
        start = position
    yield data[start:]


SENTENCES = (
    b'data: {"text": "\xc3\xa9 \xe4\xbd\xa0 \xf0\x9f\x98\x80 \xe2\x80\xa8 \xc2\x85"}', b"data:no space", b"data:  two",
    b"data", b"data:", b"event: delta", b"event:", b": a comment", b"id: 1", b"retry: 5", b"other: field", b"", b"",
    b'{"done": true}', b" ", b"\x0b\x0c\x1c\x1d\x1e", b"data: a:b", b"datax: no", b"data: \xff",
)  # fmt: skip
streams = st.builds(
    lambda start, lines, rest: start + b"".join(line + end for line, end in lines) + rest,
    st.sampled_from([b"", BOM, BOM + BOM, BOM[:2]]),
    st.lists(
        st.tuples(st.sampled_from(SENTENCES) | st.binary(max_size=5), st.sampled_from([b"\n", b"\r\n", b"\r"])),
        max_size=12,
    ),
    st.sampled_from([b"", b"data: unfinished", b"data", b"da", b"\r"]),
)
dense = st.lists(st.sampled_from([b"\r", b"\n", b"data:", b":", b" ", b"x", b"event:e", BOM[:1], BOM[1:]])).map(
    b"".join
)


@pytest.mark.parametrize(("make", "slow"), KINDS)
@many
@given(data=streams | dense, positions=st.lists(st.integers(0, 400), max_size=8))
@example(data=BOM + b"data: x\n\n", positions=[1, 2])
@example(data=b"data: x\r\n\r\ndata: y\r\n\r\n", positions=[8, 10, 19])
@example(data=b"data: x\r\n\r\n", positions=[0, 0, 8, 8, 8])
def test_any_split_gives_the_frames_of_the_grammar(
    make: Callable[..., Decoder], slow: Callable[[bytes], list[Frame]], data: bytes, positions: list[int]
) -> None:
    """Empty chunks, a cut between CR and LF, inside the byte order mark or inside a character."""
    expected = slow(data)
    assert decode(make(), cut_at(data, positions)) == expected
    assert decode(make(), (data[i : i + 1] for i in range(len(data)))) == expected


WHOLE = b"\n".join((b": hello", *SENTENCES, b"", b"event: stop", b"data: {}", b"data: more", b"", b"data: cut off"))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=repr)
@pytest.mark.parametrize("start", [b"", BOM], ids=["plain", "bom"])
@pytest.mark.parametrize(("make", "slow"), KINDS)
def test_every_two_way_split_gives_the_same_frames(
    make: Callable[..., Decoder], slow: Callable[[bytes], list[Frame]], start: bytes, end: bytes
) -> None:
    """One stream is cut once, at each of its bytes."""
    data = start + WHOLE.replace(b"\n", end)
    expected = slow(data)
    assert len(expected) > 3
    for position in range(len(data) + 1):
        assert decode(make(), [data[:position], data[position:]]) == expected


@many
@given(
    elements=st.lists(json_values, max_size=5),
    indent=st.sampled_from([None, 0, 2]),
    start=st.sampled_from([b"", BOM, b" \r\n"]),
    positions=st.lists(st.integers(0, 200), max_size=8),
)
def test_any_split_of_an_array_gives_its_elements(
    elements: list[Any], indent: int | None, start: bytes, positions: list[int]
) -> None:
    """Brackets, quotes and commas inside strings end nothing; a truncated array is never reported as closed."""
    data = start + json.dumps(elements, indent=indent, ensure_ascii=False).encode()
    for chunks in (list(cut_at(data, positions)), [data[i : i + 1] for i in range(len(data))]):
        whole, short = JsonArrayDecoder(), JsonArrayDecoder()
        assert [json.loads(frame.data) for frame in decode(whole, chunks)] == elements
        assert whole.closed
        decode(short, cut_at(data[:-1], positions))
        assert not short.closed


def outcome(decoder: Decoder, chunks: Iterable[bytes]) -> tuple[list[Frame], str | None]:
    """The frames that came before the error, and the error."""
    frames: list[Frame] = []
    try:
        for chunk in chunks:
            frames += decoder.feed(chunk)
        frames += decoder.finish()
    except FrameTooLargeError as error:
        return frames, str(error)
    return frames, None


@pytest.mark.parametrize("make", [SseDecoder, NdjsonDecoder])
@given(
    data=streams, frame_cap=st.integers(1, 30), body_cap=st.integers(1, 200), positions=st.lists(st.integers(0, 400))
)
@example(data=b"\xef\xbb", frame_cap=1, body_cap=2, positions=[])  # half a byte order mark
def test_caps_apply_at_the_same_place_for_any_split(
    make: Callable[[int, int], Decoder], data: bytes, frame_cap: int, body_cap: int, positions: list[int]
) -> None:
    """The frames before an oversized frame or body come out first, then the same error."""
    whole = outcome(make(frame_cap, body_cap), [data])
    assert outcome(make(frame_cap, body_cap), cut_at(data, positions)) == whole
    assert outcome(make(frame_cap, body_cap), (data[i : i + 1] for i in range(len(data)))) == whole
    assert all(len(frame.data) <= frame_cap for frame in whole[0])
    if len(data) > body_cap:
        assert whole[1] is not None


@pytest.mark.parametrize("make", [SseDecoder, NdjsonDecoder, JsonArrayDecoder])
@pytest.mark.parametrize("lines", ["one huge line", "many lines"])
def test_twice_the_pieces_are_twice_the_work(make: Callable[[], Decoder], lines: str) -> None:
    """A line of any length arrives in linear time, in any pieces."""
    piece = b"x" * 64 if lines == "one huge line" else b"data: x\n\n" * 7

    def work(pieces: int) -> int:
        decoder, chunks = make(), [b'data: "', *[piece] * pieces, b'"\n\n']
        return bytes_touched(lambda: [decoder.feed(chunk) for chunk in chunks])

    assert work(2000) < 2.1 * work(1000)
    assert work(1000) < 50 * 1000 * len(piece)
