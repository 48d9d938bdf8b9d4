"""The differences between two requests, as lines of ``path: recorded -> actual``. Secrets are masked."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from dragoman.testing.cassettes.exchange import RecordedRequest
from dragoman.testing.cassettes.labels import Labels
from dragoman.testing.cassettes.matcher import comparable_body, match_key
from dragoman.testing.cassettes.secrets import Scanner
from dragoman.testing.cassettes.wires import request_target

_LONGEST = 120
_BEFORE = 40


def differences(recorded: RecordedRequest, request: RecordedRequest, labels: Labels | None = None) -> list[str]:
    """Return the differences between two requests, or an empty list if they match. ``labels`` do not count."""
    read = partial(match_key, labels=labels)
    if requests_match(recorded, request, read):
        return []
    mask = Scanner().mask
    found = []
    if (recorded.method, recorded.path) != (request.method, request.path):
        found.append(mask(f"{recorded.method} {recorded.path} -> {request.method} {request.path}"))
    ours, theirs = request_target(recorded).providers, request_target(request).providers
    if ours and theirs and not set(ours) & set(theirs):
        found.append(f"provider: {' or '.join(ours)} -> {' or '.join(theirs)}")
    bodies = list(_differences(comparable_body(recorded, labels), comparable_body(request, labels), "$"))
    if not found and not bodies:  # only the canonical forms differ, so compare those
        reader = _reader(recorded, request)
        bodies = list(_differences(json.loads(read(recorded, reader))[-1], json.loads(read(request, reader))[-1], "$"))
    return found + [mask(line) for line in bodies]


def requests_match(
    recorded: RecordedRequest, request: RecordedRequest, read: Callable[[RecordedRequest, str | None], str] = match_key
) -> bool:
    """Return whether two requests match. ``read`` is `match_key` or a cached version of it."""
    ours, theirs = request_target(recorded), request_target(request)
    if (recorded.method, ours.operation, ours.model) != (request.method, theirs.operation, theirs.model):
        return False
    if ours.providers and theirs.providers and not set(ours.providers) & set(theirs.providers):
        return False
    reader = _reader(recorded, request)
    return read(recorded, reader) == read(request, reader)


def _reader(recorded: RecordedRequest, request: RecordedRequest) -> str | None:
    """Return the adapter that reads both requests: the one of the request whose provider is known."""
    ours, theirs = request_target(recorded), request_target(request)
    return ours.reader if len(ours.providers) == 1 else theirs.reader


def _differences(recorded: Any, actual: Any, path: str) -> list[str]:
    if isinstance(recorded, dict) and isinstance(actual, dict):
        keys = [*recorded, *(key for key in actual if key not in recorded)]
        return [
            line for key in keys for line in _differences(recorded.get(key, ...), actual.get(key, ...), f"{path}.{key}")
        ]
    if isinstance(recorded, list) and isinstance(actual, list):
        return _list_differences(recorded, actual, path)
    return (
        []
        if _equal_values(recorded, actual)
        else [f"{path}: {_shorten(recorded, actual)} -> {_shorten(actual, recorded)}"]
    )


def _list_differences(recorded: list[Any], actual: list[Any], path: str) -> list[str]:
    """Skip the common tail, so that one new item does not report all later items as changed."""
    tail = 0
    if len(recorded) != len(actual):
        shortest = min(len(recorded), len(actual))
        while tail < shortest and _equal_values(recorded[-1 - tail], actual[-1 - tail]):
            tail += 1
    ours, theirs = recorded[: len(recorded) - tail], actual[: len(actual) - tail]
    found = []
    for index in range(max(len(ours), len(theirs))):
        one, other = (each[index] if index < len(each) else ... for each in (ours, theirs))
        found += _differences(one, other, f"{path}[{index}]")
    return found


def _equal_values(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


def _shorten(value: Any, beside: Any) -> str:
    """Return the value as text; a long one is cut to the part that differs."""
    if value is ...:
        return "absent"
    text, other = repr(value), repr(beside)
    if len(text) <= _LONGEST:
        return text
    at = next((n for n, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    start = max(0, at - _BEFORE)
    end = start + _LONGEST
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
