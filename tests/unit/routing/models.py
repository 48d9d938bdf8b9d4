"""Models made up for routing: what each can do, and a virtual clock."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from dragoman.adapter.errors import MissingKeyError, UnknownProviderError
from dragoman.adapter.facts.capabilities import ABSENT, EMULATED, NATIVE, AdapterCapabilities
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.routing import Router

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Facts:
    capabilities: AdapterCapabilities
    default_output_tokens: int = 1_000


def _capabilities(**fields: Any) -> AdapterCapabilities:
    everything = {
        "supports_images": NATIVE,
        "supports_tools": NATIVE,
        "supports_system_prompt": NATIVE,
        "supports_structured_output": NATIVE,
        "max_context_tokens": 100_000,
    }
    return AdapterCapabilities.model_validate(everything | fields)


MODELS = {
    "north:able": _capabilities(),
    "north:large": _capabilities(max_context_tokens=1_000_000),
    "north:third": _capabilities(),
    "south:able": _capabilities(),
    "south:emulating": _capabilities(supports_tools=EMULATED, supports_structured_output=EMULATED),
    "east:blind": _capabilities(supports_images=ABSENT),
    "east:toolless": _capabilities(supports_tools=ABSENT),
    "east:unprompted": _capabilities(supports_system_prompt=ABSENT),
    "east:formless": _capabilities(supports_structured_output=ABSENT),
    "west:small": _capabilities(max_context_tokens=1_000),
    "west:nothing": _capabilities(
        supports_images=ABSENT,
        supports_tools=ABSENT,
        supports_system_prompt=ABSENT,
        supports_structured_output=ABSENT,
        max_context_tokens=10,
    ),
}
KEYLESS = "locked:able"


def find(model: str) -> Facts:
    if model == KEYLESS:
        raise MissingKeyError("no key for locked: set LOCKED_API_KEY")
    if model not in MODELS:
        raise UnknownProviderError(f"no provider {model.partition(':')[0]!r}")
    return Facts(MODELS[model])


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def after(self, **span: float) -> datetime:
        self.now += timedelta(**span)
        return self.now


class Prices:
    """A dollar for a million tokens in the north, ten in the south, unknown elsewhere."""

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        rate = {"north": Decimal(1), "south": Decimal(10)}.get(model_id.partition(":")[0])
        counted = usage.model_dump()
        if rate is None:
            return Usage(**counted)
        return Usage(**counted, cost_usd=rate * usage.total_tokens / 1_000_000, cost_status=CostStatus.PRICED)


def router(**settings: Any) -> Router:
    fields: dict[str, Any] = {"find": find, "prices": Prices(), "clock": Clock()}
    return Router(**(fields | settings))
