"""Streams as text to their JSON objects, slowly and simply: the whole text at once, no state between chunks."""

import json
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any

DONE = "[DONE]"
_LINE_END = re.compile(r"\r\n|\r|\n")


def events(text: str) -> Iterator[tuple[str, Any]]:
    """The (event name, data) pairs of server-sent events; data is parsed, or the text DONE.

    Lenient at the end: a last event without its closing blank line counts.
    """
    name, data = "", []
    for line in [*_LINE_END.split(text.removeprefix("\ufeff")), ""]:
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif line == "":
            if data:
                joined = "\n".join(data)
                yield name, DONE if joined.strip() == DONE else json.loads(joined)
            name, data = "", []


def lines(text: str) -> Iterator[Any]:
    """The objects of a stream that has one per line."""
    for line in _LINE_END.split(text):
        if line.strip():
            yield json.loads(line)


def binary(data: bytes) -> Iterator[tuple[int, str, Any]]:
    """The messages of an AWS event stream: where each ends, its name and its payload; failures have ! before the name.

    Only text headers are read; checksums are ignored.
    """
    start = 0
    while start < len(data):
        total, named = struct.unpack_from(">II", data, start)
        headers, place = {}, start + 12
        while place < start + 12 + named:
            size = data[place]
            (length,) = struct.unpack_from(">H", data, place + 2 + size)
            value = place + 4 + size
            headers[data[place + 1 : place + 1 + size].decode()] = data[value : value + length].decode()
            place = value + length
        payload = json.loads(data[place : start + total - 4] or b"{}")
        start += total
        failed = headers.get(":exception-type") or headers.get(":error-code")
        yield start, f"!{failed}" if failed else headers[":event-type"], payload


def handwritten_exception(name: str, payload: bytes) -> bytes:
    """A message of an AWS event stream that reports a failure."""
    headers = b""
    for key, value in ((b":message-type", b"exception"), (b":exception-type", name.encode())):
        headers += bytes([len(key)]) + key + bytes([7]) + struct.pack(">H", len(value)) + value
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))
