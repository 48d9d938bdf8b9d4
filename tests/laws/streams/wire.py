"""What is known of a wire apart from its adapter: how a stream is written by hand, where it ends, how it fails."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dragoman.adapter.errors import ProviderError
from dragoman.testing.event_bytes import events_of
from tests.laws.streams.said import Said


@dataclass(frozen=True, slots=True)
class Wire:
    """``stream`` and ``whole`` write one and the same reply. ``terminal`` tells the event that ends a stream for good.

    ``errors`` are events that report a failure, as the reference of the wire describes them, and what they mean.
    """

    stream: Callable[[Said], bytes]
    whole: Callable[[Said], bytes]
    terminal: re.Pattern[bytes]
    errors: tuple[tuple[bytes, type[ProviderError]], ...]
    keep_alive: bytes = b""

    def ends_at(self, body: bytes) -> int:
        """How many bytes must have arrived before the reply may be called whole: the terminal event's, without the
        line ends behind it. That of the last event where none is terminal."""
        start = 0
        for event in events_of(body):
            if self.terminal.search(event):
                return start + (len(event) if event[:1] == b"\0" else len(event.rstrip()))
            start += len(event)
        return len(body.rstrip())


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def sse(data: Any, event: str = "") -> bytes:
    """One server-sent event; data that is no text is written as JSON."""
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {data if isinstance(data, str) else compact(data)}\n\n".encode()


def line(data: Any) -> bytes:
    return compact(data).encode() + b"\n"
