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
from functools import partial
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
_now = partial(datetime.now, UTC)
_new_numbers = partial(defaultdict[str, Any], int)
_Counts = dict[tuple[str, ...], defaultdict[str, Any]]


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

    Prometheus reads series, each with a name and labels. The page reads figures of groups of requests: of one day in
    UTC, one model that was asked, and one key. No name is a text that a client made up. Above a number of models, and
    of groups, new ones are counted as ``other``. The counts are plain numbers, of which prometheus_client writes a
    page: its own counters have locks, and would take a twentieth of a request's CPU.
    """

    def __init__(self, clock: Callable[[], datetime] = _now) -> None:
        self._clock = clock
        self.since = clock()
        self.running: set[RequestRecord] = set()
        self._series: _Counts = defaultdict(_new_numbers)
        """By the name and all labels but the last one, and then by that."""
        self._groups: _Counts = {}
        """By the day, the model and the id of the key, and then by the figure. Behind the name of a time is its step,
        and behind that of a failure its class."""
        self._models: set[str] = set()

    def end(self, record: RequestRecord) -> None:
        """Count a request that has ended."""
        self.running.discard(record)
        times = {"whole": time.perf_counter() - record.started_at}
        if record.first_at is not None:
            times["first"] = record.first_at - record.started_at
        self._count_series(record, times)
        status, usages = record.status, record.usages
        model = record.asked or (record.model if status < 400 else "")
        figures = self._figures_of(self._clock().date().isoformat(), model, record.key_id or "")
        figures["requests"] += 1
        figures["losses"] += len(record.losses)
        if record.broken or status == 0 or status >= 400:
            figures["errors"] += 1
            known = f"status {status}" if status >= 400 else "left by the client"
            figures[f"failures {record.error or known}"] += 1
            times = {name: seconds for name, seconds in times.items() if name == "first"}
        for name, seconds in times.items():
            figures[f"{name} {math.floor(math.log(max(seconds, _SHORTEST)) / _STEP)}"] += 1
        for usage in usages:
            figures["input_tokens"] += usage.prompt_tokens
            figures["output_tokens"] += usage.output_tokens
            if usage.cost_usd is None:
                figures["unpriced"] += 1
            else:
                figures["usd"] += usage.cost_usd

    def _count_series(self, record: RequestRecord, times: Mapping[str, float]) -> None:
        series, wire, model, status = self._series, record.wire, record.model, record.status
        if model not in self._models and (status < 400 or record.usages):
            if len(self._models) < _MAX_MODELS:
                self._models.add(model)
            else:
                model = _OTHER
        form = "stream" if record.stream else "whole"
        series["requests", wire, model if status < 400 else "", str(status)][form] += 1
        for name, seconds in times.items():
            series[name, wire][str(bisect_left(SECONDS, seconds))] += 1
            series[name, wire]["sum"] += seconds
        for loss in record.losses:
            series["losses",][loss.kind.value] += 1
        if record.broken:
            series["broken_streams",][wire] += 1
        for usage in record.usages:
            for kind in _KINDS:
                if number := getattr(usage, kind):
                    series["tokens", model][kind] += number
            if usage.cost_usd is None:
                series["unpriced",][model] += 1
            else:
                series["cost_usd",][model] += usage.cost_usd

    def _figures_of(self, day: str, model: str, key_id: str) -> dict[str, Any]:
        """Return the figures of a group, which may be that of all others."""
        if (day, model, key_id) not in self._groups and len(self._groups) >= _MAX_GROUPS:
            model = key_id = _OTHER
        return self._groups.setdefault((day, model, key_id), _new_numbers())

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
        series, groups = (
            [
                [labels, {name: str(each) if type(each) is Decimal else each for name, each in numbers.items()}]
                for labels, numbers in counts.items()
            ]
            for counts in (self._series, self._groups)
        )
        return {"since": self.since.isoformat(), "series": series, "groups": groups}

    def add(self, dump: Mapping[str, Any]) -> None:
        """Add the counts of another process; nothing for an empty object."""
        if not dump:
            return
        self.since = min(self.since, datetime.fromisoformat(dump["since"]))
        found: list[tuple[dict[str, Any], Any]]
        found = [(self._series[tuple(labels)], numbers) for labels, numbers in dump["series"]]
        found += [(self._figures_of(*group), numbers) for group, numbers in dump["groups"]]
        for own, numbers in found:
            for name, number in numbers.items():
                own[name] += Decimal(number) if type(number) is str else number

    def series(self, name: str) -> dict[tuple[str, ...], dict[str, Any]]:
        """Return the series of one name: by all labels but the last one, and then by that."""
        return {labels[1:]: numbers for labels, numbers in self._series.items() if labels[0] == name}

    def total(self) -> Figures:
        """Return the figures of all requests."""
        return self._merge(lambda group: "").get("", Figures())

    def by(self, label: Literal["day", "model", "key_id"]) -> dict[str, Figures]:
        """Return the figures by the value of a label, sorted by it."""
        place = ("day", "model", "key_id").index(label)
        return self._merge(lambda group: group[place])

    def failures(self) -> list[tuple[str, str, str, int]]:
        """Return how often each model of a provider returned an error, the most frequent one of each first. The names
        of the provider and the model are empty if no model was reached."""
        found = []
        for name, figures in self.by("model").items():
            provider, colon, model = name.partition(":")
            ours = (provider, model) if colon else ("", name)
            found += [(*ours, error, number) for error, number in figures.failures.most_common()]
        return found

    def _merge(self, name_of: Callable[[tuple[str, ...]], str]) -> dict[str, Figures]:
        found: defaultdict[str, Figures] = defaultdict(Figures)
        for group, numbers in self._groups.items():
            figures = found[name_of(group)]
            for name, number in numbers.items():
                figure, _, detail = name.partition(" ")
                if detail:
                    getattr(figures, figure)[detail] += number
                else:
                    setattr(figures, figure, (getattr(figures, figure) or 0) + number)
        return dict(sorted(found.items()))
