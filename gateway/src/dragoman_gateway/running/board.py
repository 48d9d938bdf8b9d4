"""The status of a worker, and the board of one gateway's workers: each worker writes its status there, and any of them
can show all of it.

It is a folder of the first process, with a file for each worker and one for the counts of workers that have ended.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from dragoman_gateway.running.metrics import Metrics, Running

VARIABLE = "DRAGOMAN_GATEWAY_BOARD"
"""The folder, for the workers that the first process starts."""
_ENDED = "ended.json"
_ORDER = "order.json"


class Board:
    """``own`` is the name of the worker that writes; None for the first process."""

    def __init__(self, folder: Path, own: str | None = None) -> None:
        self._folder = folder
        self._own = own

    @classmethod
    def of_environment(cls) -> "Board | None":
        """Return the board of this worker; None for a gateway of one process."""
        folder = os.environ.get(VARIABLE)
        return None if folder is None else cls(Path(folder), str(os.getpid()))

    def write(self, status: Mapping[str, Any]) -> None:
        """Show the status of this worker. A board that cannot be written shows an older one."""
        with suppress(OSError):
            self._replace(f"worker-{self._own}.json", status)

    def others(self) -> Iterator[dict[str, Any]]:
        """Yield the statuses of the other workers that are running."""
        for file in sorted(self._folder.glob("worker-*.json")):
            if file.name != f"worker-{self._own}.json" and (status := _read(file)):
                yield status

    def waiting(self, kind: str) -> Iterator[int]:
        """Yield how much waits to be stored at each of the other workers."""
        return (Status.model_validate(each).waiting.get(kind, 0) for each in self.others())

    def ended(self) -> dict[str, Any]:
        """Return the counts of workers that ended."""
        return _read(self._folder / _ENDED)

    def retire(self, worker: str, ended: Mapping[str, Any]) -> None:
        """Remove a worker that ended from the board, and add its counts to those of the ended workers."""
        self._replace(_ENDED, ended)
        (self._folder / f"worker-{worker}.json").unlink(missing_ok=True)

    def status_of(self, worker: str) -> dict[str, Any]:
        return _read(self._folder / f"worker-{worker}.json")

    def order(self, order: Mapping[str, Any]) -> None:
        """Tell all workers what to do with a configuration that they have read."""
        self._replace(_ORDER, order)

    def ordered(self) -> dict[str, Any]:
        return _read(self._folder / _ORDER)

    def _replace(self, name: str, content: Mapping[str, Any]) -> None:
        handle, path = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        Path(path).replace(self._folder / name)


def _read(file: Path) -> dict[str, Any]:
    """Return the content of a file; an empty object if it does not exist."""
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found


class Status(BaseModel):
    """The status of a worker, or the sum of several. ``metrics`` is what `Metrics` dumps."""

    model_config = ConfigDict(extra="ignore")

    workers: dict[str, str] = Field(default_factory=dict)
    """The version of the configuration that each worker has, by its name."""
    in_flight: int = 0
    estimated: int = 0
    dropped: dict[str, int] = Field(default_factory=dict)
    available: dict[str, bool] = Field(default_factory=dict)
    waiting: dict[str, int] = Field(default_factory=dict)
    """What waits to be stored, by kind."""
    waiting_seconds: float = 0.0
    """How long the oldest request that waits has waited."""
    busy: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Transactions that waited too long, by their lane, and by what they waited for."""
    metrics: dict[str, Any] = Field(default_factory=dict)
    running: list[Running] = Field(default_factory=list)

    def counted(self) -> "Status":
        """Return what stays true when the worker has ended."""
        return Status(estimated=self.estimated, dropped=self.dropped, busy=self.busy, metrics=self.metrics)


def total(statuses: Sequence[Status]) -> Status:
    """Return the sum. A server is available if it is so for all, and the longest wait counts."""
    metrics = Metrics()
    for each in statuses:
        metrics.add(each.metrics)
    lanes = {lane for each in statuses for lane in each.busy}
    return Status(
        workers={name: version for each in statuses for name, version in each.workers.items()},
        in_flight=sum(each.in_flight for each in statuses),
        estimated=sum(each.estimated for each in statuses),
        dropped=_sum([each.dropped for each in statuses]),
        available={
            name: all(each.available.get(name, True) for each in statuses)
            for name in {name: None for each in statuses for name in each.available}
        },
        waiting=_sum([each.waiting for each in statuses]),
        waiting_seconds=max((each.waiting_seconds for each in statuses), default=0.0),
        busy={lane: _sum([each.busy.get(lane, {}) for each in statuses]) for lane in sorted(lanes)},
        metrics=metrics.dump(),
        running=[run for each in statuses for run in each.running],
    )


def _sum(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = {name: None for part in parts for name in part}
    return {name: sum(part.get(name, 0) for part in parts) for name in names}
