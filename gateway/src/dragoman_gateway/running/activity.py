"""Statistics of the gateway's own requests: those that run, and figures of those that have ended."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from dragoman_gateway.running.metrics import RequestRecord

_STEP = math.log(1.05)
"""Times are kept to five percent, so that those of several groups can be added up."""
_SHORTEST = 0.0001
_MAX_GROUPS = 2000
_OTHER = "other"
_NUMBERS = ("requests", "errors", "losses", "input_tokens", "output_tokens", "unpriced")


class Durations:
    """Seconds, kept to five percent."""

    def __init__(self, dump: Iterable[tuple[int, int]] = ()) -> None:
        self._counts = Counter(dict(dump))

    def dump(self) -> list[tuple[int, int]]:
        """Return how many there were in each step."""
        return list(self._counts.items())

    def add(self, seconds: float) -> None:
        self._counts[math.floor(math.log(max(seconds, _SHORTEST)) / _STEP)] += 1

    def merge(self, other: "Durations") -> None:
        self._counts.update(other._counts)

    def quantile(self, share: float) -> float | None:
        """Return the time that this share of the requests did not exceed; None without any."""
        rank = math.ceil(share * self._counts.total())
        for step in sorted(self._counts):
            rank -= self._counts[step]
            if rank <= 0:
                return math.exp((step + 0.5) * _STEP)
        return None


@dataclass(slots=True)
class Figures:
    """Figures of some requests that have ended. ``usd`` is the sum of the known costs, and None if none is known."""

    requests: int = 0
    errors: int = 0
    """Requests that got an error, broke off, or were left by their client."""
    losses: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal | None = None
    unpriced: int = 0
    """Replies without a known cost."""
    whole: Durations = field(default_factory=Durations)
    """The seconds until the end of a reply that was not an error."""
    first: Durations = field(default_factory=Durations)
    """The seconds until the first byte of a stream."""
    failures: Counter[str] = field(default_factory=Counter)
    """The errors, by their class."""

    def add(self, record: RequestRecord, seconds: float) -> None:
        """Add a request that has ended, and how long it took."""
        failed = record.broken or record.status == 0 or record.status >= 400
        self.requests += 1
        self.errors += failed
        self.losses += len(record.losses)
        if failed:
            self.failures[_failure(record)] += 1
        else:
            self.whole.add(seconds)
        if record.first_at is not None:
            self.first.add(record.first_at - record.started_at)
        for usage in record.usages:
            self.input_tokens += usage.total_tokens - usage.output_tokens
            self.output_tokens += usage.output_tokens
            self.unpriced += usage.cost_usd is None
            self._add_cost(usage.cost_usd)

    def merge(self, other: "Figures") -> None:
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._add_cost(other.usd)
        self.whole.merge(other.whole)
        self.first.merge(other.first)
        self.failures.update(other.failures)

    def dump(self) -> dict[str, Any]:
        usd = None if self.usd is None else str(self.usd)
        return {**{name: getattr(self, name) for name in _NUMBERS}, "usd": usd,
                "whole": self.whole.dump(), "first": self.first.dump(), "failures": dict(self.failures)}  # fmt: skip

    @classmethod
    def load(cls, dump: Mapping[str, Any]) -> "Figures":
        usd = None if dump["usd"] is None else Decimal(dump["usd"])
        whole, first = Durations(dump["whole"]), Durations(dump["first"])
        failures = Counter(dump.get("failures", {}))
        return cls(**{name: dump[name] for name in _NUMBERS}, usd=usd, whole=whole, first=first, failures=failures)

    def _add_cost(self, usd: Decimal | None) -> None:
        if usd is not None:
            self.usd = usd if self.usd is None else self.usd + usd


class Group(NamedTuple):
    """What requests are counted by: the day in UTC, the model that was asked, and the id of the key."""

    day: date
    model: str
    key_id: str


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


class Activity:
    """The requests of one process since it began. Above a number of groups, new ones are counted as ``other``."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self.since = clock()
        self.running: set[RequestRecord] = set()
        self._groups: dict[Group, Figures] = {}

    def end(self, record: RequestRecord) -> None:
        """Count a request that has ended."""
        self.running.discard(record)
        day = self._clock().date()
        model = record.asked or (record.model if record.status < 400 else "")
        group = Group(day, model, record.key_id or "")
        self._figures_of(group).add(record, time.perf_counter() - record.started_at)

    def running_now(self) -> list[Running]:
        """Return the requests that are being answered, the longest first."""
        now = time.perf_counter()
        return [
            Running(each.request_id, each.key_id or "", each.wire, each.model, now - each.started_at,
                    each.first_at is not None)
            for each in sorted(self.running, key=lambda each: each.started_at)
        ]  # fmt: skip

    def dump(self) -> dict[str, Any]:
        """Return the figures of what has ended as JSON."""
        groups = [
            [group.day.isoformat(), group.model, group.key_id, each.dump()] for group, each in self._groups.items()
        ]
        return {"since": self.since.isoformat(), "groups": groups}

    def add(self, dump: Mapping[str, Any]) -> None:
        """Add the figures of another process."""
        if not dump:
            return
        self.since = min(self.since, datetime.fromisoformat(dump["since"]))
        for day, model, key_id, figures in dump["groups"]:
            self._figures_of(Group(date.fromisoformat(day), model, key_id)).merge(Figures.load(figures))

    def total(self) -> Figures:
        return _merge(self._groups.values())

    def by(self, name: str) -> dict[str, Figures]:
        """Return the figures by ``model``, ``key_id`` or ``day``, sorted by it."""
        found: dict[str, list[Figures]] = {}
        for group, figures in self._groups.items():
            found.setdefault(str(getattr(group, name)), []).append(figures)
        return {value: _merge(found[value]) for value in sorted(found)}

    def _figures_of(self, group: Group) -> Figures:
        if group not in self._groups and len(self._groups) >= _MAX_GROUPS:
            group = Group(group.day, _OTHER, _OTHER)
        return self._groups.setdefault(group, Figures())


def _failure(record: RequestRecord) -> str:
    """Return the class of the error of a request, or what is known instead. No client writes it."""
    if record.error:
        return record.error
    return f"status {record.status}" if record.status >= 400 else "left by the client"


def _merge(parts: Iterable[Figures]) -> Figures:
    whole = Figures()
    for each in parts:
        whole.merge(each)
    return whole
