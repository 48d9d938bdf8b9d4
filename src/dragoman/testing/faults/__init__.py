"""Fault injection: what a network, a proxy or a provider can do to a reply, applied to any recorded one.

::

    from dragoman.testing import faults

    for plan in faults.plans(exchange, seed=1):
        client = httpx.Client(transport=faults.FaultyTransport(CassetteTransport(cassette), plan))
        ...

A plan also works on the bytes of a stream: ``plan.apply(body)`` yields the chunks for `Adapter.iter_stream`.
"""

from typing import TYPE_CHECKING

from dragoman.lazy_names import lazy_names
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

_LOADED_ON_USE = {
    "testing.faults.recorded": ("RecordedReply", "every_cut", "every_split", "next_exchange", "plans", "reply_body"),
    "testing.faults.transport": ("AsyncFaultyTransport", "FaultyTransport", "Refusals", "status_then_success"),
}
"""What needs PyYAML or httpx, which plans do not need, by its module."""

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__, __dir__ = lazy_names(globals(), _LOADED_ON_USE)
