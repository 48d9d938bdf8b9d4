"""Runs in a worker of a cluster: sends the requests of the jobs it gets, and returns their results.

It knows nothing about rows, the manifest or money: the process of the run records a request before it submits the job.
A lost worker loses only the requests it had in flight.
"""

import asyncio
from collections.abc import Sequence
from importlib.metadata import version
from typing import NamedTuple

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.bulk.requester import LocalRequester, ModelConfig, Requester

GATHER_SECONDS = 0.01
"""Seconds for which jobs, and results, gather for one message: a message costs more time than its content."""


class Job(NamedTuple):
    """One request. ``number`` is unique within a run; ``model_index`` is the index of its model."""

    number: int
    model_index: int
    request: WireRequest


class JobResult(NamedTuple):
    number: int
    result: WireResponse | DragomanError


class WorkerActor:
    """An actor with one event loop. ``version`` is that of the process that controls the run."""

    def __init__(self, configs: Sequence[ModelConfig], version: str) -> None:
        self._configs = configs
        self._version = version
        self._requesters: list[Requester] = []
        self._results: list[JobResult] = []
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
            self._requesters = self._requesters or [LocalRequester(each) for each in self._configs]
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

    async def collect(self, epoch: int) -> list[JobResult]:
        """Wait until there are results, or until the epoch ends."""
        while epoch == self._epoch and not self._results:
            self._has_results.clear()
            await self._has_results.wait()
        await asyncio.sleep(GATHER_SECONDS)
        if epoch != self._epoch:
            return []
        results, self._results = self._results, []
        return results

    async def _run(self, job: Job) -> None:
        result: WireResponse | DragomanError
        requester = self._requesters[job.model_index]
        try:
            result = await requester.send(job.request)
        except DragomanError as error:
            result = error
        except Exception as error:  # a bug in an adapter: every row would meet it
            result = ConfigurationError(f"{self._configs[job.model_index].model} cannot be used: {error!r:.500}")
        self._results.append(JobResult(job.number, result))
        self._has_results.set()
