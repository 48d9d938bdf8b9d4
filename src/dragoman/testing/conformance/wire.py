"""What the kit must know about a provider's wire: how it writes a reply, ends a stream and reports failures.

Write it from the provider's reference, not from the adapter, so that the two are independent.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.errors import ProviderError
from dragoman.testing.event_bytes import split_events
from dragoman.testing.sample_reply import SampleReply

UNKNOWN = "unknown to the kit"
"""A text of the block in ``Wire.unknown_block``."""


@dataclass(frozen=True, slots=True)
class FailedReply:
    """An error reply as the provider sends it, and the class of its error. Some wires report errors with status 200."""

    status: int
    """The HTTP status, 400 or above."""
    body: bytes
    """The bytes of the error, as the provider writes them."""
    kind: type[ProviderError]
    """The class that the adapter has to raise."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The response's headers, such as ``retry-after``."""


@dataclass(frozen=True, slots=True)
class Wire:
    """What the kit must know about a provider's wire. ``stream`` and ``whole`` encode the same reply. ``terminal``
    matches the event that ends a stream.

    ``errors`` are events of a stream that report a failure, from the wire's reference, with their error classes.
    ``keep_alive`` is an event without content. ``failures`` are whole error replies. ``thinking`` and ``cached`` tell
    whether the wire distinguishes thinking from text, and cached tokens from others. ``model`` is the name that the
    replies give their model; empty if they give none.

    What a later version of the provider may add must not break an adapter of today: ``unknown_event`` is an event of a
    kind that does not exist, and ``unknown_block`` a whole reply with a block of such a kind, which holds `UNKNOWN` as
    one of its texts.
    """

    stream: Callable[[SampleReply], bytes]
    whole: Callable[[SampleReply], bytes]
    terminal: re.Pattern[bytes]
    errors: tuple[tuple[bytes, type[ProviderError]], ...]
    keep_alive: bytes = b""
    failures: tuple[FailedReply, ...] = ()
    thinking: bool = True
    cached: bool = True
    model: str = ""
    unknown_event: bytes = b""
    unknown_block: bytes = b""

    def ends_at(self, body: bytes) -> int:
        """Return the number of bytes after which the reply is complete: up to the terminal event without its line ends.
        Without a terminal event, the last event counts."""
        start = 0
        for event in split_events(body):
            if self.terminal.search(event):
                return start + (len(event) if event[:1] == b"\0" else len(event.rstrip()))
            start += len(event)
        return len(body.rstrip())


def compact(value: Any) -> str:
    """Return JSON without spaces, as most providers write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def sse(data: Any, event: str = "") -> bytes:
    """Return one server-sent event. Data that is not text is written as JSON."""
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {data if isinstance(data, str) else compact(data)}\n\n".encode()


def line(data: Any) -> bytes:
    """Return one line of newline-delimited JSON."""
    return compact(data).encode() + b"\n"
