"""The workers of a cluster, as the run sees them: sends jobs to them and receives results, many per message.

The run keeps its manifest, budget, limits and concurrency to itself; workers only send requests. If a worker is lost,
each of its requests fails with WorkerLostError; the run records it with its cost, and sends it again.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.bulk.requester import ModelConfig, Requester, WorkerLostError
from dragoman.bulk.workers.cluster import Cluster, check_picklable
from dragoman.bulk.workers.worker_actor import GATHER_SECONDS, Job, JobResult

Result = WireResponse | DragomanError

_START_TIMEOUT = 600.0
"""Seconds for the cluster to find capacity for a worker; it may have to start a machine first."""
_RETRY_DELAY = 0.5
_MAX_STARTS = 5
"""How often a worker may fail to start, for example because its machine has no dragoman."""


class Worker:
    """One worker. ``available`` says whether it accepts jobs."""

    def __init__(self, pool: "WorkerPool", actor: Any) -> None:
        self.available = False
        self.actor = actor
        self._pool = pool
        self._outbox: list[Job] = []
        self._pending: dict[int, asyncio.Future[Result]] = {}
        self._has_jobs = asyncio.Event()
        self._epoch = 0

    @property
    def load(self) -> int:
        return len(self._pending)

    async def ask(self, job: Job) -> Result:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._pending[job.number] = future
        self._outbox.append(job)
        self._has_jobs.set()
        return await future

    async def serve(self) -> None:
        """Run until cancelled: wait until the worker is ready, exchange jobs and results, and reconnect when the worker
        is lost.

        Raises errors that prevent all requests.
        """
        while True:
            await self._wait_until_ready()
            self.available = True
            self._pool.worker_available.set()
            loops = [asyncio.create_task(self._send_loop()), asyncio.create_task(self._receive_loop())]
            try:
                await asyncio.gather(*loops)
            except self._pool.cluster.worker_error as error:
                self._fail_pending(error)
            except Exception as error:
                self._fail_pending(error)
                raise
            finally:
                for loop in loops:
                    loop.cancel()
                await asyncio.gather(*loops, return_exceptions=True)

    async def _wait_until_ready(self) -> None:
        starts = 0
        while True:
            self._epoch += 1
            try:
                error_at_start = await self.actor.check_ready.remote(self._epoch)
            except self._pool.cluster.unavailable_error:
                await asyncio.sleep(_RETRY_DELAY)
            except self._pool.cluster.worker_error as error:
                starts += 1
                if starts == _MAX_STARTS:
                    raise ConfigurationError(f"no worker of the cluster can start: {_first_line(error)}") from None
                await asyncio.sleep(_RETRY_DELAY)
                self._pool.cluster.stop_worker(self.actor)
                self.actor = self._pool.start_worker()
            else:
                if error_at_start is not None:
                    raise error_at_start
                return

    async def _send_loop(self) -> None:
        while True:
            await self._has_jobs.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._has_jobs.clear()
            outbox, self._outbox = self._outbox, []
            await self.actor.submit.remote(self._epoch, outbox)

    async def _receive_loop(self) -> None:
        while True:
            results: list[JobResult] = await self.actor.collect.remote(self._epoch)
            for number, result in results:
                future = self._pending.pop(number, None)
                if future is not None:
                    future.set_result(result)

    def _fail_pending(self, error: Exception) -> None:
        self.available = False
        pending, self._pending, self._outbox = self._pending, {}, []
        for future in pending.values():
            future.set_result(WorkerLostError(f"a worker of the cluster was lost: {_first_line(error)}"))


class WorkerPool:
    """The workers of one run. Raises ConfigurationError if the settings cannot be sent to them."""

    def __init__(self, cluster: Cluster, configs: Sequence[ModelConfig]) -> None:
        check_picklable(configs)
        self.cluster = cluster
        self.worker_available = asyncio.Event()
        self._configs = configs
        self._workers: list[Worker] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._last_number = 0

    def requesters(self) -> list["PoolRequester"]:
        """Return one requester for each model."""
        return [PoolRequester(each, model_index, self) for model_index, each in enumerate(self._configs)]

    def start_worker(self) -> Any:
        return self.cluster.start_worker(self._configs)

    async def start(self) -> None:
        """Start the workers, and wait until the first one is ready. Raises errors that every worker would meet, such as
        MissingKeyError, and ConfigurationError if the cluster has no capacity for any.
        """
        await asyncio.to_thread(self.cluster.connect)
        self._workers = [Worker(self, self.start_worker()) for _ in range(self.cluster.workers)]
        self._tasks = [asyncio.create_task(worker.serve()) for worker in self._workers]
        await self._wait_for_worker()

    async def ask(self, model_index: int, request: WireRequest) -> WireResponse:
        while not (available := [worker for worker in self._workers if worker.available]):
            self.worker_available.clear()
            await self._wait_for_worker()
        self._last_number += 1
        result = await min(available, key=lambda worker: worker.load).ask(Job(self._last_number, model_index, request))
        if isinstance(result, DragomanError):
            raise result
        return result

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self._workers:
            self.cluster.stop_worker(worker.actor)
        await asyncio.to_thread(self.cluster.close)

    async def _wait_for_worker(self) -> None:
        """Wait until a worker is available."""
        arrival = asyncio.create_task(self.worker_available.wait())
        try:
            done, _ = await asyncio.wait(
                [arrival, *self._tasks], timeout=_START_TIMEOUT, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            arrival.cancel()
        for task in done - {arrival}:
            task.result()  # raises its error
        if not done:
            raise ConfigurationError(f"the cluster had no free CPU for a worker within {_START_TIMEOUT:g} s")


class PoolRequester(Requester):
    """Sends each request to the worker with the fewest requests in flight."""

    def __init__(self, configs: ModelConfig, model_index: int, pool: WorkerPool) -> None:
        super().__init__(configs)
        self._model_index = model_index
        self._pool = pool

    async def send(self, request: WireRequest) -> WireResponse:
        return await self._pool.ask(self._model_index, request)

    async def close(self) -> None:
        """Do nothing: the run closes the pool."""


def _first_line(error: Exception) -> str:
    """Return the first line of the message: Ray adds pages."""
    return f"{next(iter(str(error).splitlines()), type(error).__name__):.200}"
