"""The gateway's counters for Prometheus. No label contains a value that a client made up."""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from dragoman import Loss, Usage

_MAX_MODELS = 200
_KINDS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens")
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class Metrics:
    """The counts of one application. They are plain numbers, of which prometheus_client writes the page: its own
    counters have locks, and would take a twentieth of a request's CPU."""

    def __init__(self) -> None:
        self._requests = _Counts("dragoman_requests", "Requests that were answered.", "wire", "model", "status", "form")
        self._tokens = _Counts("dragoman_tokens", "Tokens of replies.", "model", "kind")
        self._cost = _Counts("dragoman_cost_usd", "The cost of replies, as far as it is known.", "model")
        self._unpriced = _Counts("dragoman_unpriced", "Replies without a known cost.", "model")
        self._losses = _Counts("dragoman_losses", "What requests and replies lost between two wires.", "kind")
        self._broken = _Counts("dragoman_broken_streams", "Streams that ended in an error.", "wire")
        self._first = _Durations("dragoman_first_byte_seconds", "Until a stream began.", "wire")
        self._whole = _Durations("dragoman_request_seconds", "Until the end of a reply.", "wire")
        self._models: set[str] = set()

    def dump(self) -> dict[str, Any]:
        """Return all counts as JSON, by their names."""
        return {each.name: each.dump() for each in self._all() if each}

    def add(self, dump: Mapping[str, Any]) -> None:
        """Add the counts of another process."""
        for each in self._all():
            each.add_all(dump.get(each.name, []))

    def count(self, record: "RequestRecord") -> None:
        """Count a request that has ended."""
        model = self._model(record.model) if record.status < 400 else ""
        form = "stream" if record.stream else "whole"
        self._requests.add((record.wire, model, str(record.status), form))
        self._whole.add(record.wire, time.perf_counter() - record.started_at)
        if record.first_at is not None:
            self._first.add(record.wire, record.first_at - record.started_at)
        for loss in record.losses:
            self._losses.add((loss.kind.value,))
        if record.broken:
            self._broken.add((record.wire,))
        for usage in record.usages:
            model = self._model(record.model)
            for kind in _KINDS:
                if number := getattr(usage, kind):
                    self._tokens.add((model, kind), number)
            if usage.cost_usd is None:
                self._unpriced.add((model,))
            else:
                self._cost.add((model,), float(usage.cost_usd))

    def _model(self, model: str) -> str:
        """Return the model, or ``other`` above a number of models: each is a series of its own."""
        if model in self._models:
            return model
        if len(self._models) >= _MAX_MODELS:
            return "other"
        self._models.add(model)
        return model

    def families(self) -> Iterator[Metric]:
        for each in self._all():
            yield each.family()

    def _all(self) -> "Sequence[_Counts | _Durations]":
        counts = (self._requests, self._tokens, self._cost, self._unpriced, self._losses, self._broken)
        return (*counts, self._first, self._whole)


class _Counts:
    """A counter: a number for each combination of labels."""

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.name, self._text, self._labels = name, text, labels
        self._numbers: dict[tuple[str, ...], float] = {}

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def add(self, labels: tuple[str, ...], number: float = 1) -> None:
        self._numbers[labels] = self._numbers.get(labels, 0) + number

    def dump(self) -> list[Any]:
        return [[*labels, number] for labels, number in self._numbers.items()]

    def add_all(self, dump: Iterable[Any]) -> None:
        for *labels, number in dump:
            self.add(tuple(labels), number)

    def family(self) -> Metric:
        family = CounterMetricFamily(self.name, self._text, labels=self._labels)
        for labels, number in self._numbers.items():
            family.add_metric(labels, number)
        return family


class _Durations:
    """A histogram of seconds: how many lie in each range, and their sum, for each value of one label."""

    def __init__(self, name: str, text: str, label: str) -> None:
        self.name, self._text, self._label = name, text, label
        self._ranges: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add(self, label: str, seconds: float) -> None:
        self._ranges_of(label)[bisect_left(_SECONDS, seconds)] += 1
        self._sums[label] += seconds

    def dump(self) -> list[Any]:
        return [[label, ranges, self._sums[label]] for label, ranges in self._ranges.items()]

    def add_all(self, dump: Iterable[Any]) -> None:
        for label, ranges, seconds in dump:
            self._ranges[label] = [sum(both) for both in zip(self._ranges_of(label), ranges, strict=True)]
            self._sums[label] += seconds

    def _ranges_of(self, label: str) -> list[int]:
        if (ranges := self._ranges.get(label)) is None:
            ranges, self._sums[label] = self._ranges.setdefault(label, [0] * (len(_SECONDS) + 1)), 0.0
        return ranges

    def family(self) -> Metric:
        family = HistogramMetricFamily(self.name, self._text, labels=[self._label])
        bounds = [*map(floatToGoString, _SECONDS), "+Inf"]
        for label, ranges in self._ranges.items():
            family.add_metric([label], list(zip(bounds, accumulate(ranges), strict=True)), self._sums[label])
        return family


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
