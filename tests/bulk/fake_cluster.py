"""A cluster without Ray: its workers run in the event loop of the test, and are lost when the test kills them.

Arguments and results are pickled, as they are on the way to another machine.
"""

import asyncio
import pickle
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from dragoman.bulk.requester import ModelConfig
from dragoman.bulk.workers import WorkerActor
from tests.bulk.mock_provider import RequestCounts

_closing: list[asyncio.Future[None]] = []


async def _stop_actor(worker: WorkerActor) -> None:
    """Stop the worker as the operating system would: cancel its requests and close its connections."""
    for task in list(worker._tasks):
        task.cancel()
    for requester in worker._requesters:
        await requester.close()


class ActorDiedError(Exception):
    pass


class ActorUnavailableError(ActorDiedError):
    pass


class Actor:
    """``kill`` loses the calls in flight; another worker takes its place, unless ``for_good``."""

    def __init__(self, configs: Sequence[ModelConfig]) -> None:
        self._configs = configs
        self.worker: WorkerActor | None = WorkerActor(configs, version("dragoman"))
        self.calls: set[tuple[asyncio.Future[Any], asyncio.Future[Any]]] = set()

    def __getattr__(self, name: str) -> "Method":
        return Method(self, name)

    def kill(self, *, for_good: bool = False) -> None:
        if self.worker is not None:
            _closing.append(asyncio.ensure_future(_stop_actor(self.worker)))
        self.worker = None if for_good else WorkerActor(self._configs, version("dragoman"))
        for running, future in list(self.calls):
            running.cancel()
            if not future.done():
                future.set_exception(ActorDiedError("killed") if for_good else ActorUnavailableError("killed"))


class Method:
    def __init__(self, actor: Actor, name: str) -> None:
        self._actor = actor
        self._name = name

    def remote(self, *args: Any) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._actor.worker is None:
            future.set_exception(ActorDiedError("it is gone for good"))
            return future
        running = asyncio.ensure_future(getattr(self._actor.worker, self._name)(*pickle.loads(pickle.dumps(args))))
        self._actor.calls.add((running, future))
        running.add_done_callback(lambda finished: self._forward_result(finished, future))
        return future

    def _forward_result(self, finished: "asyncio.Future[Any]", future: "asyncio.Future[Any]") -> None:
        self._actor.calls.discard((finished, future))
        if not finished.cancelled() and not future.done():
            future.set_result(pickle.loads(pickle.dumps(finished.result())))


class FakeCluster:
    """Replaces `dragoman.bulk.workers.Cluster`; ``actors`` are all that were started, on any cluster."""

    worker_error, unavailable_error = ActorDiedError, ActorUnavailableError
    actors: "list[Actor]"

    def __init__(self, address: str, workers: int | None) -> None:
        self.workers = workers or 2

    def connect(self) -> None:
        pass

    def start_worker(self, configs: Sequence[ModelConfig]) -> Actor:
        actor = Actor(pickle.loads(pickle.dumps(list(configs))))
        self.actors.append(actor)
        return actor

    def stop_worker(self, actor: Actor) -> None:
        actor.kill(for_good=True)

    def close(self) -> None:
        pass


@asynccontextmanager
async def provider(seconds: float) -> AsyncIterator[tuple[dict[str, Any], RequestCounts]]:
    """Serves a provider on loopback. Yields the settings that lead to it, and its counts."""
    _closing.clear()  # the actors of a test without a provider ended with its event loop
    counts = RequestCounts(seconds)
    async with counts.listen() as port:
        try:
            yield {"anthropic": {"base_url": f"http://127.0.0.1:{port}", "api_key": "none"}}, counts
        finally:
            closing, _closing[:] = list(_closing), []
            await asyncio.gather(*closing)
