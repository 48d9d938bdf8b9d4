"""The status of one worker, and the sum of several."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from dragoman_gateway.running.activity import Activity, Running
from dragoman_gateway.running.metrics import Metrics


class Status(BaseModel):
    """The status of a worker, or the sum of several. ``metrics`` and ``activity`` are what their classes dump."""

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
    activity: dict[str, Any] = Field(default_factory=dict)
    running: list[Running] = Field(default_factory=list)

    def counted(self) -> "Status":
        """Return what stays true when the worker has ended."""
        return Status(
            estimated=self.estimated,
            dropped=self.dropped,
            busy=self.busy,
            metrics=self.metrics,
            activity=self.activity,
        )


def total(statuses: Sequence[Status]) -> Status:
    """Return the sum. A server is available if it is so for all, and the longest wait counts."""
    metrics, activity = Metrics(), Activity()
    for each in statuses:
        metrics.add(each.metrics)
        activity.add(each.activity)
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
        activity=activity.dump(),
        running=[run for each in statuses for run in each.running],
    )


def _sum(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = {name: None for part in parts for name in part}
    return {name: sum(part.get(name, 0) for part in parts) for name in names}
