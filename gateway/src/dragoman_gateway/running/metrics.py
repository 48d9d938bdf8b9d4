"""What the gateway knows of its own requests: those that run, and counts of those that have ended."""

import math
import os
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

from dragoman import Loss, Usage

PRESENT_REQUEST: ContextVar[str] = ContextVar("present_request", default="")
"""The id of the request that this task answers, for the lines of the log."""
SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""The upper bounds of the ranges of Prometheus' histograms."""
_KINDS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens")
_STEP = math.log(1.05)
"""The page's times are kept to five percent, so that those of several groups can be added up."""
_SHORTEST = 0.0001
_MAX_MODELS = 200
_MAX_GROUPS = 2000
_OTHER = "other"
_FIGURES = "figures"


def new_request_id() -> str:
    """Return the id of a request, which is in every reply and in the log."""
    return f"req_{os.urandom(12).hex()}"


@dataclass(slots=True, eq=False)
class RequestRecord:
    """What is known of one request, for the metrics and the log."""

    wire: str
    request_id: str = ""
    key_id: str | None = None
    error: str = ""
    """The class of the error that ended the request."""
    model: str = ""
    asked: str = ""
    """The model that was asked last, also if it failed."""
    stream: bool = False
    status: int = 0
    started_at: float = field(default_factory=time.perf_counter)
    first_at: float | None = None
    losses: Sequence[Loss] = ()
    usages: Sequence[Usage] = ()
    broken: bool = False
    """Whether a stream ended with an error."""


@dataclass(frozen=True, slots=True)
class Running:
    """A request that is being answered."""

    request_id: str
    key: str
    wire: str
    model: str
    seconds: float
    streams: bool
    """Whether the client has received the beginning of a stream."""


class Durations(Counter[str]):
    """How many times lie in each step of five percent."""

    def quantile(self, share: float) -> float | None:
        """Return the seconds that this share of the requests did not exceed; None without any."""
        rank = math.ceil(share * self.total())
        for step in sorted(self, key=int):
            rank -= self[step]
            if rank <= 0:
                return math.exp((int(step) + 0.5) * _STEP)
        return None


@dataclass(slots=True)
class Figures:
    """Figures of some requests that have ended."""

    requests: int = 0
    errors: int = 0
    """Requests that got an error, broke off, or were left by their client."""
    losses: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal | None = None
    """The sum of the known costs; None if none is known."""
    unpriced: int = 0
    """Replies without a known cost."""
    whole: Durations = field(default_factory=Durations)
    """The seconds until the end of a reply that was not an error."""
    first: Durations = field(default_factory=Durations)
    """The seconds until the first byte of a stream."""
    failures: Counter[str] = field(default_factory=Counter)
    """The errors, by their class."""


