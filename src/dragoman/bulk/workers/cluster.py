"""A Ray cluster: an existing one, or one on this machine that ends with the run.

It needs the extra ``dragoman[ray]``, which is imported only if a run asks for it.
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
"""The workers of a local cluster, if ``workers`` is not given."""
_OBJECT_STORE_BYTES = 128 << 20
"""Memory that a local cluster reserves for large objects; a run has none."""


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
        self._ray = _import_ray(address)
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
        _silence()

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


def check_picklable(configs: Sequence[ModelConfig]) -> None:
    """Raise ConfigurationError if the settings cannot be sent to another process."""
    for each in configs:
        try:
            pickle.dumps(each)
        except Exception as error:
            raise ConfigurationError(
                f"the settings of {each.model} cannot be sent to the workers of a cluster, for example a client:"
                f" {error!s:.200}"
            ) from None


def _import_ray(address: str) -> Any:
    """Import Ray, with the variables that it reads when it is imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL:  # also on Linux, where Ray would listen on all addresses
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        return import_module("ray")
    except ModuleNotFoundError:
        raise MissingExtraError('bulk runs on a cluster need Ray: pip install "dragoman[ray]"') from None


def _silence() -> None:
    """Let Ray print nothing about nodes and workers that were lost: the run says what became of their rows. Ray's own
    setting, ``log_to_driver``, is for what workers print."""
    with suppress(ImportError, AttributeError):  # a version that keeps it elsewhere
        import_module("ray._private.worker").print_to_stdstream = _print_nothing  # type: ignore[attr-defined]


def _print_nothing(*_: Any, **__: Any) -> None:
    pass
