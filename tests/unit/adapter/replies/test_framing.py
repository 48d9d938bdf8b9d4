"""Framing by example: what a frame is, and where the caps lie. The laws are in "
"tests/laws/streams/test_framing_laws.py."""

import pytest

from dragoman.adapter.errors import FrameTooLargeError
from dragoman.adapter.replies.framing import Frame, NdjsonDecoder, SseDecoder
from dragoman.adapter.wire import DEFAULT_BODY_CAP, DEFAULT_FRAME_CAP


@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (b"data: a\n\n", [Frame("", b"a")]),
        (b"event: e\ndata: a\n\n", [Frame("e", b"a")]),
        (b"data: a\ndata: b\n\n", [Frame("", b"a\nb")]),
        (b"data\n\n", [Frame("", b"")]),
        (b"data:\n\n", [Frame("", b"")]),
        (b"data:a\n\ndata:  b\n\n", [Frame("", b"a"), Frame("", b" b")]),
        (b": comment\n\ndata: a\n\n", [Frame("", b"a")]),
        (b"event: e\n\ndata: a\n\n", [Frame("", b"a")]),
        (b"id: 1\nretry: 5\nfoo: bar\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [Frame("", b"a")]),
        ("data: a\u2028b\u0085c\n\n".encode(), [Frame("", "a\u2028b\u0085c".encode())]),
        (b"event: \xff\ndata: a\n\n", [Frame("\ufffd", b"a")]),
        (b"", []),
    ],
)
def test_server_sent_events(data: bytes, frames: list[Frame]) -> None:
    assert SseDecoder().feed(data) == frames


def test_an_unclosed_event_comes_at_the_end() -> None:
    """The grammar drops it; the caller decides whether its data is complete."""
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n\nevent: e\ndata: b") == [Frame("", b"a")]
    assert decoder.finish() == [Frame("e", b"b")]
    assert decoder.finish() == []


def test_json_lines() -> None:
    """One value a line; blank lines are skipped, and the last line end is optional."""
    decoder = NdjsonDecoder()
    assert decoder.feed(b'{"a":1}\n\r\n  \n{"a":2}\n{"a"') == [Frame("", b'{"a":1}'), Frame("", b'{"a":2}')]
    assert decoder.finish() == [Frame("", b'{"a"')]
    assert decoder.finish() == []


@pytest.mark.parametrize("make", [SseDecoder, NdjsonDecoder])
def test_a_line_over_the_cap_is_refused(make: type[SseDecoder | NdjsonDecoder]) -> None:
    """As soon as it is too long, not when it ends; a line of exactly the cap passes."""
    assert len(make(frame_cap=10).feed(b"data: 4567\n\n")) == 1
    for chunk in (b"data: 45678\n\n", b"data: 45678"):
        with pytest.raises(FrameTooLargeError, match="one line of the reply is over 10 bytes"):
            make(frame_cap=10).feed(chunk)


def test_an_event_over_the_cap_is_refused() -> None:
    """Its data lines count together with the line feeds between them."""
    assert SseDecoder(frame_cap=9).feed(b"data:abcd\ndata:abcd\n\n") == [Frame("", b"abcd\nabcd")]
    with pytest.raises(FrameTooLargeError, match="one event of the reply is over 9 bytes"):
        SseDecoder(frame_cap=9).feed(b"data:abcd\ndata:abcd\ndata\n\n")
    with pytest.raises(FrameTooLargeError, match="one event of the reply is over 5 bytes"):
        SseDecoder(frame_cap=5).feed(b"data\n" * 7)


def test_frames_before_an_error_come_first() -> None:
    """And from then on every call raises it."""
    decoder = SseDecoder(frame_cap=10)
    assert decoder.feed(b"data: a\n\n" + b"x" * 11) == [Frame("", b"a")]
    with pytest.raises(FrameTooLargeError):
        decoder.feed(b"data: b\n\n")
    with pytest.raises(FrameTooLargeError):
        decoder.finish()


def test_a_body_over_the_cap_is_refused() -> None:
    """All bytes count, comments included."""
    decoder = SseDecoder(body_cap=20)
    assert decoder.feed(b": 4567890\n") == []
    assert decoder.feed(b"data: 78\n\n") == [Frame("", b"78")]
    with pytest.raises(FrameTooLargeError, match="the reply is over 20 bytes: raise the body cap"):
        decoder.feed(b"\n")


def test_the_caps_are_generous() -> None:
    """16 MiB a frame, 64 MiB a body (docs/reference/streams.md#caps)."""
    assert (DEFAULT_FRAME_CAP, DEFAULT_BODY_CAP) == (16 * 2**20, 64 * 2**20)
