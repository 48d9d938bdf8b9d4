"""A cluster without Ray: its workers run in the loop of the test, and are lost when the test says so.

What goes to them and comes back is pickled, as it is on the way to another machine.
"""

import asyncio
import pickle
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from dragoman.bulk.asker import Asked
from dragoman.bulk.worker import Worker
from tests.bulk.mock_provider import Seen

_closing: list[asyncio.Future[None]] = []


async def _ended(worker: Worker) -> None:
    """As the system closes what a process leaves open."""
    for task in list(worker._tasks):
        task.cancel()
    for asker in worker._askers:
        await asker.close()


class Lost(Exception):  # noqa: N818
    pass


class Away(Lost):
    pass


class Actor:
    """``kill`` loses what it is doing; another worker comes in its place, unless ``for_good``."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self._asked = asked
        self.worker: Worker | None = Worker(asked, version("dragoman"))
        self.calls: set[tuple[asyncio.Future[Any], asyncio.Future[Any]]] = set()

    def __getattr__(self, name: str) -> "Method":
        return Method(self, name)

    def kill(self, *, for_good: bool = False) -> None:
        if self.worker is not None:
            _closing.append(asyncio.ensure_future(_ended(self.worker)))
        self.worker = None if for_good else Worker(self._asked, version("dragoman"))
        for running, answer in list(self.calls):
            running.cancel()
            if not answer.done():
                answer.set_exception(Lost("killed") if for_good else Away("killed"))


class Method:
    def __init__(self, actor: Actor, name: str) -> None:
        self._actor = actor
        self._name = name

    def remote(self, *args: Any) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._actor.worker is None:
            answer.set_exception(Lost("it is gone for good"))
            return answer
        running = asyncio.ensure_future(getattr(self._actor.worker, self._name)(*pickle.loads(pickle.dumps(args))))
        self._actor.calls.add((running, answer))
        running.add_done_callback(lambda ended: self._ended(ended, answer))
        return answer

    def _ended(self, ended: "asyncio.Future[Any]", answer: "asyncio.Future[Any]") -> None:
        self._actor.calls.discard((ended, answer))
        if not ended.cancelled() and not answer.done():
            answer.set_result(pickle.loads(pickle.dumps(ended.result())))


class FakeCluster:
    """Stands in the place of `dragoman.bulk.cluster.Cluster`; ``begun`` are all actors of all of them."""

    lost, away = Lost, Away
    begun: "list[Actor]"

    def __init__(self, address: str, workers: int | None) -> None:
        self.workers = workers or 2

    def connect(self) -> None:
        pass

    def hire(self, asked: Sequence[Asked]) -> Actor:
        actor = Actor(pickle.loads(pickle.dumps(list(asked))))
        self.begun.append(actor)
        return actor

    def dismiss(self, actor: Actor) -> None:
        actor.kill(for_good=True)

    def close(self) -> None:
        pass


@asynccontextmanager
async def provider(seconds: float) -> AsyncIterator[tuple[dict[str, Any], Seen]]:
    """The settings that lead to a provider on loopback, and what it has seen."""
    seen = Seen(seconds)
    server = await asyncio.start_server(seen.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield {"anthropic": {"base_url": url, "api_key": "none"}}, seen
    finally:
        server.close()
        closing, _closing[:] = list(_closing), []
        await asyncio.gather(*closing)
