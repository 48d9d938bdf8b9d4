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

if TYPE_CHECKING:
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

_OF_TRANSPORT = ("AsyncFaultyTransport", "FaultyTransport", "Refusals", "status_then_success")

if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        """Return a name of ``transport`` or ``recorded``, which need httpx and PyYAML, and which plans do not need."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = "transport" if name in _OF_TRANSPORT else "recorded"
        globals()[name] = value = getattr(import_module(f"dragoman.testing.faults.{module}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
