"""Reservations: what one attempt of a request holds while it runs, and the governors that let it start."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from dragoman.canonical.events import StreamEvent
from dragoman.effects.outcomes import SendOutcome
from dragoman.effects.work import Perform
from dragoman.limits.usage import MeasureUsage

Observe = Callable[[Any], Perform]
"""Returns the effect that applies what a provider reports of its limits: in the headers of a response, a mapping, or in
a ProviderError."""


class Stage(Protocol):
    """Filters one streamed reply, event by event. A reply that is not streamed is one message_complete event.

    Returns the events that replace this one. A stage that has to wait returns a `Perform`, whose result is these
    events. An exception of a stage ends the reply, which is then `Broken`.
    """

    def __call__(self, event: StreamEvent, /) -> Sequence[StreamEvent] | Perform: ...


class Reservation:
    """What one governor holds for one attempt; this one holds nothing. The first of `settle` and `release` ends it, and
    later calls do nothing.
    """

    observe: Observe | None = None
    """Called with the headers or the error of the response, for limits that a provider reports."""
    stage: Stage | None = None
    """Sees the reply as it arrives: it may reserve more, or end the reply."""

    def settle(self, outcome: SendOutcome) -> Perform | None:
        """End it by how the attempt ended. Returns an effect if that may wait."""

    def release(self) -> None:
        """End it: nothing was sent."""


class Governor(Protocol):
    """Lets each attempt start, or refuses it."""

    def reserve(self, measure: MeasureUsage, /) -> Reservation | Perform:
        """Reserve what one attempt may use; a `Perform`, whose result is the reservation, may wait.

        Raises what refuses the attempt, before anything is sent. A ProviderError fails this attempt alone: another
        model may have room.
        """
        ...


NOTHING_RESERVED = Reservation()
