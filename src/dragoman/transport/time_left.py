"""The time limits of one call.

One shrinks: httpx passes it to the network as a float, and the network asks it for the rest. One cancels a task.
"""

import math
from collections.abc import Callable
from types import TracebackType
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


class Deadline:
    """Cancels the task that runs inside after some seconds, and raises TimeoutError then.

    It does what `asyncio.timeout` does in about half the time: each call has one.
    """

    __slots__ = ("_earlier", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        import asyncio  # Sync programs do not need it.

        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline needs a task that it can cancel")
        self._task = task
        self._earlier = task.cancelling()
        self._timer: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(self._seconds, self._cancel)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            return
        import asyncio

        # If others have cancelled the task too, it stays cancelled.
        if self._task.uncancel() <= self._earlier and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from error

    def _cancel(self) -> None:
        self._timer = None
        self._task.cancel()
