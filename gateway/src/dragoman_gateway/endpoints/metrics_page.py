"""The page of ``/metrics``: the counts of all workers, and the state at this moment."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from dragoman_gateway.running.board import Status
from dragoman_gateway.running.metrics import SECONDS, Metrics

CONTENT_TYPE = CONTENT_TYPE_LATEST
_COUNTERS = {
    "requests": ("requests", "Requests that were answered.", ("wire", "model", "status", "form")),
    "tokens": ("tokens", "Tokens of replies.", ("model", "kind")),
    "cost": ("cost_usd", "The cost of replies, as far as it is known.", ("model",)),
    "unpriced": ("unpriced", "Replies without a known cost.", ("model",)),
    "losses": ("losses", "What requests and replies lost between two wires.", ("kind",)),
    "broken": ("broken_streams", "Streams that ended in an error.", ("wire",)),
}
_HISTOGRAMS = {
    "first": ("first_byte_seconds", "Until a stream began."),
    "whole": ("request_seconds", "Until the end of a reply."),
}


def metrics_page(status: Status) -> bytes:
    """Return all counts in Prometheus's text format."""
    metrics = Metrics()
    metrics.add(status.metrics)
    registry = CollectorRegistry()
    registry.register(_Page([*_counted(metrics.series()), *_present(status)]))
    return generate_latest(registry)


def _counted(series: Mapping[str, Mapping[tuple[str, ...], Any]]) -> Iterator[Metric]:
    """Yield the metrics of the requests that have ended."""
    for count, (name, text, labels) in _COUNTERS.items():
        counter = CounterMetricFamily(f"dragoman_{name}", text, labels=labels)
        for values, number in series.get(count, {}).items():
            counter.add_metric(values, float(number))
        yield counter
    bounds = [*map(floatToGoString, SECONDS), "+Inf"]
    for count, (name, text) in _HISTOGRAMS.items():
        histogram, ranges = HistogramMetricFamily(f"dragoman_{name}", text, labels=["wire"]), series.get(count, {})
        for (wire,), seconds in series.get(f"{count}_sum", {}).items():
            numbers = accumulate(ranges.get((wire, str(place)), 0) for place in range(len(bounds)))
            histogram.add_metric([wire], list(zip(bounds, numbers, strict=True)), seconds)
        yield histogram


def _present(status: Status) -> Iterator[Metric]:
    """Yield the metrics of the present state."""
    in_flight = "Requests that are being answered."
    yield GaugeMetricFamily("dragoman_requests_in_flight", in_flight, value=status.in_flight)
    yield GaugeMetricFamily("dragoman_estimated", "Replies that were charged an estimate.", value=status.estimated)
    lost = "What was not stored or counted because a server did not answer."
    yield _gauges("dragoman_dropped", lost, ("kind",), {(kind,): each for kind, each in status.dropped.items()})
    yield _gauges("dragoman_waiting", "What waits to be stored.", ("kind",),
                  {(kind,): each for kind, each in status.waiting.items()})  # fmt: skip
    oldest = "How long the oldest request has waited to be stored."
    yield GaugeMetricFamily("dragoman_waiting_seconds", oldest, value=status.waiting_seconds)
    answers = "Whether a shared server answers."
    yield _gauges("dragoman_service_available", answers, ("service",),
                  {(name,): each for name, each in status.available.items()})  # fmt: skip
    busy = {(lane, wait): each for lane, waits in status.busy.items() for wait, each in waits.items()}
    late = "Transactions that waited too long, for a lock or for a place."
    yield _gauges("dragoman_database_busy", late, ("lane", "wait"), busy)
    have = "The version of the configuration that a worker has."
    yield _gauges("dragoman_configuration", have, ("worker", "version"), dict.fromkeys(status.workers.items(), 1))


def _gauges(name: str, text: str, labels: Sequence[str], values: Mapping[Any, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


class _Page(Collector):
    """Metrics that exist already."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        return self._metrics