class Metrics:
    """The requests of one process since it began: those that run, and counts of those that have ended.

    A count has a name and labels, of which none is a text that a client made up. Above a number of models, and of
    groups of the page, new ones are counted as ``other``. The counts are plain numbers, of which prometheus_client
    writes a page: its own counters have locks, and would take a twentieth of a request's CPU.
    """

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self.since = clock()
        self.running: set[RequestRecord] = set()
        self._counts: defaultdict[tuple[str, ...], Any] = defaultdict(int)
        self._models: set[str] = set()
        self._groups: set[tuple[str, ...]] = set()

    def end(self, record: RequestRecord) -> None:
        """Count a request that has ended."""
        self.running.discard(record)
        times = {"whole": time.perf_counter() - record.started_at}
        if record.first_at is not None:
            times["first"] = record.first_at - record.started_at
        self._count_series(record, times)
        self._count_figures(record, times)

    def _count_series(self, record: RequestRecord, times: Mapping[str, float]) -> None:
        """Count what Prometheus reads. Each combination of labels is a series of its own, which it keeps for long."""
        counts, wire, model, status = self._counts, record.wire, record.model, record.status
        if model not in self._models and (status < 400 or record.usages):
            if len(self._models) < _MAX_MODELS:
                self._models.add(model)
            else:
                model = _OTHER
        form = "stream" if record.stream else "whole"
        counts["requests", wire, model if status < 400 else "", str(status), form] += 1
        for name, seconds in times.items():
            counts[name, wire, str(bisect_left(SECONDS, seconds))] += 1
            counts[f"{name}_sum", wire] += seconds
        for loss in record.losses:
            counts["losses", loss.kind.value] += 1
        if record.broken:
            counts["broken", wire] += 1
        for usage in record.usages:
            for kind in _KINDS:
                if number := getattr(usage, kind):
                    counts["tokens", model, kind] += number
            if usage.cost_usd is None:
                counts["unpriced", model] += 1
            else:
                counts["cost", model] += usage.cost_usd

    def _count_figures(self, record: RequestRecord, times: Mapping[str, float]) -> None:
        """Count what the page shows: figures of each day in UTC, model that was asked, and id of a key."""
        day, status, usages = self._clock().date().isoformat(), record.status, record.usages
        group = (_FIGURES, day, record.asked or (record.model if status < 400 else ""), record.key_id or "")
        if group not in self._groups:
            if len(self._groups) < _MAX_GROUPS:
                self._groups.add(group)
            else:
                group = (_FIGURES, day, _OTHER, _OTHER)
        failed = record.broken or status == 0 or status >= 400
        found: dict[tuple[str, ...], float] = {
            ("requests",): 1,
            ("errors",): failed,
            ("losses",): len(record.losses),
            ("input_tokens",): sum(each.prompt_tokens for each in usages),
            ("output_tokens",): sum(each.output_tokens for each in usages),
            ("unpriced",): sum(each.cost_usd is None for each in usages),
        }
        if failed:
            times = {name: seconds for name, seconds in times.items() if name == "first"}
            found["failures", record.error or (f"status {status}" if status >= 400 else "left by the client")] = 1
        for name, seconds in times.items():
            found[name, str(math.floor(math.log(max(seconds, _SHORTEST)) / _STEP))] = 1
        for label, number in found.items():
            self._counts[*group, *label] += number
        for known in (each.cost_usd for each in usages if each.cost_usd is not None):
            self._counts[*group, "usd"] += known

    def running_now(self) -> list[Running]:
        """Return the requests that are being answered, the longest first."""
        now = time.perf_counter()
        return [
            Running(each.request_id, each.key_id or "", each.wire, each.model, now - each.started_at,
                    each.first_at is not None)
            for each in sorted(self.running, key=lambda each: each.started_at)
        ]  # fmt: skip

    def dump(self) -> dict[str, Any]:
        """Return the counts as JSON. A cost is a text there: a number could not be exact."""
        counts = [
            [*labels, str(number) if isinstance(number, Decimal) else number] for labels, number in self._counts.items()
        ]
        return {"since": self.since.isoformat(), "counts": counts}

    def add(self, dump: Mapping[str, Any]) -> None:
        """Add the counts of another process; nothing for an empty object."""
        if not dump:
            return
        self.since = min(self.since, datetime.fromisoformat(dump["since"]))
        for *labels, number in dump["counts"]:
            self._counts[tuple(labels)] += Decimal(number) if isinstance(number, str) else number

    def series(self) -> dict[str, dict[tuple[str, ...], Any]]:
        """Return the counts by their names, each number by the values of its labels."""
        found: dict[str, dict[tuple[str, ...], Any]] = {}
        for (name, *labels), number in self._counts.items():
            found.setdefault(name, {})[tuple(labels)] = number
        return found

    def total(self) -> Figures:
        """Return the figures of all requests."""
        return self._figures(lambda *group: "").get("", Figures())

    def by(self, label: Literal["day", "model", "key_id"]) -> dict[str, Figures]:
        """Return the figures by the value of a label, sorted by it."""
        place = ("day", "model", "key_id").index(label)
        return self._figures(lambda *group: group[place])

    def _figures(self, name_of: Callable[..., str]) -> dict[str, Figures]:
        """Return the figures of groups of requests. ``name_of`` returns the name of the group from a day, a model and a
        key."""
        found: defaultdict[str, Figures] = defaultdict(Figures)
        for (day, model, key_id, figure, *detail), number in self.series().get(_FIGURES, {}).items():
            figures = found[name_of(day, model, key_id)]
            if detail:  # a time, or the class of an error
                getattr(figures, figure)[detail[0]] += number
            else:
                setattr(figures, figure, (getattr(figures, figure) or 0) + number)
        return dict(sorted(found.items()))
