"""One attempt of a request: what governs it lets it start, and counts how it ended. `run_attempts` makes one after the
other.
"""

from collections.abc import Callable, Generator, Iterable
from functools import cache, partial
from typing import Any, Protocol

from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.adapter.wire import WireResponse
from dragoman.effects import Abandoned, Broken, Failed, Observe, Perform, Replied, SendOutcome, Stage, Work
from dragoman.limits.reservation import Governor, MeasureUsage, Reservation
from dragoman.transport.retry import Timing


class Exchange(Protocol):
    """Sends the request, and returns how that ended. ``observers`` are for the headers of the response, as soon as
    they are there, and ``stages`` for the events of a stream."""

    def __call__(
        self, observers: tuple[Observe, ...], stages: tuple[Stage, ...], /
    ) -> Generator[Any, Any, SendOutcome]: ...


class Attempt:
    """One attempt of a request: reserved, sent and settled. ``governors`` reserve one after the other, and are settled
    in the same order."""

    __slots__ = ("_governors", "_measure")

    def __init__(self, governors: Iterable[Governor], measure: MeasureUsage) -> None:
        self._governors = governors
        self._measure = cache(measure)

    def run(self, exchange: Exchange) -> Generator[Any, Any, SendOutcome]:
        """Yield the effects of the attempt, and return how it ended.

        If a governor raises a ProviderError, such as a limit that is reached, the attempt has `Failed`: nothing was
        sent, and another model may have room. Raises what else a governor raises, before anything is sent. An interrupt
        ends the attempt as `Abandoned`, and is raised.
        """
        reservations: list[Reservation] = []
        outcome: SendOutcome = Abandoned(sent=False)
        interrupt: BaseException | None = None
        is_under_way = False
        try:
            try:
                for governor in self._governors:
                    reserved = governor.reserve(self._measure)
                    reservations.append((yield reserved) if isinstance(reserved, Perform) else reserved)
            except ProviderError as error:
                outcome = Failed(error)
            else:
                is_under_way = True
                outcome = yield from exchange(
                    tuple(each.observe for each in reservations if each.observe is not None),
                    tuple(each.stage for each in reservations if each.stage is not None),
                )
        except GeneratorExit:  # nothing can be yielded any more
            for each in reservations:
                each.release()
            raise
        except BaseException as error:
            interrupt = error
            if is_under_way and not isinstance(error, Exception):  # the caller left, and the provider may answer
                outcome = Abandoned()
        yield from _settle(reservations, outcome)
        if interrupt is not None:
            raise interrupt
        return outcome


def _settle(reservations: Iterable[Reservation], outcome: SendOutcome) -> Work[None]:
    """Settle each reservation, after it has seen what a refusal says of the provider's limits."""
    refusal = outcome.error if isinstance(outcome, Failed) else None
    try:
        for each in reservations:
            if each.observe is not None and isinstance(refusal, ProviderError):
                yield each.observe(refusal)
            if (effect := each.settle(outcome)) is not None:
                yield effect
    finally:
        for each in reservations:
            each.release()


def exchange_whole(
    send: Perform, read: Callable[[WireResponse], SendOutcome], observers: Iterable[Observe]
) -> Work[SendOutcome]:
    """Send a request for a whole reply; ``read`` returns what the response means."""
    try:
        response: WireResponse = yield send
    except DragomanError as error:
        return Failed(error)
    for observe in observers:
        yield observe(response.headers)
    return read(response)


class Retries(Protocol):
    """Decides after each attempt of a request whether there is another."""

    timing: Timing

    def wait_after(self, outcome: Failed | Broken, /) -> float | None:
        """Return the seconds until the next attempt; None if there is none."""
        ...


def run_attempts(
    retries: Retries, attempt: Callable[[], Generator[Any, Any, SendOutcome]]
) -> Generator[Any, Any, Replied | Abandoned]:
    """Run one attempt after the other, until one has a reply. Raises the error of the last one."""
    while True:
        outcome = yield from attempt()
        if isinstance(outcome, (Replied, Abandoned)):
            return outcome
        wait = retries.wait_after(outcome)
        if wait is None:
            raise outcome.error
        yield Perform(partial(retries.timing.sleep, wait), partial(retries.timing.sleep_async, wait))
