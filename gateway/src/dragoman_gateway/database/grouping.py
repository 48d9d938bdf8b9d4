"""Groups transactions: whatever is requested while one runs goes into the next one together.

A row that each request has to lock would let them pass one by one. In one transaction, they pass together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from dragoman_gateway.database import DatabaseBusyError, DatabaseRejectedError

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

_NO_KEYS: AbstractSet[str] = frozenset()
_MOST = 200
"""The most work of one transaction, so that none takes long."""
_PATIENCE = 5.0
"""Seconds for which work waits while the database answers and is busy."""


class Rider(Protocol):
    """Joins the next transaction without a caller that waits for it."""

    @property
    def keys(self) -> AbstractSet[str]: ...


RiderKind = TypeVar("RiderKind", bound=Rider)


@dataclass(slots=True, eq=False)
class _Waiting(Generic[Asked, Answer]):
    asked: Asked
    keys: AbstractSet[str]
    answer: "asyncio.Future[Answer]"
    until: float

    def end(self, outcome: Answer | BaseException) -> None:
        """Give the answer or the error to who asked, unless they have left."""
        if self.answer.done():
            return
        if isinstance(outcome, BaseException):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)


@dataclass(eq=False)
class Grouping(Generic[Asked, RiderKind, Answer]):
    """Runs what is asked in few transactions. What shares a key never runs at the same time, and keeps its order."""

    work: Callable[[Sequence[Asked], Sequence[RiderKind]], Awaitable[Sequence[Answer | Exception]]]
    """Does what is asked, with its riders, in one transaction, and returns an answer or an error for each that was
    asked."""
    riders: Callable[[AbstractSet[str]], Sequence[RiderKind]] = lambda blocked: ()
    """Returns what goes along and shares no key with those that it is given."""
    parallel: int = 1
    """The number of transactions at the same time."""
    _waiting: list[_Waiting[Asked, Answer]] = field(default_factory=list, init=False)
    _held: set[str] = field(default_factory=set, init=False)
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set, init=False)

    async def ask(self, asked: Asked, keys: AbstractSet[str] = _NO_KEYS) -> Answer:
        """Return the answer, or raise the error, after the transaction. Also raises DatabaseUnavailableError."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append(_Waiting(asked, keys, answer, loop.time() + _PATIENCE))
        self.start()
        return await answer

    def start(self, *, riders_alone: bool = False) -> None:
        """Begin the transactions that may begin. ``riders_alone``: also one for which nobody waits."""
        while len(self._tasks) < self.parallel:
            taken, blocked = self._take()
            riders = self.riders(blocked) if taken or riders_alone else ()
            if not taken and not riders:
                return
            keys = set[str]().union(*(each.keys for each in taken), *(each.keys for each in riders))
            self._held |= keys
            task = asyncio.create_task(self._run(taken, riders))
            self._tasks.add(task)
            task.add_done_callback(partial(self._go_on, keys))

    async def finish(self) -> None:
        """Wait until the transactions that run now have ended."""
        if running := {*self._tasks}:
            await asyncio.wait(running)

    def _take(self) -> tuple[list[_Waiting[Asked, Answer]], set[str]]:
        """Take what may begin, and return the keys that it may not use: of what runs, and of what waits for that."""
        taken: list[_Waiting[Asked, Answer]] = []
        left: list[_Waiting[Asked, Answer]] = []
        blocked = set(self._held)
        for each in self._waiting:
            if each.answer.done():  # who asked has left
                continue
            if len(taken) < _MOST and blocked.isdisjoint(each.keys):
                taken.append(each)
            else:
                left.append(each)
                blocked |= each.keys
        self._waiting = left
        return taken, blocked

    def _go_on(self, keys: set[str], ended: "asyncio.Task[None]") -> None:
        self._tasks.discard(ended)
        self._held -= keys
        if not ended.cancelled():
            self.start()

    async def _run(self, taken: Sequence[_Waiting[Asked, Answer]], riders: Sequence[RiderKind]) -> None:
        outcomes: Sequence[Answer | BaseException]
        try:
            outcomes = await self.work([each.asked for each in taken], riders)
        except DatabaseRejectedError as error:
            if riders or len(taken) > 1:  # one of them, and the others are not to blame
                for each in taken:
                    await self._run([each], ())
                return
            outcomes = [error] * len(taken)
        except DatabaseBusyError as error:
            now = asyncio.get_running_loop().time()
            self._waiting[:0] = [each for each in taken if now < each.until]
            taken = [each for each in taken if now >= each.until]
            outcomes = [error] * len(taken)
        except Exception as error:
            outcomes = [error] * len(taken)
        except asyncio.CancelledError:  # the loop ends
            for each in taken:
                each.answer.cancel()
            raise
        for waiting, outcome in zip(taken, outcomes, strict=True):
            waiting.end(outcome)
