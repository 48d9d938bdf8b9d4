"""The side under test: adapters through their public names, with fixed ids and time."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from itertools import count
from typing import Any

from dragoman import Adapter, RequestContext, get_adapter
from dragoman.adapter.contract import Prices, bundled_prices
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.ids import format_ulid
from tests.conformance.scope import ADAPTERS

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def missing_adapter(provider: str) -> str | None:
    """Return why a recorded provider cannot be judged, or None if its adapter is installed."""
    try:
        get_adapter(f"{ADAPTERS[provider]}:probe")
    except Exception as error:
        return f"the adapter {ADAPTERS[provider]!r} is not installed: {type(error).__name__}: {error}"
    return None


def create_adapter(model: str) -> Adapter:
    return get_adapter(model)


@cache
def prices() -> Prices | None:
    """The bundled price table, or None if there is none."""
    try:
        return bundled_prices()
    except (ImportError, AttributeError, ValueError):
        return None


def create_context(model: str, **fields: Any) -> RequestContext:
    """A context whose ids count up from zero, so that the same input gives equal events."""
    fields.setdefault("session_id", "sess_recorded")
    fields.setdefault("request_id", "request")
    # for_model always loads the bundled table, so it cannot be used without one.
    make = RequestContext if prices() is None else RequestContext.for_model
    return make(
        model=model,
        tool_ids=ToolIdMap(mint=_counter("tu_")),
        new_id=_counter(""),
        clock=lambda: NOW,
        **fields,
    )


def _counter(prefix: str) -> Callable[[], str]:
    numbers = count(1)
    return lambda: prefix + format_ulid(next(numbers))
