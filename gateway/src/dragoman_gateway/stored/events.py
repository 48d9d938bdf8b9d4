"""The events of `/v1/responses` as bytes: found in a stream, read, and changed if the gateway has other values."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ENDS = ("response.completed", "response.incomplete", "response.failed")
"""The events that end a stream, with the whole response."""


@dataclass(frozen=True, slots=True)
class ResponseEvent:
    """``data`` is the JSON object of the event."""

    data: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.data.get("type"))

    @property
    def number(self) -> int:
        number = self.data.get("sequence_number")
        return number if isinstance(number, int) else 0

    @property
    def response(self) -> dict[str, Any] | None:
        response = self.data.get("response")
        return response if isinstance(response, dict) else None

    def with_response(self, fields: Mapping[str, Any]) -> "ResponseEvent":
        """Return the event with some fields of its response replaced."""
        return ResponseEvent({**self.data, "response": {**(self.response or {}), **fields}})

    def encode(self) -> bytes:
        return f"event: {self.type}\ndata: {json.dumps(self.data, separators=(',', ':'))}\n\n".encode()


class FrameSplitter:
    """Splits a stream into whole frames. What is not complete waits."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are complete now, each with the empty line at its end."""
        buffer = (self._rest + data) if self._rest else data
        frames, start = [], 0
        while (end := _frame_end(buffer, start)) > 0:
            frames.append(buffer[start:end])
            start = end
        self._rest = buffer[start:]
        return frames

    def finish(self) -> bytes:
        """Return what is left at the end of the stream."""
        rest, self._rest = self._rest, b""
        return rest


def read_event(frame: bytes) -> ResponseEvent | None:
    """Return the event of a frame; None for a comment, and for data that is not a JSON object."""
    data = b"\n".join(_data_lines(frame))
    if not data:
        return None
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return ResponseEvent(value) if isinstance(value, dict) else None


def _frame_end(buffer: bytes, start: int) -> int:
    """Return the end of the first frame; -1 if none is complete."""
    ends = [found + len(mark) for mark in (b"\n\n", b"\r\n\r\n") if (found := buffer.find(mark, start)) >= 0]
    return min(ends, default=-1)


def _data_lines(frame: bytes) -> Iterator[bytes]:
    for line in frame.splitlines():
        if line.startswith(b"data:"):
            yield line[5:].removeprefix(b" ")
