"""Tracks which models and providers are down, from the outcomes of their calls. The caller gives the time.

The rules (docs/reference/routing-and-events.md#availability):

- five failures of a model in a row within two minutes: the model is down;
- three models of a provider down within two minutes, an error of the key, or two failures within half a minute to
  reach it at all: the provider is down;
- a success clears its model and its provider; five minutes without an attempt clear both.

A call counts once, however often it was tried, so that a call which uses up its retries changes nothing by itself.
"""

from bisect import insort
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from dragoman.adapter.errors import DragomanError, NetworkError, NotFoundError, ProviderError, StreamTruncatedError
from dragoman.canonical.forks import ProcessLock
from dragoman.canonical.log import get_logger

logger = get_logger("dragoman.routing")

_COUNTED_CLASSES = frozenset({"rate_limit", "auth", "server_error", "network", "other"})
"""Error classes that count against the provider; the others are faults of the request."""
_MAX_ENTRIES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageThresholds:
    """When a model or a provider counts as down; the defaults follow
    docs/reference/routing-and-events.md#availability."""

    failures: int = 5
    """Failures in a row after which a model is down."""
    models: int = 3
    """How many of its models are down when their provider is."""
    within: timedelta = timedelta(minutes=2)
    """The time within which these failures count."""
    unreachable: int = 2
    """Failures to reach a provider after which it is down."""
    unreachable_within: timedelta = timedelta(seconds=30)
    """The time within which failures to reach a provider count."""
    idle: timedelta = timedelta(minutes=5)
    """The time without an attempt after which an outage is forgotten."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A model or a provider that is down. ``target`` is down: a model id or the name of a provider."""

    scope: Literal["model", "provider"]
    """Whether ``target`` is one model or a whole provider."""
    target: str
    since: datetime
    """When the outage was noticed."""
    reason: str
    """One sentence for people."""

    def __str__(self) -> str:
        whole = "all models of " if self.scope == "provider" else ""
        return f"{whole}{self.target} down: {self.reason}"


@dataclass(slots=True)
class _Health:
    """The recent calls of a model or a provider. ``failures`` are those since the last success, oldest first; for a
    provider, those that did not reach it."""

    last: datetime
    failures: list[datetime] = field(default_factory=list)
    down: Outage | None = None


class Availability:
    """The outages of models and providers. Threads and sessions may share one.

    Times are datetimes with a time zone, from the caller's clock.
    """

    def __init__(self, thresholds: OutageThresholds | None = None) -> None:
        self.thresholds = thresholds or OutageThresholds()
        """When a model or a provider counts as down."""
        self._models: dict[str, _Health] = {}
        self._providers: dict[str, _Health] = {}
        self._lock = ProcessLock()

    def report(self, model: str, error: DragomanError | None, at: datetime) -> None:
        """Record how one call of a model ended: None is success. Errors that are the fault of the request, or that
        occurred before anything was sent, change nothing."""
        provider = model.partition(":")[0]
        with self._lock:
            if error is None:
                self._clear(self._models, model, at)
                self._clear(self._providers, provider, at)
            elif isinstance(error, ProviderError) and (
                error.error_class in _COUNTED_CLASSES or isinstance(error, NotFoundError)
            ):
                self._record_failure(model, provider, error, at)

    def outage(self, model: str, at: datetime) -> Outage | None:
        """Return why the model is down at that time, its provider's outage first; None if it is available."""
        with self._lock:
            for known, name in ((self._providers, model.partition(":")[0]), (self._models, model)):
                health = known.get(name)
                if health is not None and health.down is not None and not self._is_expired(health, at):
                    return health.down
        return None

    def _record_failure(self, model: str, provider: str, error: ProviderError, at: datetime) -> None:
        model_health = self._health(self._models, model, at)
        provider_health = self._health(self._providers, provider, at)
        recent = self._add_and_count(model_health, at, self.thresholds.failures, self.thresholds.within)
        if model_health.down is None and recent >= self.thresholds.failures:
            reason = f"{recent} failures in a row, the last one {error.error_class}"
            model_health.down = _log_outage(Outage("model", model, at, reason))
        if provider_health.down is None and (
            provider_reason := self._provider_outage_reason(provider, error, provider_health, at)
        ):
            provider_health.down = _log_outage(Outage("provider", provider, at, provider_reason))

    def _provider_outage_reason(self, provider: str, error: ProviderError, health: _Health, at: datetime) -> str | None:
        if error.error_class == "auth":
            return f"{type(error).__name__} on one of its models"
        # With a status or the start of a stream, the provider was reached.
        if isinstance(error, NetworkError) and not isinstance(error, StreamTruncatedError) and error.status is None:
            times = self._add_and_count(health, at, self.thresholds.unreachable, self.thresholds.unreachable_within)
            if times >= self.thresholds.unreachable:
                return f"unreachable {times} times within {self.thresholds.unreachable_within.total_seconds():g} s"
        if isinstance(error, NotFoundError):  # an unknown model name is not a fault of the provider
            return None
        down = [
            found.down
            for name, found in self._models.items()
            if name.partition(":")[0] == provider
            and found.down
            and abs(at - found.down.since) <= self.thresholds.within
        ]
        if len(down) >= self.thresholds.models:
            return f"{len(down)} of its models are down"
        return None

    def _add_and_count(self, health: _Health, at: datetime, max_count: int, within: timedelta) -> int:
        """Record a failure and return how many of the last ``max_count`` lie within the span. Concurrent calls may end
        in any order."""
        insort(health.failures, at)
        del health.failures[:-max_count]
        newest = health.failures[-1]
        return sum(newest - moment <= within for moment in health.failures)

    def _health(self, known: dict[str, _Health], name: str, at: datetime) -> _Health:
        """Return the known state, or a new one if there is none or it has expired."""
        health = known.get(name)
        if health is None or self._is_expired(health, at):
            if len(known) >= _MAX_ENTRIES:
                for old in [other for other, found in known.items() if self._is_expired(found, at)]:
                    del known[old]
            health = known[name] = _Health(at)
        health.last = max(health.last, at)
        return health

    def _clear(self, known: dict[str, _Health], name: str, at: datetime) -> None:
        found = known.pop(name, None)
        if found is not None and found.down is not None and not self._is_expired(found, at):
            logger.info("%s answers again", name)

    def _is_expired(self, health: _Health, at: datetime) -> bool:
        return at - health.last >= self.thresholds.idle


def _log_outage(outage: Outage) -> Outage:
    logger.warning("%s", outage)
    return outage
