"""What tells two requests apart, as lines of ``path: recorded -> asked``; secrets in them are masked."""

import json
from collections.abc import Callable
from typing import Any

from dragoman.testing.cassette_exchange import RecordedRequest
from dragoman.testing.cassette_meaning import meaning, plain
from dragoman.testing.cassette_secrets import Scanner
from dragoman.testing.cassette_wires import wire_of

_LONGEST = 120
_BEFORE = 40


def differences(recorded: RecordedRequest, asked: RecordedRequest) -> list[str]:
    """What tells two requests apart; nothing where they mean the same."""
    if same(recorded, asked):
        return []
    masked = Scanner().masked
    found = []
    if (recorded.method, recorded.path) != (asked.method, asked.path):
        found.append(masked(f"{recorded.method} {recorded.path} -> {asked.method} {asked.path}"))
    ours, theirs = wire_of(recorded).providers, wire_of(asked).providers
    if ours and theirs and not set(ours) & set(theirs):
        found.append(f"provider: {' or '.join(ours)} -> {' or '.join(theirs)}")
    bodies = list(_differences(plain(recorded), plain(asked), "$"))
    if not found and not bodies:  # only the adapters see a difference: it is shown as they see it
        reader = _reader(recorded, asked)
        bodies = list(_differences(_seen(recorded, reader), _seen(asked, reader), "$"))
    return found + [masked(line) for line in bodies]


def same(
    recorded: RecordedRequest, asked: RecordedRequest, read: Callable[[RecordedRequest, str | None], str] = meaning
) -> bool:
    """Whether two requests mean the same. ``read`` is `meaning`, or what remembers it."""
    ours, theirs = wire_of(recorded), wire_of(asked)
    if (recorded.method, ours.operation, ours.model) != (asked.method, theirs.operation, theirs.model):
        return False
    if ours.providers and theirs.providers and not set(ours.providers) & set(theirs.providers):
        return False
    reader = _reader(recorded, asked)
    return read(recorded, reader) == read(asked, reader)


def _reader(recorded: RecordedRequest, asked: RecordedRequest) -> str | None:
    """The adapter that reads both: that of whoever is known to have been asked."""
    ours, theirs = wire_of(recorded), wire_of(asked)
    return ours.reader if len(ours.providers) == 1 else theirs.reader


def _seen(request: RecordedRequest, reader: str | None) -> Any:
    return json.loads(meaning(request, reader))[-1]


def _differences(recorded: Any, asked: Any, path: str) -> list[str]:
    if isinstance(recorded, dict) and isinstance(asked, dict):
        keys = [*recorded, *(key for key in asked if key not in recorded)]
        return [
            line for key in keys for line in _differences(recorded.get(key, ...), asked.get(key, ...), f"{path}.{key}")
        ]
    if isinstance(recorded, list) and isinstance(asked, list):
        return _of_lists(recorded, asked, path)
    return [] if _equal(recorded, asked) else [f"{path}: {_short(recorded, asked)} -> {_short(asked, recorded)}"]


def _of_lists(recorded: list[Any], asked: list[Any], path: str) -> list[str]:
    """Items that both have at the end are left out, so that one new item does not move all that follow it."""
    tail = 0
    if len(recorded) != len(asked):
        shortest = min(len(recorded), len(asked))
        while tail < shortest and _equal(recorded[-1 - tail], asked[-1 - tail]):
            tail += 1
    ours, theirs = recorded[: len(recorded) - tail], asked[: len(asked) - tail]
    found = []
    for index in range(max(len(ours), len(theirs))):
        one, other = (each[index] if index < len(each) else ... for each in (ours, theirs))
        found += _differences(one, other, f"{path}[{index}]")
    return found


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


def _short(value: Any, beside: Any) -> str:
    """A value, cut to where it differs from the other one where it is long."""
    if value is ...:
        return "absent"
    text, other = repr(value), repr(beside)
    if len(text) <= _LONGEST:
        return text
    at = next((n for n, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    start = max(0, at - _BEFORE)
    end = start + _LONGEST
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
