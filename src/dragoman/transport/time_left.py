"""A time limit that shrinks: httpx passes it to the network as a float, and the network asks it for the rest."""

import math
from collections.abc import Callable
from typing import Self

MIN_SECONDS = 0.001
"""A time limit of 0 would mean no waiting at all, and its error another reason."""


class TimeLeft(float):
    """A time limit in seconds that shrinks as time passes: a float for httpx, and the rest of the call for us.

    ``remaining`` returns the seconds until the deadline, and ``maximum`` limits one operation.
    """

    remaining: Callable[[], float]
    maximum: float

    def __new__(cls, remaining: Callable[[], float], maximum: float = math.inf) -> Self:
        limit = super().__new__(cls, max(min(remaining(), maximum), MIN_SECONDS))
        limit.remaining, limit.maximum = remaining, maximum
        return limit

    def now(self) -> float:
        """Return the seconds that are left, at least a millisecond."""
        return max(min(self.remaining(), self.maximum), MIN_SECONDS)


def seconds_of(timeout: float | None) -> float | None:
    """Return the seconds of a time limit at this moment."""
    return timeout.now() if isinstance(timeout, TimeLeft) else timeout
