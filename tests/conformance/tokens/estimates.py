"""Token estimates against the counts that providers reported.

``python -m tests.conformance.tokens.estimates`` prints the error by provider; ``--cross`` the error of weights that
were fitted without the recordings they are judged by; ``--fit`` prints a new token_weights.toml.

Only requests whose messages and tools contain all that the provider counted are judged: none whose reply ran the
provider's own tools (their results are counted as input) or that continue a state which the provider stores.
"""

import argparse
import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from dragoman import DragomanError
from dragoman.adapter.facts.media_size import ImageRule
from dragoman.adapter.facts.token_estimate import (
    RequestMeasures,
    TextCounts,
    Weights,
    measure_request,
    row_for,
    rows,
    weights_for,
)
from tests.conformance.adapters import create_adapter, create_context
from tests.conformance.recordings.replies import decode
from tests.conformance.scope import ADAPTERS, model_name, skip_reason
from tests.conformance.tokens.fitting import Sample, fit
from tests.exchanges import RecordedExchange, load

_STRUCTURE = ("start", "messages", "systems", "calls", "results", "toolbox", "tools", "nodes", "thinking", "signature")
_FITTED = (*_STRUCTURE, *TextCounts._fields)
_TOLERANCES = (150, 3, 5, 8, 5, 400, 15, 2, 0.1, 0.1, *(0.25 for _ in TextCounts._fields))
_RARE_FEATURES = ("native_tools", "native", "pages", "audio", "video")
"""Rare features are fitted last: each by the median of what it leaves unexplained."""
_BY_HAND = {
    "start": 0, "messages": 4, "systems": 0, "calls": 10, "results": 4, "toolbox": 0, "tools": 10, "nodes": 2,
    "native_tools": 100, "thinking": 0, "signature": 0, "native": 0.25, "pages": 500, "audio": 25, "video": 260,
    "words": 1, "pieces": 0.5, "capitals": 0.5, "numbers": 0.5, "digits": 0.3, "marks": 0.3, "mark_runs": 0.5,
    "lines": 0.5, "indents": 0.3, "accented": 0.3, "wide": 0.8, "astral": 2,
}  # fmt: skip
"""The weights from which the fit starts."""
_ENOUGH = 5
_PULL = 0.1
_FOLDS = 5
_ROOT = "o200k"


@dataclass(frozen=True, slots=True)
class RecordedSample:
    """A request, its features, and the prompt tokens that its reply reports."""

    exchange: RecordedExchange
    model: str
    measures: RequestMeasures
    tokens: int
    schema: bool
    """Whether an answer by a schema was requested: an option, which the estimate does not see."""

    @property
    def tokenizer(self) -> str:
        return str(row_for(self.model, "tokenizer")["name"])

    @property
    def plain(self) -> bool:
        """Text and tools only: what the common weights are fitted to."""
        rare = any(getattr(self.measures, name) for name in _RARE_FEATURES)
        return self.exchange.is_genuine and not (rare or self.measures.images or self.schema)

    @property
    def fold(self) -> int:
        """Recordings of one file are judged together."""
        return hashlib.sha256(self.exchange.source.encode()).digest()[0] % _FOLDS

    def error(self, weights: Weights) -> float:
        return (weights.tokens(self.measures) - self.tokens) / self.tokens


@cache
def recorded_samples(provider: str, every: int = 1) -> tuple[RecordedSample, ...]:
    return tuple(filter(None, map(_read, load(provider)[::every])))


def _read(exchange: RecordedExchange) -> RecordedSample | None:
    """None if there is nothing to judge."""
    if skip_reason(exchange) or exchange.status >= 400 or not exchange.request or "stateful" in exchange.features:
        return None
    model = model_name(exchange)
    reply = decode(exchange)
    usage = None if isinstance(reply, DragomanError) else reply.usage
    if usage is None or not usage.prompt_tokens or usage.server_tools:
        return None
    messages, tools, options = create_adapter(model).from_wire_request(exchange.request, create_context(model))
    schema = options.output_schema is not None
    return RecordedSample(exchange, model, measure_request(messages, tools), usage.prompt_tokens, schema)


def fit_weights(samples: Iterable[RecordedSample]) -> dict[str, dict[str, float]]:
    """Weights by tokenizer; those with few samples stay close to those of similar ones."""
    groups: dict[str, list[RecordedSample]] = defaultdict(list)
    for sample in samples:
        groups[sample.tokenizer].append(sample)
    found = {_ROOT: _weights(groups[_ROOT], _BY_HAND)}
    for name, like in _tokenizers_by_similarity():
        found[name] = _weights(groups[name], found[like])
    return found


