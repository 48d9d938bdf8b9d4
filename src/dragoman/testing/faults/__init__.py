"""Fault injection: what a network, a proxy or a provider can do to a reply, applied to any recorded one.

::

    from dragoman.testing import faults

    for plan in faults.plans(exchange, seed=1):
        client = httpx.Client(transport=faults.FaultyTransport(CassetteTransport(cassette), plan))
        ...

A plan also works on the bytes of a stream: ``plan.apply(body)`` yields the chunks for `Adapter.iter_stream`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.testing.event_bytes import Framing, detect_framing, split_events
    from dragoman.testing.faults.plan import (
        Bom,
        Chain,
        Comments,
        Corrupt,
        Cut,
        DropEvent,
        DuplicateEvent,
        InjectEvent,
        LineEnds,
        Mutate,
        Plan,
        Rechunk,
        Stall,
        SwapEvents,
    )
    from dragoman.testing.faults.recorded import (
        RecordedReply,
        every_cut,
        every_split,
        next_exchange,
        plans,
        reply_body,
    )
    from dragoman.testing.faults.transport import AsyncFaultyTransport, FaultyTransport, Refusals, status_then_success

__all__ = [
    "AsyncFaultyTransport",
    "Bom",
    "Chain",
    "Comments",
    "Corrupt",
    "Cut",
    "DropEvent",
    "DuplicateEvent",
    "FaultyTransport",
    "Framing",
    "InjectEvent",
    "LineEnds",
    "Mutate",
    "Plan",
    "Rechunk",
    "RecordedReply",
    "Refusals",
    "Stall",
    "SwapEvents",
    "detect_framing",
    "every_cut",
    "every_split",
    "next_exchange",
    "plans",
    "reply_body",
    "split_events",
    "status_then_success",
]

_NAMES_BY_MODULE = {
    "event_bytes": ("Framing", "detect_framing", "split_events"),
    "faults.recorded": ("RecordedReply", "every_cut", "every_split", "next_exchange", "plans", "reply_body"),
    "faults.transport": ("AsyncFaultyTransport", "FaultyTransport", "Refusals", "status_then_success"),
}
"""Modules of the names that are not in ``faults.plan``. Each is imported on first use: plans need no PyYAML."""
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"dragoman.testing.{_MODULES.get(name, 'faults.plan')}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
