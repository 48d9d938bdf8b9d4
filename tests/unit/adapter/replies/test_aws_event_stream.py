"""AWS event streams: whole frames for any cut of the bytes, and no damaged ones."""

import json
import struct
import zlib

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import FrameTooLargeError, MalformedReplyError
from dragoman.adapter.replies.aws_event_stream import EXCEPTION_PREFIX, AwsEventStreamDecoder
from dragoman.adapter.replies.framing import Frame
from tests.unit.adapters.bedrock.wire import frame

MESSAGES = [frame("messageStart", {"role": "assistant"}), frame("chunk", b""), frame("metadata", {"text": "é" * 90})]
BODY = b"".join(MESSAGES)
FRAMES = [
    Frame("messageStart", b'{"role": "assistant"}'),
    Frame("chunk", b""),
    Frame("metadata", json.dumps({"text": "é" * 90}).encode()),
]


def decode(body: bytes, size: int = 1, **caps: int) -> list[Frame]:
    decoder = AwsEventStreamDecoder(**caps)
    frames = [found for at in range(0, len(body), size) for found in decoder.feed(body[at : at + size])]
    return frames + decoder.finish()


@given(size=st.integers(1, len(BODY)))
def test_chunks_of_any_size_give_the_same_frames(size: int) -> None:
    """Chunks of any size give the same frames: a byte at a time, or all at once."""
    assert decode(BODY, size) == FRAMES


def test_botocore_reads_the_same_frames() -> None:
    """botocore's own parser finds the same payloads under the same names."""
    buffer = EventStreamBuffer()
    buffer.add_data(BODY)
    assert [Frame(event.headers[":event-type"], event.payload) for event in buffer] == FRAMES


@given(at=st.integers(0, len(BODY) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_always_noticed(at: int, bit: int) -> None:
    """Two checksums cover every byte. The frames before it are returned; then there is an error, or no end."""
    damaged = bytearray(BODY)
    damaged[at] ^= 1 << bit
    decoder = AwsEventStreamDecoder()
    found: list[Frame] = []

    def feed_twice() -> None:
        found.extend(decoder.feed(bytes(damaged)))
        decoder.feed(b"")

    with pytest.raises(MalformedReplyError):
        feed_twice()
    assert found == FRAMES[: len(found)]
    assert len(found) < len(FRAMES)


@given(cut=st.integers(0, len(BODY) - 1))
def test_a_truncated_message_is_no_frame(cut: int) -> None:
    """The end of the bytes does not complete a message."""
    whole = decode(BODY[:cut], 7)
    assert whole == FRAMES[: len(whole)]
    assert len(whole) < len(FRAMES)


def test_frames_before_an_error_come_out_first() -> None:
    """The next call raises it, and every later one."""
    decoder = AwsEventStreamDecoder()
    assert decoder.feed(MESSAGES[0] + b"<html>This is not a message") == FRAMES[:1]
    for _ in range(2):
        with pytest.raises(MalformedReplyError, match="not an event stream"):
            decoder.feed(b"more")
    with pytest.raises(MalformedReplyError):
        decoder.finish()


def test_failures_are_named_as_such() -> None:
    """Exceptions by their type, errors by their code, which have no payload."""
    exception = frame("throttlingException", {"message": "Slow down"}, kind="exception")
    error = frame("x", b"", kind="error", **{":error-code": "InternalFailure", ":error-message": 'It "broke"'})
    assert decode(exception + error) == [
        Frame(EXCEPTION_PREFIX + "throttlingException", b'{"message": "Slow down"}'),
        Frame(EXCEPTION_PREFIX + "InternalFailure", b'{"message":"It \\"broke\\""}'),
    ]


def _raw(headers: bytes, payload: bytes = b"{}", *, length: int | None = None) -> bytes:
    total = 16 + len(headers) + len(payload)
    prelude = struct.pack(">II", total, len(headers) if length is None else length)
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def test_headers_of_every_type_are_skipped() -> None:
    """Only texts are kept: here the name of the event is the last header."""
    values = [(0, b""), (1, b""), (2, b"a"), (3, b"ab"), (4, b"abcd"), (5, b"abcdefgh"), (6, b"\0\2hi")]
    values += [(8, b"abcdefgh"), (9, b"abcdefghabcdefgh")]
    headers = b"".join(b"\1x" + bytes([kind]) + value for kind, value in values)
    headers += b"\x0b:event-type\7\0\4ping"
    assert decode(_raw(headers)) == [Frame("ping", b"{}")]


BROKEN_HEADERS = [b"\1x", b"\1x\x63", b"\1x\7\0\xffshort", b"\1x\5abc", b"\1\xff\7\0\1a", b"\1x\7\0"]


@pytest.mark.parametrize("headers", BROKEN_HEADERS)
def test_unreadable_headers_are_malformed(headers: bytes) -> None:
    with pytest.raises(MalformedReplyError, match="headers"):
        decode(_raw(headers))


def test_headers_of_a_wrong_length_are_malformed() -> None:
    """The headers have to fit into the stated length of the message."""
    with pytest.raises(MalformedReplyError, match="no room"):
        decode(_raw(b"", length=99))


def test_caps_apply() -> None:
    """Caps apply: one cap for a message, by the length in its prelude, and one for the whole body."""
    with pytest.raises(FrameTooLargeError, match="message"):
        decode(BODY[:12], frame_cap=20)
    decoder = AwsEventStreamDecoder(body_cap=len(MESSAGES[0]) + 3)
    assert decoder.feed(BODY) == FRAMES[:1]
    with pytest.raises(FrameTooLargeError, match="reply"):
        decoder.feed(b"")
