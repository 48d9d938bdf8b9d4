"""A Ray cluster: the one there is, or one of this machine alone that ends with the run.

It needs the extra ``dragoman[ray]``, which is imported where a run asks for it, and not before.
"""

import os
import pickle
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from typing import Any

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.bulk.requester import ModelConfig
from dragoman.bulk.workers.worker_actor import WorkerActor

LOCAL = "local"
_DEFAULT_WORKERS = 2
"""Of a cluster of this machine, where nobody says how many."""
_OBJECT_STORE_BYTES = 128 << 20
"""Bytes that a cluster of this machine sets aside for large objects, of which there are none."""


class Cluster:
    """``address`` is that of a cluster, as `ray.init` takes it; ``local`` begins one on this machine. A program that
    has called `ray.init` itself goes on with what it has.

    A local cluster listens on 127.0.0.1 alone, and reports its use to nobody, unless RAY_USAGE_STATS_ENABLED is 1.
    Raises MissingExtraError, and ConfigurationError where there is no cluster.
    """

    def __init__(self, address: str, workers: int | None) -> None:
        if workers is not None and workers < 1:
            raise ConfigurationError("a cluster has at least one worker")
        self._address = address
        self._workers = workers
        self._started_ray = False
        self._ray = _import_ray(address)
        self.worker_error: type[Exception] = self._ray.exceptions.RayError
        """What a call to a worker raises where the worker is lost, or the way to it."""
        self.unavailable_error: type[Exception] = self._ray.exceptions.ActorUnavailableError
        """The same, where it may come back."""

    def connect(self) -> None:
        """It takes some ten seconds to begin one."""
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
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigurationError(f"there is no Ray cluster at {self._address!r:.200}: {error!s:.300}") from None
        self._started_ray = True

    @property
    def workers(self) -> int:
        """How many there are to be: one for each node, unless somebody said."""
        if self._workers is not None:
            return self._workers
        if self._started_ray and self._address == LOCAL:
            return _DEFAULT_WORKERS
        return max(1, sum(1 for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1))

    def start_worker(self, configs: Sequence[ModelConfig]) -> Any:
        """One more worker, which Ray begins anew, wherever there is room, as often as it is lost.

        A call to it is made once: what it was doing when it was lost is for the run to know.
        """
        actor = self._ray.remote(
            num_cpus=1, max_restarts=-1, max_task_retries=0, scheduling_strategy="SPREAD", max_concurrency=8
        )(WorkerActor)
        return actor.remote(list(configs), version("dragoman"))

    def stop_worker(self, actor: Any) -> None:
        """Ends it for good."""
        with suppress(self.worker_error):  # what is gone needs no end
            self._ray.kill(actor)

    def close(self) -> None:
        if self._started_ray:
            self._ray.shutdown()


def check_picklable(configs: Sequence[ModelConfig]) -> None:
    """Raises ConfigurationError where another process could not be told what is asked."""
    for each in configs:
        try:
            pickle.dumps(each)
        except Exception as error:
            raise ConfigurationError(
                f"the workers of a cluster cannot be told how {each.model} is asked, as with a client of your own:"
                f" {error!s:.200}"
            ) from None


def _import_ray(address: str) -> Any:
    """What it reads of the environment, it reads when it is imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL:  # on Linux, too, where it would listen on all addresses otherwise
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        return import_module("ray")
    except ModuleNotFoundError:
        raise MissingExtraError('bulk runs on a cluster need Ray: pip install "dragoman[ray]"') from None
