"""Identifiers: strictly increasing ULIDs, and the canonical ids built on them.

Message ids are bare ULIDs, tool ids are ``tu_<ulid>`` and session ids ``sess_<ulid>``.
A model id is ``<provider>:<name>``; everything after the first colon is the provider's own name.
Source: docs/reference/canonical.md#identifiers.
"""

import os
import struct
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from dragoman.canonical.forks import reset_after_fork

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [high + low for high in _CROCKFORD for low in _CROCKFORD]
_LETTERS = bytes(ord(_CROCKFORD[byte & 31]) for byte in range(256))
_30_BITS = (1 << 30) - 1
_DRAWN = 64


def utc_now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)


class UlidFactory:
    """Strictly increasing ULIDs, also within one millisecond, across threads and when the clock goes back.

    After a fork the child draws fresh randomness, so that it and its parent never create the same id.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._time = -1
        self._second, self._letters = -1, ""
        self._start, self._end = "", 0
        self._fresh: list[tuple[str, int]] = []

    def __call__(self) -> str:
        now = time.time_ns() // 1_000_000
        with self._lock:
            if now <= self._time and self._end < _30_BITS:
                self._end += 1
            else:
                # A millisecond begins. Its ids have the same 20 characters, and count with the last six.
                self._time = now = max(now, self._time + 1)
                self._fresh = self._fresh or _draw()
                letters, self._end = self._fresh.pop()
                if (second := now >> 10) != self._second:  # 1,024 milliseconds
                    self._second = second
                    a, b, c, d = second >> 30, second >> 20 & 1023, second >> 10 & 1023, second & 1023
                    self._letters = f"{_PAIRS[a]}{_PAIRS[b]}{_PAIRS[c]}{_PAIRS[d]}"
                self._start = f"{self._letters}{_PAIRS[now & 1023]}{letters}"
            start, end = self._start, self._end
        return f"{start}{_PAIRS[end >> 20]}{_PAIRS[end >> 10 & 1023]}{_PAIRS[end & 1023]}"

    def after_fork(self) -> None:
        """Reset the state in a child process, before it creates an id."""
        # Another thread of the parent may have held the lock, and does not exist in the child.
        self._lock = threading.Lock()
        self._fresh, self._end = [], _30_BITS  # the next id begins a millisecond, with fresh randomness


def _draw() -> list[tuple[str, int]]:
    """Return the random parts of many ids: ten characters, and 29 of the last 30 bits, so that there is room to count.

    To ask the system for each alone would take longer than all else in making an id.
    """
    letters = os.urandom(10 * _DRAWN).translate(_LETTERS).decode()
    parts = [letters[start : start + 10] for start in range(0, len(letters), 10)]
    ends = [end >> 3 for end in struct.unpack(f"={_DRAWN}I", os.urandom(4 * _DRAWN))]
    return list(zip(parts, ends, strict=True))


def format_ulid(value: int) -> str:
    """Return the 26 Crockford base-32 characters of a 128-bit value."""
    # Written out, and in groups of 30 bits, which Python shifts fastest.
    a, b = value >> 90 & _30_BITS, value >> 60 & _30_BITS
    c, d = value >> 30 & _30_BITS, value & _30_BITS
    return (
        f"{_PAIRS[value >> 120]}"
        f"{_PAIRS[a >> 20]}{_PAIRS[a >> 10 & 1023]}{_PAIRS[a & 1023]}"
        f"{_PAIRS[b >> 20]}{_PAIRS[b >> 10 & 1023]}{_PAIRS[b & 1023]}"
        f"{_PAIRS[c >> 20]}{_PAIRS[c >> 10 & 1023]}{_PAIRS[c & 1023]}"
        f"{_PAIRS[d >> 20]}{_PAIRS[d >> 10 & 1023]}{_PAIRS[d & 1023]}"
    )


new_ulid = UlidFactory()
reset_after_fork(new_ulid)


new_message_id: Callable[[], str] = new_ulid


def new_tool_use_id() -> str:
    return "tu_" + new_ulid()


def new_session_id() -> str:
    return "sess_" + new_ulid()


class ModelId(NamedTuple):
    """``anthropic:claude-opus-5-5``, split at its first colon: names may contain colons and slashes."""

    provider: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "ModelId":
        """Parse a model id. Raises ValueError if it is not ``provider:model`` or has an unprintable character."""
        provider, _, name = text.partition(":") if isinstance(text, str) else ("", "", "")
        if not (provider and name and text.isprintable()):
            example = "write it as 'provider:model', e.g. 'openai:gpt-6.1-sol'"
            raise ValueError(f"{text!r:.200} is not a model id: {example}")
        return cls(provider, name)

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"
