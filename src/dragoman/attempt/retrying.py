"""Whether a request is asked again after an attempt."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Protocol

from dragoman.effects.outcomes import Abandoned, Broken, Failed, Replied, SendOutcome
from dragoman.effects.work import Perform
from dragoman.transport.retry import Timing


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
