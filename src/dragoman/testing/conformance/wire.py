"""What the kit must know of a provider's wire apart from its adapter: how a reply is written, where a stream ends,
how it fails. It is the test's own account of the wire, so it is written from the provider's reference, not from the
adapter.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.errors import ProviderError
from dragoman.testing.event_bytes import split_events
from dragoman.testing.sample_reply import SampleReply


@dataclass(frozen=True, slots=True)
class FailedReply:
    """A reply with a failing status, as the provider sends it, and the class that it means."""

    status: int
    body: bytes
    kind: type[ProviderError]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wire:
    """``stream`` and ``whole`` write one and the same reply. ``terminal`` tells the event that ends a stream for good.

    ``errors`` are events of a stream that report a failure, as the reference of the wire describes them, and what they
    mean. ``keep_alive`` is an event that says nothing. ``failures`` are whole replies that failed. ``thinking`` and
    ``cached`` say whether the wire tells thinking from text, and cached tokens from the others.
    """

    stream: Callable[[SampleReply], bytes]
    whole: Callable[[SampleReply], bytes]
    terminal: re.Pattern[bytes]
    errors: tuple[tuple[bytes, type[ProviderError]], ...]
    keep_alive: bytes = b""
    failures: tuple[FailedReply, ...] = ()
    thinking: bool = True
    cached: bool = True

    def ends_at(self, body: bytes) -> int:
        """How many bytes must have arrived before the reply may be called whole: the terminal event's, without the
        line ends behind it. That of the last event where none is terminal."""
        start = 0
        for event in split_events(body):
            if self.terminal.search(event):
                return start + (len(event) if event[:1] == b"\0" else len(event.rstrip()))
            start += len(event)
        return len(body.rstrip())


def compact(value: Any) -> str:
    """JSON without spaces, as most providers write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def sse(data: Any, event: str = "") -> bytes:
    """One server-sent event; data that is no text is written as JSON."""
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {data if isinstance(data, str) else compact(data)}\n\n".encode()


def line(data: Any) -> bytes:
    """One line of newline-delimited JSON."""
    return compact(data).encode() + b"\n"
