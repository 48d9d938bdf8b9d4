"""A Ray cluster whose workers send the requests of a run: the pool in this process, and the actor in each worker.

The run keeps its manifest, budget, limits and concurrency to itself, and records a request before it submits the job: a
worker knows nothing about rows or money. If it is lost, each of its requests fails with WorkerLostError; the run
records it with its cost, and sends it again.
"""

import asyncio
import os
import pickle
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from typing import Any, NamedTuple

from dragoman.adapter.errors import ConfigurationError, DragomanError, MissingExtraError
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.bulk.requester import ModelConfig, Requester, WorkerLostError

GATHER_SECONDS = 0.01
"""Seconds for which jobs, and results, gather for one message: a message costs more time than its content."""
LOCAL = "local"
_DEFAULT_WORKERS = 2
"""The workers of a local cluster, if ``workers`` is not given."""
_OBJECT_STORE_BYTES = 128 << 20
"""Memory that a local cluster reserves for large objects; a run has none."""
_START_TIMEOUT = 600.0
"""Seconds for the cluster to find capacity for a worker; it may have to start a machine first."""
_RETRY_DELAY = 0.5
_MAX_STARTS = 5
"""How often a worker may fail to start, for example because its machine has no dragoman."""

Result = WireResponse | DragomanError


class Job(NamedTuple):
    """One request. ``number`` is unique within a run; ``model_index`` is the index of its model."""

    number: int
    model_index: int
    request: WireRequest


class WorkerActor:
    """An actor with one event loop. ``version`` is that of the process that controls the run."""

    def __init__(self, configs: Sequence[ModelConfig], version: str) -> None:
        self._configs = configs
        self._version = version
        self._requesters: list[Requester] = []
        self._results: list[tuple[int, Result]] = []
        self._has_results = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._epoch = 0

    async def check_ready(self, epoch: int) -> DragomanError | None:
        """Start an epoch and return the error that prevents requests, or None. Jobs of earlier epochs are dropped: the
        run has already recorded them as lost.
        """
        if (installed := version("dragoman")) != self._version:
            return ConfigurationError(
                f"a worker of the cluster has dragoman {installed}, but this program has {self._version}"
            )
        try:
            self._requesters = self._requesters or [Requester(each) for each in self._configs]
        except DragomanError as error:
            return error
        self._epoch, self._results = epoch, []
        self._has_results.set()
        return None

    async def submit(self, epoch: int, jobs: Sequence[Job]) -> None:
        """Start the jobs."""
        if epoch != self._epoch:
            return
        for job in jobs:
            task = asyncio.create_task(self._run(job))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def collect(self, epoch: int) -> list[tuple[int, Result]]:
        """Wait until there are results, or until the epoch ends. Each comes with the number of its job."""
        while epoch == self._epoch and not self._results:
            self._has_results.clear()
            await self._has_results.wait()
        await asyncio.sleep(GATHER_SECONDS)
        if epoch != self._epoch:
            return []
        results, self._results = self._results, []
        return results

    async def _run(self, job: Job) -> None:
        result: Result
        requester = self._requesters[job.model_index]
        try:
            result = await requester.send(job.request)
        except DragomanError as error:
            result = error
        except Exception as error:  # a bug in an adapter: every row would meet it
            result = ConfigurationError(f"{self._configs[job.model_index].model} cannot be used: {error!r:.500}")
        self._results.append((job.number, result))
        self._has_results.set()


