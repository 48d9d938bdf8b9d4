"""What the gateway counts, for Prometheus. No label holds what a client made up."""

import time
from collections.abc import Mapping, Sequence
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from dragoman import Loss, Usage

CONTENT_TYPE = CONTENT_TYPE_LATEST
_MAX_MODELS = 200
_KINDS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens")
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The counters of one application."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "dragoman_requests", "Requests that were answered.", ["wire", "model", "status", "form"], registry=registry
        )
        self._tokens = Counter("dragoman_tokens", "Tokens of replies.", ["model", "kind"], registry=registry)
        self._cost = Counter(
            "dragoman_cost_usd", "The cost of replies, as far as it is known.", ["model"], registry=registry
        )
        self._unpriced = Counter("dragoman_unpriced", "Replies without a known cost.", ["model"], registry=registry)
        self._losses = Counter(
            "dragoman_losses", "What requests and replies lost between two wires.", ["kind"], registry=registry
        )
        self._first = Histogram(
            "dragoman_first_byte_seconds", "Until a stream began.", ["wire"], registry=registry, buckets=_SECONDS
        )
        self._whole = Histogram(
            "dragoman_request_seconds", "Until the end of a reply.", ["wire"], registry=registry, buckets=_SECONDS
        )
        self._broken = Counter(
            "dragoman_broken_streams", "Streams that ended in an error.", ["wire"], registry=registry
        )
        self._in_flight = Gauge("dragoman_requests_in_flight", "Requests that are being answered.", registry=registry)
        self._dropped = Gauge(
            "dragoman_dropped",
            "What was not stored or counted because a server did not answer.",
            ["kind"],
            registry=registry,
        )
        self._available = Gauge(
            "dragoman_service_available", "Whether a shared server answers.", ["service"], registry=registry
        )
        self._labelled = cache(lambda metric, *labels: metric.labels(*labels))
        """The counters by their labels: their number is bounded, and prometheus_client's own search is slow."""
        self._models: set[str] = set()

    def page(self, in_flight: int, dropped: Mapping[str, int], available: Mapping[str, bool]) -> bytes:
        """Return all counts in Prometheus's text format."""
        for kind, number in dropped.items():
            self._dropped.labels(kind).set(number)
        self._in_flight.set(in_flight)
        for service, answers in available.items():
            self._available.labels(service).set(answers)
        return generate_latest(self._registry)

    def count(self, record: "RequestRecord") -> None:
        """Count a request that has ended."""
        model = self._model(record.model) if record.status < 400 else ""
        form = "stream" if record.stream else "whole"
        self._labelled(self._requests, record.wire, model, str(record.status), form).inc()
        self._labelled(self._whole, record.wire).observe(time.perf_counter() - record.started_at)
        if record.first_at is not None:
            self._labelled(self._first, record.wire).observe(record.first_at - record.started_at)
        for loss in record.losses:
            self._labelled(self._losses, loss.kind.value).inc()
        if record.broken:
            self._labelled(self._broken, record.wire).inc()
        for usage in record.usages:
            self._count_usage(self._model(record.model), usage)

    def _count_usage(self, model: str, usage: Usage) -> None:
        for kind in _KINDS:
            if number := getattr(usage, kind):
                self._labelled(self._tokens, model, kind).inc(number)
        if usage.cost_usd is None:
            self._labelled(self._unpriced, model).inc()
        else:
            self._labelled(self._cost, model).inc(float(usage.cost_usd))

    def _model(self, model: str) -> str:
        """Return the model, or ``other`` above a number of models: each is a series of its own."""
        if model in self._models:
            return model
        if len(self._models) >= _MAX_MODELS:
            return "other"
        self._models.add(model)
        return model


class RequestRecord:
    """What is known of one request, for the metrics and the log."""

    __slots__ = (
        "asked",
        "broken",
        "error",
        "first_at",
        "key_id",
        "losses",
        "model",
        "request_id",
        "started_at",
        "status",
        "stream",
        "usages",
        "wire",
    )

    def __init__(self, wire: str, request_id: str = "") -> None:
        self.wire = wire
        self.request_id = request_id
        self.key_id: str | None = None
        self.error = ""
        """The class of the error that ended the request."""
        self.model = ""
        self.asked = ""
        """The model that was asked last, also if it failed."""
        self.stream = False
        self.status = 0
        self.started_at = time.perf_counter()
        self.first_at: float | None = None
        self.losses: Sequence[Loss] = ()
        self.usages: Sequence[Usage] = ()
        self.broken = False
        """Whether a stream ended with an error."""
