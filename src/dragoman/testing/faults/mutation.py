"""Seeded mutations of the bytes of a reply and of the JSON inside its events."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman.testing.event_bytes import event_payload, replace_payload, split_events

_PLACEHOLDER = "\x00"
"""A placeholder in a JSON value for text that no encoder would write."""

_MAX_TRIES = 5
"""How often a mutation without effect is drawn again. The limit matters for an empty body."""

_ODD_VALUES = (
    "null", "true", "-1", "0", "1", "1024", "999999999", "9223372036854775808", "1e999", "-0.0", "NaN", "Infinity",
    "0.5", '""', '"x"', '"\\ud800"', '"\\u0000"', '"\\u2028"', '"7"', "[]", "{}", "[[]]", "[{}]", '{"a": {}}', "[null]",
    '{"type": "text"}', "[" * 300 + "]" * 300, '{"a":' * 150 + "1" + "}" * 150, "9" * 5000, '"' + "y" * 5000 + '"',
)  # fmt: skip
"""Values that are unusual, out of range, invalid JSON, or of the wrong type."""


@dataclass(frozen=True, slots=True)
class Mutate:
    """One to three seeded changes: bytes, fields, values or events are altered, dropped, duplicated or moved."""

    seed: int
    harmless = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        rng = random.Random(self.seed)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            body = _change(body, rng)
        yield body


def _change(body: bytes, rng: random.Random) -> bytes:
    for _ in range(_MAX_TRIES):
        change = _change_json if rng.random() < 0.6 else _change_bytes
        if (changed := change(body, rng)) != body:
            return changed
    return body


def _change_bytes(body: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(body) + 1) for _ in range(2))
    end = min(end, start + rng.choice((1, 2, 8, 64, len(body))))
    match rng.randrange(6):
        case 0:
            return body[:start] + rng.randbytes(rng.randint(1, 8)) + body[end:]
        case 1:
            return body[:start] + body[end:]
        case 2:
            return body[:end] + body[start:end] + body[end:]
        case 3:
            return body[:start] + rng.choice((b"\n", b"\r", b"\n\n", b"\0", b'"', b"}", b"{", b"\xff")) + body[start:]
        case 4:
            return body[end:] + body[start:end] + body[:start]
        case _:
            return body[:end]


def _change_json(body: bytes, rng: random.Random) -> bytes:
    events = split_events(body)
    if not events:
        return body
    place = rng.randrange(len(events))
    event, other = events[place], rng.choice(events)
    match rng.randrange(8):
        case 0:
            events[place] = b""
        case 1:
            events.insert(place, other)
        case 2:
            events[place] = other
        case _:
            events[place] = _change_value(event, event_payload(other), rng)
    return b"".join(events)


def _change_value(event: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return the event with one value, at any depth, dropped, replaced, duplicated or taken from another event."""
    try:
        value, other_value = json.loads(event_payload(event)), json.loads(other)
    except (ValueError, RecursionError):
        return event
    places = list(_value_places(value))
    if not places:
        return event
    holder, key = rng.choice(places)
    odd = rng.choice(_ODD_VALUES)
    match rng.randrange(5):
        case 0:
            del holder[key]
        case 1:
            donors = list(_value_places(other_value))
            donor, donor_key = rng.choice(donors) if donors else (holder, key)
            holder[key] = donor[donor_key]
        case 2 if isinstance(holder, dict):
            holder[str(key).upper()] = holder.pop(key)
        case 3 if isinstance(holder, list):
            holder.append(holder[key])
        case _:
            holder[key] = _PLACEHOLDER
    written = json.dumps(value, ensure_ascii=False)
    return replace_payload(event, written.replace(json.dumps(_PLACEHOLDER), odd).encode("utf-8", "surrogatepass"))


def _value_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key of every value inside a JSON value."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, inner in pairs:
        yield value, key
        yield from _value_places(inner)