def _tokenizers_by_similarity() -> Iterator[tuple[str, str]]:
    """Each tokenizer and the one that it resembles; those that others resemble come first."""
    likes = {str(row["name"]): str(row.get("like", _ROOT)) for row in rows("tokenizer")}
    likes.pop(_ROOT)
    yield from sorted(likes.items(), key=lambda pair: pair[1] != _ROOT)


def _weights(samples: Sequence[RecordedSample], start: Mapping[str, float]) -> dict[str, float]:
    kinds = Counter((_features(sample.measures), sample.tokens) for sample in samples if sample.plain)
    counted = [Sample(features, tokens, times) for (features, tokens), times in kinds.items()]
    values = fit(counted, [start[name] for name in _FITTED], _TOLERANCES, _PULL)
    found = {**start, **{name: round(value, 3) for name, value in zip(_FITTED, values, strict=True)}}
    for name in _RARE_FEATURES:
        found[name] = _fit_rare_weight(name, samples, found)
    return found


def _fit_rare_weight(name: str, samples: Sequence[RecordedSample], found: Mapping[str, float]) -> float:
    """One rare weight: the median of the rest, over the requests that have no other rare feature."""
    without = Weights({**found, **dict.fromkeys(_RARE_FEATURES, 0.0)}, ImageRule())
    left = [
        max(0.0, sample.tokens - without.tokens(sample.measures)) / getattr(sample.measures, name)
        for sample in samples
        if [kind for kind in (*_RARE_FEATURES, "images") if getattr(sample.measures, kind)] == [name]
    ]
    return round(median(left), 3) if len(left) >= _ENOUGH and median(left) > 0 else found[name]


def _features(measures: RequestMeasures) -> tuple[float, ...]:
    text = (once + again for once, again in zip(measures.text, measures.schema_text, strict=True))
    return (1.0, *(float(getattr(measures, name)) for name in _STRUCTURE[1:]), *map(float, text))


def format_table(errors: Mapping[str, Sequence[float]]) -> str:
    lines = [f"{'':18}{'n':>6}{'median':>9}{'p90':>9}{'bias':>9}{'within 10 %':>13}"]
    for name, found in errors.items():
        size = sorted(map(abs, found))
        if size:
            p90, near = size[int(0.9 * (len(size) - 1))], sum(each <= 0.1 for each in size) / len(size)
            lines.append(f"{name:18}{len(size):>6}{median(size):>9.1%}{p90:>9.1%}{median(found):>+9.1%}{near:>13.0%}")
    return "\n".join(lines)


def errors(provider: str, every: int = 1) -> list[float]:
    """The errors of the judged requests, of one in ``every``, with the adapter's model rows."""
    return [sample.error(_declared_models(sample.model)) for sample in recorded_samples(provider, every)]


def cross_validate() -> dict[str, list[float]]:
    """The errors of weights that were fitted without the recordings that they are judged by."""
    everything = [(provider, sample) for provider in ADAPTERS for sample in recorded_samples(provider)]
    found: dict[str, list[float]] = {provider: [] for provider in ADAPTERS}
    for fold in range(_FOLDS):
        weights = fit_weights(sample for _, sample in everything if sample.fold != fold)
        for provider, sample in everything:
            if sample.fold == fold:
                rule = _declared_models(sample.model).image
                found[provider].append(sample.error(Weights(weights[sample.tokenizer], rule)))
    return found


@cache
def _declared_models(model: str) -> Weights:
    return weights_for(model, create_adapter(model).capabilities.token_estimate)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.tokens.estimates", description=__doc__)
    parser.add_argument("--fit", action="store_true", help="print the weights, as token_weights.toml holds them")
    parser.add_argument("--cross", action="store_true", help="judge weights by recordings that they have not seen")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    if options.fit:
        print(
            "# Fitted by `python -m tests.conformance.tokens.estimates --fit`; tokens for one of each, see `TextCounts`"
            " and `RequestMeasures`."
        )
        for name, weights in fit_weights(
            sample for provider in ADAPTERS for sample in recorded_samples(provider)
        ).items():
            print(f"\n[{name}]")
            for field, value in weights.items():
                print(f"{field} = {value:g}")
        return
    found = cross_validate() if options.cross else {provider: errors(provider) for provider in ADAPTERS}
    print(format_table({**found, "all": [error for each in found.values() for error in each]}))


if __name__ == "__main__":
    main()