class Cluster:
    """``address`` is that of a cluster, as `ray.init` takes it; ``local`` starts one on this machine. If the program
    has called `ray.init` itself, that cluster is used.

    A local cluster listens on 127.0.0.1 only, and sends no usage reports unless RAY_USAGE_STATS_ENABLED is 1. Raises
    MissingExtraError, and ConfigurationError if there is no cluster.
    """

    def __init__(self, address: str, workers: int | None) -> None:
        if workers is not None and workers < 1:
            raise ConfigurationError("workers must be at least 1")
        self._address = address
        self._workers = workers
        self._started_ray = False
        # Ray reads these variables when it is imported.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address == LOCAL:  # also on Linux, where Ray would listen on all addresses
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        try:
            self._ray = import_module("ray")
        except ModuleNotFoundError:
            raise MissingExtraError('bulk runs on a cluster need Ray: pip install "dragoman[ray]"') from None
        self.worker_error: type[Exception] = self._ray.exceptions.RayError
        """Raised by a call to a worker if the worker, or the connection to it, is lost."""
        self.unavailable_error: type[Exception] = self._ray.exceptions.ActorUnavailableError
        """Raised instead if the worker may come back."""

    def connect(self) -> None:
        """Connect to the cluster. Starting one takes about ten seconds."""
        ray = self._ray
        if ray.is_initialized():
            return
        options: dict[str, Any] = {}
        if self._address == LOCAL:
            options = {
                "num_cpus": self._workers or _DEFAULT_WORKERS,
                "include_dashboard": False,
                "object_store_memory": _OBJECT_STORE_BYTES,
            }
        try:
            ray.init(address=self._address, log_to_driver=False, logging_level="ERROR", **options)
        except Exception as error:  # Ray raises this class itself if a node does not start
            raise ConfigurationError(f"there is no Ray cluster at {self._address!r:.200}: {error!s:.300}") from None
        self._started_ray = True
        # Ray prints nothing about nodes and workers that were lost: the run says what became of their rows. Ray's own
        # setting, ``log_to_driver``, is for what workers print.
        with suppress(ImportError, AttributeError):  # a version that keeps it elsewhere
            module: Any = import_module("ray._private.worker")
            module.print_to_stdstream = lambda *_, **__: None

    @property
    def workers(self) -> int:
        """The number of workers: as given, or one for each node."""
        if self._workers is not None:
            return self._workers
        if self._started_ray and self._address == LOCAL:
            return _DEFAULT_WORKERS
        return max(1, sum(1 for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1))

    def start_worker(self, configs: Sequence[ModelConfig]) -> Any:
        """Start a worker, which Ray restarts on any node with capacity as often as it is lost.

        Calls to it are not retried: the run decides about requests that were lost with it.
        """
        actor = self._ray.remote(
            num_cpus=1, max_restarts=-1, max_task_retries=0, scheduling_strategy="SPREAD", max_concurrency=8
        )(WorkerActor)
        return actor.remote(list(configs), version("dragoman"))

    def stop_worker(self, actor: Any) -> None:
        """Stop a worker permanently."""
        with suppress(self.worker_error):  # it may be gone already
            self._ray.kill(actor)

    def close(self) -> None:
        if self._started_ray:
            self._ray.shutdown()


class Worker:
    """One worker. ``available`` says whether it accepts jobs."""

    def __init__(self, pool: "WorkerPool", actor: Any) -> None:
        self.available = False
        self.actor = actor
        self._pool = pool
        self._outbox: list[Job] = []
        self.pending: dict[int, asyncio.Future[Result]] = {}
        self._has_jobs = asyncio.Event()
        self._epoch = 0

    async def ask(self, job: Job) -> Result:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.pending[job.number] = future
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
                self.actor = self._pool.cluster.start_worker(self._pool.configs)
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
            results: list[tuple[int, Result]] = await self.actor.collect.remote(self._epoch)
            for number, result in results:
                future = self.pending.pop(number, None)
                if future is not None:
                    future.set_result(result)

    def _fail_pending(self, error: Exception) -> None:
        self.available = False
        pending, self.pending, self._outbox = self.pending, {}, []
        for future in pending.values():
            future.set_result(WorkerLostError(f"a worker of the cluster was lost: {_first_line(error)}"))


class WorkerPool:
    """The workers of one run. Raises ConfigurationError if the settings cannot be sent to them."""

    def __init__(self, cluster: Cluster, configs: Sequence[ModelConfig]) -> None:
        for each in configs:
            try:
                pickle.dumps(each)
            except Exception as error:
                raise ConfigurationError(
                    f"the settings of {each.model} cannot be sent to the workers of a cluster, for example a client:"
                    f" {error!s:.200}"
                ) from None
        self.cluster = cluster
        self.worker_available = asyncio.Event()
        self.configs = configs
        self._workers: list[Worker] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._last_number = 0

    async def start(self) -> None:
        """Start the workers, and wait until the first one is ready. Raises errors that every worker would meet, such as
        MissingKeyError, and ConfigurationError if the cluster has no capacity for any.
        """
        await asyncio.to_thread(self.cluster.connect)
        actors = [self.cluster.start_worker(self.configs) for _ in range(self.cluster.workers)]
        self._workers = [Worker(self, actor) for actor in actors]
        self._tasks = [asyncio.create_task(worker.serve()) for worker in self._workers]
        await self._wait_for_worker()

    async def ask(self, model_index: int, request: WireRequest) -> WireResponse:
        """Send the request from the worker with the fewest requests in flight. Raises ProviderError."""
        while not (available := [worker for worker in self._workers if worker.available]):
            self.worker_available.clear()
            await self._wait_for_worker()
        self._last_number += 1
        worker = min(available, key=lambda each: len(each.pending))
        result = await worker.ask(Job(self._last_number, model_index, request))
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


def _first_line(error: Exception) -> str:
    """Return the first line of the message: Ray adds pages."""
    return f"{next(iter(str(error).splitlines()), type(error).__name__):.200}"
