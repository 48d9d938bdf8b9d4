"""The workers of a cluster, as the run sees them: requests go out to them, and replies come back, many in a message.

A run keeps its manifest, its budget, its limits and its pace to itself, and hands out the asking alone. Where a worker
is lost, each request that it had is told so (WorkerLostError); the run records it with its cost, and asks again.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.bulk.asker import Asked, Asker, Reply, WorkerLostError
from dragoman.bulk.cluster import Cluster, check
from dragoman.bulk.worker import GATHER, Done, Errand
from dragoman.canonical.message import Message

_PATIENCE = 600.0
"""Seconds in which a cluster, which may have to buy a machine first, has to find room for a worker."""
_PAUSE = 0.5
_MOST_BEGUN = 5
"""How often a worker may fail to begin, as where its machine has no dragoman."""


class Hand:
    """One worker. ``present`` is whether it may be given anything."""

    def __init__(self, crew: "Crew", actor: Any) -> None:
        self.present = False
        self.actor = actor
        self._crew = crew
        self._out: list[Errand] = []
        self._waiting: dict[int, asyncio.Future[Reply | DragomanError]] = {}
        self._some = asyncio.Event()
        self._shift = 0

    @property
    def load(self) -> int:
        return len(self._waiting)

    async def ask(self, errand: Errand) -> Reply | DragomanError:
        answer: asyncio.Future[Reply | DragomanError] = asyncio.get_running_loop().create_future()
        self._waiting[errand.number] = answer
        self._out.append(errand)
        self._some.set()
        return await answer

    async def serve(self) -> None:
        """As long as the run lasts: waits for the worker, works with it, and waits for it again where it is lost.

        Raises what is in the way of asking anything.
        """
        while True:
            await self._arrived()
            self.present = True
            self._crew.arrived.set()
            pumps = [asyncio.create_task(self._sending()), asyncio.create_task(self._receiving())]
            try:
                await asyncio.gather(*pumps)
            except self._crew.cluster.lost as error:
                self._leave(error)
            except Exception as error:
                self._leave(error)
                raise
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)

    async def _arrived(self) -> None:
        begun = 0
        while True:
            self._shift += 1
            try:
                fault = await self.actor.ready.remote(self._shift)
            except self._crew.cluster.away:
                await asyncio.sleep(_PAUSE)
            except self._crew.cluster.lost as error:
                begun += 1
                if begun == _MOST_BEGUN:
                    raise ConfigurationError(f"no worker of the cluster can begin: {_said(error)}") from None
                await asyncio.sleep(_PAUSE)
                self._crew.cluster.dismiss(self.actor)
                self.actor = self._crew.hire()
            else:
                if fault is not None:
                    raise fault
                return

    async def _sending(self) -> None:
        while True:
            await self._some.wait()
            await asyncio.sleep(GATHER)
            self._some.clear()
            out, self._out = self._out, []
            await self.actor.take.remote(self._shift, out)

    async def _receiving(self) -> None:
        while True:
            done: list[Done] = await self.actor.give.remote(self._shift)
            for number, what in done:
                answer = self._waiting.pop(number, None)
                if answer is not None:
                    answer.set_result(what)

    def _leave(self, error: Exception) -> None:
        self.present = False
        waiting, self._waiting, self._out = self._waiting, {}, []
        for answer in waiting.values():
            answer.set_result(WorkerLostError(f"a worker of the cluster was lost: {_said(error)}"))


class Crew:
    """Of one run. Raises ConfigurationError where the workers cannot be told what is asked."""

    def __init__(self, cluster: Cluster, asked: Sequence[Asked]) -> None:
        check(asked)
        self.cluster = cluster
        self.arrived = asyncio.Event()
        self._asked = asked
        self._hands: list[Hand] = []
        self._serving: list[asyncio.Task[None]] = []
        self._number = 0

    def askers(self) -> list["CrewAsker"]:
        """One for each model."""
        return [CrewAsker(each, place, self) for place, each in enumerate(self._asked)]

    def hire(self) -> Any:
        return self.cluster.hire(self._asked)

    async def start(self) -> None:
        """Returns when the first worker is there. Raises what every worker would meet, such as MissingKeyError, and
        ConfigurationError where the cluster has no room for any."""
        await asyncio.to_thread(self.cluster.connect)
        self._hands = [Hand(self, self.hire()) for _ in range(self.cluster.workers)]
        self._serving = [asyncio.create_task(hand.serve()) for hand in self._hands]
        await self._somebody()

    async def ask(self, place: int, said: Sequence[Message]) -> Reply:
        while not (present := [hand for hand in self._hands if hand.present]):
            self.arrived.clear()
            await self._somebody()
        self._number += 1
        found = await min(present, key=lambda hand: hand.load).ask(Errand(self._number, place, said))
        if isinstance(found, DragomanError):
            raise found
        return found

    async def close(self) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for hand in self._hands:
            self.cluster.dismiss(hand.actor)
        await asyncio.to_thread(self.cluster.close)

    async def _somebody(self) -> None:
        """Waits for a worker."""
        arrived = asyncio.create_task(self.arrived.wait())
        try:
            done, _ = await asyncio.wait(
                [arrived, *self._serving], timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            arrived.cancel()
        for task in done - {arrived}:
            task.result()  # raises what is in its way
        if not done:
            raise ConfigurationError(
                f"the cluster has found no room for a worker, which takes a CPU, in {_PATIENCE:g} s"
            )


class CrewAsker(Asker):
    """Hands each request to the worker that has the fewest."""

    def __init__(self, asked: Asked, place: int, crew: Crew) -> None:
        super().__init__(asked)
        self._place = place
        self._crew = crew

    async def ask(self, said: Sequence[Message]) -> Reply:
        return await self._crew.ask(self._place, said)

    async def close(self) -> None:
        """The crew is closed by whoever began it."""


def _said(error: Exception) -> str:
    """The first line: Ray adds pages."""
    return f"{next(iter(str(error).splitlines()), type(error).__name__):.200}"
