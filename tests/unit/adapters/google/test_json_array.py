"""JSON arrays that arrive in pieces."""

import json
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import FrameTooLargeError
from dragoman.adapter.replies.framing import Frame, JsonArrayDecoder

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\[]{}, \né😀', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def cut(data: bytes, positions: Iterable[int]) -> Iterator[bytes]:
    start = 0
    for position in sorted(positions):
        yield data[start:position]
        start = position
    yield data[start:]


def decode_chunks(decoder: JsonArrayDecoder, chunks: Iterable[bytes]) -> list[Frame]:
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.finish()


@given(
    values=st.lists(json_values, max_size=5),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    positions=st.lists(st.integers(0, 300), max_size=6),
)
def test_any_split_gives_the_elements(
    values: list[object], indent: int | None, ascii_only: bool, positions: list[int]
) -> None:
    """Each element of the array is one frame, wherever the bytes are cut: in strings, escapes, characters, brackets."""
    data = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    for chunks in (cut(data, positions), (data[index : index + 1] for index in range(len(data)))):
        decoder = JsonArrayDecoder()
        assert [json.loads(frame.data) for frame in decode_chunks(decoder, chunks)] == values
        assert decoder.closed


WHOLE = b'\xef\xbb\xbf [ {"a": "\\"]}, \\\\"},\r\n{"b": [1, {"c": "\xc3\xa9"}]} , "x,]", -1.5e3,null ]\n'


def test_every_two_way_split_gives_the_same_frames() -> None:
    """One stream is cut once, at each of its bytes."""
    frames = decode_chunks(JsonArrayDecoder(), [WHOLE])
    expected = [b'{"a": "\\"]}, \\\\"}', b'{"b": [1, {"c": "\xc3\xa9"}]}', b'"x,]"', b"-1.5e3", b"null"]
    assert [frame.data for frame in frames] == expected
    for position in range(len(WHOLE) + 1):
        assert decode_chunks(JsonArrayDecoder(), [WHOLE[:position], WHOLE[position:]]) == frames


def test_an_array_is_closed_by_its_own_bracket_only() -> None:
    """Cut before its last bracket an array is open, whatever its elements hold."""
    end = WHOLE.rindex(b"]")
    for position in range(len(WHOLE)):
        decoder = JsonArrayDecoder()
        decode_chunks(decoder, [WHOLE[:position]])
        assert decoder.closed == (position > end)


def test_a_lone_object_counts_as_an_array_of_one() -> None:
    """Errors are sent in this form instead of the array."""
    decoder = JsonArrayDecoder()
    assert decode_chunks(decoder, [b' {"error"', b': {"code": 503}}\n']) == [Frame("", b'{"error": {"code": 503}}')]
    assert decoder.closed


@pytest.mark.parametrize("garbage", [b"}", b"]", b"oops", b'[{"more": 1}]', b'"text"'])
def test_data_after_the_array_is_not_ignored(garbage: bytes) -> None:
    """It becomes a frame, which the parser or the reader refuses."""
    frames = decode_chunks(JsonArrayDecoder(), [b'[{"a": 1}] ' + garbage])
    assert frames[0].data == b'{"a": 1}'
    assert len(frames) > 1


@given(frame_cap=st.integers(1, 40), body_cap=st.integers(1, 120), positions=st.lists(st.integers(0, 120), max_size=4))
def test_caps_apply_at_the_same_place_for_any_split(frame_cap: int, body_cap: int, positions: list[int]) -> None:
    """The frames before an element or a body that is too large come out first, then the same error."""

    def outcome(chunks: Iterable[bytes]) -> tuple[list[Frame], str | None]:
        decoder, frames = JsonArrayDecoder(frame_cap, body_cap), list[Frame]()
        try:
            for chunk in chunks:
                frames += decoder.feed(chunk)
            frames += decoder.finish()
        except FrameTooLargeError as error:
            return frames, str(error)
        return frames, None

    whole = outcome([WHOLE])
    assert outcome(cut(WHOLE, positions)) == whole
    assert outcome(WHOLE[index : index + 1] for index in range(len(WHOLE))) == whole
    assert all(len(frame.data) <= frame_cap for frame in whole[0])
    if len(WHOLE) > body_cap:
        assert whole[1] is not None


def test_a_huge_string_is_scanned_once() -> None:
    """An element that arrives in many pieces is joined once, and each of its bytes is looked at once."""
    decoder = JsonArrayDecoder()
    searched = 0
    scan = decoder._scan

    def count_calls(chunk: bytes, position: int) -> tuple[int, bool]:
        nonlocal searched
        searched += len(chunk) - position
        return scan(chunk, position)

    decoder._scan = count_calls  # type: ignore[method-assign]
    pieces = [b'[{"text": "', *[b"x" * 100] * 1000, b'"}]']
    assert len(decode_chunks(decoder, pieces)) == 1
    assert searched <= sum(map(len, pieces))
