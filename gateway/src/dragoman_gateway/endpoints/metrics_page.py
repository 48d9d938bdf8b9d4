"""The page of ``/metrics``: the counts of all workers, and the state at this moment."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from dragoman_gateway.running.board import Status
from dragoman_gateway.running.metrics import SECONDS, Metrics
from dragoman_gateway.toml import load_table

__all__ = ["CONTENT_TYPE", "metrics_page"]


def metrics_page(status: Status) -> bytes:
    """Return all counts in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_Page([*_counted(status), *_present(status)]))
    return generate_latest(registry)


def _counted(status: Status) -> Iterator[Metric]:
    """Yield the metrics of the requests that have ended."""
    metrics = Metrics()
    metrics.add(status.metrics)
    for name, each in load_table("endpoints/metrics.toml")["counters"].items():
        counter = CounterMetricFamily(f"dragoman_{name}", each["text"], labels=each["labels"])
        for labels, numbers in metrics.series(name).items():
            for label, number in numbers.items():
                counter.add_metric((*labels, label), float(number))
        yield counter
    bounds = [*map(floatToGoString, SECONDS), "+Inf"]
    for name, each in load_table("endpoints/metrics.toml")["histograms"].items():
        histogram = HistogramMetricFamily(f"dragoman_{name}", each["text"], labels=each["labels"])
        for labels, numbers in metrics.series(each["time"]).items():
            ranges = accumulate(numbers.get(str(place), 0) for place in range(len(bounds)))
            histogram.add_metric(labels, list(zip(bounds, ranges, strict=True)), numbers["sum"])
        yield histogram


def _present(status: Status) -> Iterator[Metric]:
    """Yield the metrics of the present state."""
    values: dict[str, dict[tuple[str, ...], float]] = {
        "requests_in_flight": {(): status.in_flight},
        "estimated": {(): status.estimated},
        "dropped": {(kind,): number for kind, number in status.dropped.items()},
        "waiting": {(kind,): number for kind, number in status.waiting.items()},
        "waiting_seconds": {(): status.waiting_seconds},
        "service_available": {(name,): answers for name, answers in status.available.items()},
        "database_busy": {(lane, wait): each for lane, waits in status.busy.items() for wait, each in waits.items()},
        "configuration": dict.fromkeys(status.workers.items(), 1),
    }
    for name, each in load_table("endpoints/metrics.toml")["gauges"].items():
        gauge = GaugeMetricFamily(f"dragoman_{name}", each["text"], labels=each["labels"])
        for labels, number in values[name].items():
            gauge.add_metric(labels, number)
        yield gauge


class _Page(Collector):
    """Metrics that exist already."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        return self._metrics
