"""Splits the bytes of a recorded stream into events. The joined events are the same stream."""

import json
import re
import struct
import zlib
from enum import StrEnum
from itertools import pairwise

from dragoman.adapter.errors import ConfigurationError

BOM = b"\xef\xbb\xbf"

_LINE_END = rb"(?:\r\n|\n|\r(?!\n))"
_LINE = re.compile(rb"(?<=\n)|(?<=\r)(?!\n)")
_BLANK_LINES = re.compile(_LINE_END + rb"{2,}")
_BLANK_LFS = re.compile(rb"\n\n+")
_DATA = re.compile(rb"(?m)^data:[ ]?([^\r\n]+)")
_OBJECT = re.compile(rb"(?s)\{.*\}")
_COMMA = re.compile(r"\s*,\s*")
_PRELUDE_SIZE, _CHECKSUM_SIZE = 12, 4


class Framing(StrEnum):
    """The framing of a stream: server-sent events, one JSON object per line, one JSON array of objects, or AWS's binary
    messages."""

    SSE = "sse"
    LINES = "lines"
    ARRAY = "array"
    AWS = "aws"

    @property
    def is_text(self) -> bool:
        """Whether the stream has lines, which may end in three ways."""
        return self is not Framing.AWS


CONTENT_TYPES = {
    Framing.SSE: "text/event-stream",
    Framing.LINES: "application/x-ndjson",
    Framing.ARRAY: "application/json",
    Framing.AWS: "application/vnd.amazon.eventstream",
}
"""The content type of each framing."""


def detect_framing(body: bytes) -> Framing:
    """Detect the framing from a stream's first bytes."""
    start = body.removeprefix(BOM).lstrip()[:1]
    if start in (b"{", b"["):
        return Framing.LINES if start == b"{" else Framing.ARRAY
    return Framing.AWS if body[:1] == b"\0" else Framing.SSE


def split_events(body: bytes) -> list[bytes]:
    """Return the events, each with the line ends, blank lines or comma after it. Comments between events count as one.

    Joined, they are the body: the first and the last have the brackets of an array. The rest after the last complete
    event is the last item.
    """
    match detect_framing(body):
        case Framing.SSE:
            blank = _BLANK_LINES if b"\r" in body else _BLANK_LFS
            return _cut(body, [0, *(found.end() for found in blank.finditer(body))])
        case Framing.LINES:
            return split_lines(body)
        case Framing.ARRAY:
            return _split_array(body)
        case Framing.AWS:
            starts = [0]
            while len(body) - starts[-1] > _PRELUDE_SIZE:
                size = int.from_bytes(body[starts[-1] : starts[-1] + 4])
                starts.append(min(starts[-1] + max(size, _PRELUDE_SIZE), len(body)))
            return _cut(body, starts)


def join_events(body: bytes, events: list[bytes]) -> bytes:
    """Return the body with these events instead. Events of an array get its brackets and commas."""
    if detect_framing(body) is not Framing.ARRAY:
        return b"".join(events)
    start, last = body.index(b"[") + 1, split_events(body)[-1]
    end = last[last.rindex(b"}") + 1 :] if b"}" in last else last.lstrip(b"[ \t\r\n")
    closing = end if end.strip() == b"]" else b""  # a truncated array has none
    return body[:start] + b",\r\n".join(event_payload(event) or event.strip() for event in events) + closing


def split_lines(body: bytes) -> list[bytes]:
    """Return the lines with their ends: LF, CRLF or CR."""
    return [line for line in _LINE.split(body) if line]


def event_payload(event: bytes) -> bytes:
    """Return the payload: the first data line, the line, the array element or the binary message's payload. It may be
    empty."""
    match detect_framing(event):
        case Framing.SSE:
            found = _DATA.search(event)
            return found[1] if found else b""
        case Framing.LINES | Framing.ARRAY:
            found = _OBJECT.search(event)
            return found[0] if found else b""
        case Framing.AWS:
            return event[_payload_start(event) : -_CHECKSUM_SIZE]


def replace_payload(event: bytes, payload: bytes) -> bytes:
    """Return the event with another payload. Lengths and checksums of a binary message are updated."""
    if detect_framing(event) is not Framing.AWS:
        return event.replace(event_payload(event), payload, 1)
    return build_aws_message(event[_PRELUDE_SIZE : _payload_start(event)], payload)


def build_aws_message(headers: bytes, payload: bytes) -> bytes:
    """Return a message of an AWS event stream, with its lengths and checksums. ``headers`` are encoded."""
    prelude = struct.pack(">II", _PRELUDE_SIZE + len(headers) + len(payload) + _CHECKSUM_SIZE, len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def _payload_start(message: bytes) -> int:
    return _PRELUDE_SIZE + int.from_bytes(message[4:8])


def require_text(body: bytes, what: str) -> None:
    """Raise ConfigurationError if the stream has no lines."""
    if not detect_framing(body).is_text:
        raise ConfigurationError(f"{what} fits only into a stream of lines, but this one is binary")


def _cut(body: bytes, starts: list[int]) -> list[bytes]:
    """Return the pieces of a body that start there."""
    return [body[start:end] for start, end in pairwise([*starts, len(body)]) if start < end]


def _split_array(body: bytes) -> list[bytes]:
    """Split an array before each element. Its bracket is in the first piece, and invalid JSON in the last."""
    text = body.decode("latin-1")  # one character per byte, so that offsets in the text are offsets in the body
    scanner = json.JSONDecoder(strict=False)
    starts, at = [0], text.index("[") + 1
    at += len(text[at:]) - len(text[at:].lstrip())
    while True:
        try:
            _, end = scanner.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        if not (comma := _COMMA.match(text, end)):
            break
        at = comma.end()
        if at < len(body):
            starts.append(at)
    return _cut(body, starts)
