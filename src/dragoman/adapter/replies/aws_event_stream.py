"""Splits bytes into frames: AWS event streams (application/vnd.amazon.eventstream), in linear time.

A message is a prelude (its own length, the length of its headers, a checksum of both), headers, a payload and a
checksum of all that, numbers being big-endian. Source: docs.aws.amazon.com/AmazonS3/latest/API, "RESTSelectObject
Appendix" for the layout, smithy.io/2.0/aws/amazon-eventstream.html for the headers.
"""

import struct
import zlib
from collections.abc import Iterator

from dragoman.adapter import wirejson
from dragoman.adapter.errors import FrameTooLargeError, MalformedReplyError
from dragoman.adapter.replies.framing import CappedDecoder, Frame
from dragoman.adapter.wire import DEFAULT_BODY_CAP, DEFAULT_FRAME_CAP

EXCEPTION_PREFIX = "exception:"
"""The prefix of the name of a frame that reports an error; the rest is the provider's name of the error."""

_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
_MIN_MESSAGE_BYTES = _PRELUDE.size + _CHECKSUM.size
_STRING, _BYTES = 7, 6
# Bytes of a header's value by its type: true, false, byte, short, int, long, timestamp, UUID.
_HEADER_VALUE_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


class AwsEventStreamDecoder(CappedDecoder):
    """AWS event streams. A message states its length, so an unfinished one at the end is truncated, and no frame.

    A frame has the name of its event, or the name of its error after `EXCEPTION_PREFIX`. Its data is the payload
    unchanged. Both checksums of a message are verified.
    """

    def __init__(self, frame_cap: int = DEFAULT_FRAME_CAP, body_cap: int = DEFAULT_BODY_CAP) -> None:
        super().__init__(frame_cap, body_cap)
        self._buffer = bytearray()
        self._needed = _PRELUDE.size

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        self._buffer += chunk
        start = 0
        try:
            while len(self._buffer) - start >= self._needed:
                if self._needed == _PRELUDE.size:
                    self._needed = self._length(start)
                    continue
                message = bytes(memoryview(self._buffer)[start : start + self._needed])
                start += self._needed
                self._needed = _PRELUDE.size
                frames.append(_parse_message(message))
        finally:
            del self._buffer[:start]

    def _flush(self, frames: list[Frame]) -> None:
        return

    def _length(self, start: int) -> int:
        """Return the length of the message that begins there, from its prelude."""
        total, headers, checksum = _PRELUDE.unpack_from(self._buffer, start)
        if zlib.crc32(self._buffer[start : start + _PRELUDE.size - _CHECKSUM.size]) != checksum:
            raise MalformedReplyError("the reply is not an event stream, or is damaged: a prelude's checksum is wrong")
        if total < _MIN_MESSAGE_BYTES + headers:
            raise MalformedReplyError(f"a message of {total} bytes has no room for headers of {headers}")
        if total > self.frame_cap:
            raise FrameTooLargeError(f"one message of the reply is over {self.frame_cap} bytes")
        return int(total)


def _parse_message(message: bytes) -> Frame:
    body_end = len(message) - _CHECKSUM.size
    if zlib.crc32(memoryview(message)[:body_end]) != _CHECKSUM.unpack_from(message, body_end)[0]:
        raise MalformedReplyError("the reply is damaged: a message's checksum is wrong")
    headers_end = _PRELUDE.size + _PRELUDE.unpack_from(message)[1]
    try:
        headers = dict(_iter_headers(message[_PRELUDE.size : headers_end]))
    except (LookupError, struct.error, ValueError) as error:
        raise MalformedReplyError(f"the headers of a message cannot be read: {error}") from None
    payload = message[headers_end:body_end]
    match headers.get(":message-type"):
        case "exception":
            return Frame(EXCEPTION_PREFIX + headers.get(":exception-type", ""), payload)
        case "error":  # an error without payload: everything is in its headers
            payload_json = wirejson.dumps({"message": headers.get(":error-message", "")})
            return Frame(EXCEPTION_PREFIX + headers.get(":error-code", ""), payload_json)
        case _:
            return Frame(headers.get(":event-type", ""), payload)


def _iter_headers(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the headers that are texts. Raises IndexError, KeyError, ValueError and struct.error."""
    place = 0
    while place < len(data):
        size = data[place]
        name = data[place + 1 : place + 1 + size].decode()
        kind = data[place + 1 + size]
        place += 2 + size
        if kind in (_STRING, _BYTES):
            (size,) = struct.unpack_from(">H", data, place)
            place += 2
        else:
            size = _HEADER_VALUE_SIZES[kind]
        if place + size > len(data):
            raise ValueError(f"{name!r:.40} is longer than the headers are")
        if kind == _STRING:
            yield name, data[place : place + size].decode()
        place += size
