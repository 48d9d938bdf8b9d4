"""What runs in a worker of a cluster: it asks what it is handed, and hands back what came of it.

It knows nothing of rows, of the manifest or of money: all that stays with the process that runs the whole, which
notes a request before it is handed over. A worker that is lost loses no more than what it was just asking.
"""

import asyncio
from collections.abc import Sequence
from importlib.metadata import version
from typing import NamedTuple

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.bulk.asker import Asked, Asker, OwnAsker, Reply
from dragoman.canonical.message import Message

GATHER = 0.01
"""Seconds for which requests, and replies, gather for one message: a message costs more time than what is in it."""


class Errand(NamedTuple):
    """One request. ``number`` is its own among all of a run; ``place`` that of its model."""

    number: int
    place: int
    said: Sequence[Message]


class Done(NamedTuple):
    number: int
    what: Reply | DragomanError


class Worker:
    """An actor, of one event loop. ``version`` is that of the process that runs the whole."""

    def __init__(self, asked: Sequence[Asked], version: str) -> None:
        self._asked = asked
        self._version = version
        self._askers: list[Asker] = []
        self._done: list[Done] = []
        self._some = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._shift = 0

    async def ready(self, shift: int) -> DragomanError | None:
        """What is in the way of asking anything. What was handed over in an earlier shift is given to nobody: where
        the way to this worker broke, the run has taken it for lost."""
        if (own := version("dragoman")) != self._version:
            return ConfigurationError(f"a worker of the cluster has dragoman {own}, and this program {self._version}")
        try:
            self._askers = self._askers or [OwnAsker(each) for each in self._asked]
        except DragomanError as error:
            return error
        self._shift, self._done = shift, []
        self._some.set()
        return None

    async def take(self, shift: int, errands: Sequence[Errand]) -> None:
        """Begins to ask."""
        if shift != self._shift:
            return
        for errand in errands:
            task = asyncio.create_task(self._run(errand))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def give(self, shift: int) -> list[Done]:
        """Waits until something was answered, or the shift is over."""
        while shift == self._shift and not self._done:
            self._some.clear()
            await self._some.wait()
        await asyncio.sleep(GATHER)
        if shift != self._shift:
            return []
        done, self._done = self._done, []
        return done

    async def _run(self, errand: Errand) -> None:
        what: Reply | DragomanError
        try:
            what = await self._askers[errand.place].ask(errand.said)
        except DragomanError as error:
            what = error
        except Exception as error:  # of an adapter that is broken: every row will meet it
            what = ConfigurationError(f"{self._asked[errand.place].model} cannot be asked: {error!r:.500}")
        self._done.append(Done(errand.number, what))
        self._some.set()
