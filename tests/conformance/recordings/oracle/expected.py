"""The content of a recorded reply, in the simplest form that adapters can be compared with."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

Call = tuple[str, dict[str, Any]]
"""The name of a called tool and its input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Tokens in the four disjoint buckets; ``total`` is the provider's own sum, None if it sends none."""

    input: int
    cached: int
    cache_creation: int
    output: int
    total: int | None = None

    @property
    def sum(self) -> int:
        return self.input + self.cached + self.cache_creation + self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A reply. ``stop_reason`` is None if the canonical form has no word for the provider's.

    ``bill`` is what a price oracle needs: the model that served and its usage. ``native`` is what the provider has to
    receive when the conversation continues: its content blocks, its items or its message.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    stop_reason: str | None = None
    usage: Buckets | None = None
    bill: dict[str, Any] = field(default_factory=dict)
    native: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A reply that is an error although its status is 200, or becomes one half-way.

    ``error_texts`` are the provider's own: type, code and message. ``truncated``: the stream lacks its terminal event.
    """

    error_texts: tuple[str, ...] = ()
    truncated: bool = False


@dataclass(slots=True)
class ReplyParts:
    """The parts of a reply, in order."""

    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def expected(self, stop_reason: str | None, usage: Buckets | None, body: dict[str, Any], native: Any) -> Expected:
        return Expected(
            text="".join(self.text),
            thinking="".join(self.thinking),
            calls=tuple(self.calls),
            stop_reason=stop_reason,
            usage=usage,
            bill={
                name: body[name] for name in ("model", "usage", "service_tier", "tool_usage", "output") if name in body
            },
            native=native,
        )


def arguments(value: Any) -> dict[str, Any]:
    """The input of a call: an object, or JSON text of one; anything else counts as no input."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, str):
        return {}
    try:
        parsed = json.loads(value, parse_constant=_refuse)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def count(value: Any) -> int:
    """A token count; providers write null, or omit it, for none."""
    return int(value) if value else 0


def error_texts(error: Any) -> tuple[str, ...]:
    """Every text in an error object, whatever its shape."""
    return tuple(_texts(error))


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif value is not None:
        yield str(value)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
