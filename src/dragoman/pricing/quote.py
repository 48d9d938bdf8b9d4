"""The models of a provider, and the price of one reply: its rates among the rows of a model (the active row, the
variant that the reply names, and the rate for the length of the prompt), and what they come to: exact decimal
arithmetic over disjoint buckets.

Source: docs/reference/pricing.md#cost.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any, NamedTuple

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import assemble, replace_fields
from dragoman.canonical.usage import NO_COST, CostStatus, TokenUsage, Usage
from dragoman.pricing.rows import (
    FORMAT_ERRORS,
    VARIANTS,
    PriceRow,
    Rate,
    Surcharge,
    matches,
    read_amounts,
    read_row,
    read_rule,
    read_surcharge,
)

# Wide enough for every product of a rate and a count, so nothing is rounded, whatever the caller's decimal context.
EXACT = Context(prec=80)

# What replies call their ordinary service: Anthropic, Google and Mistral "standard", OpenAI and xAI "default" (or
# "auto", where a reply repeats the request), Groq and Vertex "on_demand".
_STANDARD: frozenset[str | None] = frozenset({None, "", "standard", "default", "auto", "on_demand"})

_ZERO = Decimal(0)
BUCKETS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "input_tokens": ("input", {"audio_input_tokens": "audio_input", "image_input_tokens": "image_input"}),
    "cached_input_tokens": (
        "cache_read",
        {"cached_audio_input_tokens": "audio_cache_read", "cached_image_input_tokens": "image_cache_read"},
    ),
    "cache_creation_input_tokens": ("cache_write", {"cache_creation_1h_input_tokens": "cache_write_1h"}),
    "output_tokens": (
        "output",
        {
            "audio_output_tokens": "audio_output",
            "image_output_tokens": "image_output",
            "reasoning_tokens": "reasoning",
        },
    ),
}
"""The rate of each bucket, and the rates of its subsets, by the fields that count them, in the order in which they are
charged."""
# A tool's count of calls has three possible names: web_search, web_search_requests, web_search_calls.
_CALL_SUFFIXES = ("_requests", "_calls", "_call")


class Part(NamedTuple):
    """A subset of a bucket with its own rate, by the field that counts it, in dollars per token."""

    field: str
    rate: Decimal


class Bucket(NamedTuple):
    """One of the four disjoint buckets, by the field that counts it. None: the rate is unknown."""

    field: str
    rate: Decimal | None
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Quote:
    """The rates for one kind of reply. ``steps``: (prompt tokens, buckets) in ascending order; the last one reached
    applies.

    ``unknown`` holds the words of the reply that have no price (``service_tier=scale``); then there are no steps.
    """

    steps: tuple[tuple[int, tuple[Bucket, ...]], ...] = ()
    request: Decimal | None = None
    tools: Mapping[str, Decimal] | None = None
    free: bool = False
    unknown: str | None = None


NO_QUOTE = Quote()


class PricedModel:
    """The rows of one model, ready to quote. Quotes are cached: a warm lookup reads two dictionaries."""

    def __init__(self, model_id: str, rows: tuple[PriceRow, ...], surcharges: tuple[Surcharge, ...] = ()) -> None:
        self.id = model_id
        # Rows with a window precede the rows that apply all day.
        self.rows = tuple(sorted(rows, key=lambda row: row.window is None))
        # Nearly all models have prices that hold at all times: then no row is searched.
        first = self.rows[0] if self.rows else None
        self._is_timeless = (
            first is not None
            and first.variant is None
            and (first.valid_from, first.valid_until, first.window) == (None, None, None)
        )
        self._surcharges = surcharges
        self._surcharged = frozenset(each.field for each in surcharges)
        self._quotes: dict[tuple[int, int, Decimal | None], Quote] = {}

    def row(self, at: datetime, variant: tuple[str, str] | None = None) -> PriceRow | None:
        """Return the row that is active at that time, given in UTC."""
        index = self._index(at, variant)
        return None if index is None else self.rows[index]

    def quote(self, usage: TokenUsage, at: datetime, batch: bool) -> Quote:
        standard = 0 if self._is_timeless else self._index(at, None)
        if standard is None:
            return NO_QUOTE
        row = self.rows[standard]
        if not (row.rates or row.request or row.free):
            return NO_QUOTE
        index, factor = standard, None
        is_standard = not batch and usage.service_tier in _STANDARD and usage.speed in _STANDARD and usage.terms is None
        if not (is_standard and self._surcharged.isdisjoint(usage.raw or ())):
            # What the reply says of itself, in the words of its provider, unless that is the standard.
            tier, speed = (usage.service_tier or "").lower(), (usage.speed or "").lower()
            processing, tier = ("batch", "" if tier == "batch" else tier) if batch or tier == "batch" else ("", tier)
            said = {} if row.free else dict(zip(VARIANTS, (processing, tier, speed), strict=True))
            words = {name: value for name, value in said.items() if value not in _STANDARD}
            if len(words) == 1 and (found := self._index(at, *words.items())) is not None:
                index, words = found, {}
            if usage.terms and not row.free:
                words |= dict(sorted(usage.terms.items()))  # one name for one gap, whatever order the terms came in
            factor = self._take_factors(words, usage.raw or {})
            if words:
                return Quote(tools=row.tools, unknown=", ".join(f"{name}={value}" for name, value in words.items()))
        key = (standard, index, factor)
        if (quote := self._quotes.get(key)) is None:
            quote = self._quotes[key] = _quote(row, self.rows[index], factor)
        return quote

    def _take_factors(self, words: dict[str, str], raw: Mapping[str, Any]) -> Decimal | None:
        """Return the product of the surcharges on the words and on fields of a usage object; None for the standard
        price. What has a price is removed from the words, and what has none stays, or is added."""
        factor: Decimal | None = None
        for surcharge in self._surcharges:
            name = surcharge.field
            value = words.get(name) or (None if name in VARIANTS else raw.get(name))
            if not isinstance(value, str):
                continue
            if value in surcharge.factors:
                factor = EXACT.multiply(factor or Decimal(1), surcharge.factors[value])
                words.pop(name, None)
            elif value in surcharge.standard:
                words.pop(name, None)
            else:
                words[name] = value
        return factor

    def _index(self, at: datetime, variant: tuple[str, str] | None) -> int | None:
        for index, row in enumerate(self.rows):
            if row.variant == variant and row.is_active(at):
                return index
        return None


def _quote(standard: PriceRow, row: PriceRow, factor: Decimal | None) -> Quote:
    """Return the rates of a row, with the standard one (which may be the same) as the default."""
    rates = {**standard.rates, **row.rates}
    starts = sorted({0, *(tokens for rate in rates.values() for tokens, _ in rate.over)})
    return Quote(
        steps=tuple((start, _buckets(rates, start + 1, standard.free, factor)) for start in starts),
        request=row.request if row.request is not None else standard.request,
        tools={**standard.tools, **row.tools},
        free=standard.free,
    )


def _buckets(rates: Mapping[str, Rate], prompt_tokens: int, free: bool, factor: Decimal | None) -> tuple[Bucket, ...]:
    """Return the cost of each bucket, per token.

    As in the source of the data, a missing rate falls back to the general one: cache reads and writes without a rate
    cost as much as input, and subsets without a rate as much as their bucket. Source:
    docs/reference/pricing.md#buckets.
    """

    general = {"cache_read": "input", "cache_write": "input"}
    if "cache_read" not in rates:  # then cached media cost as much as uncached media
        general |= {"audio_cache_read": "audio_input", "image_cache_read": "image_input"}

    def find_rate(name: str) -> Decimal | None:
        if free:
            return Decimal(0)
        rate = rates.get(name) or rates.get(general.get(name, ""))
        if rate is None:
            return None
        amount = rate.at(prompt_tokens).scaleb(-6, EXACT)
        return amount if factor is None else EXACT.multiply(amount, factor)

    buckets: list[Bucket] = []
    for field, (name, parts) in BUCKETS.items():
        amounts = ((part, find_rate(part_name)) for part, part_name in parts.items())
        priced_parts = tuple(Part(part, amount) for part, amount in amounts if amount is not None)
        buckets.append(Bucket(field, find_rate(name), priced_parts))
    return tuple(buckets)


def apply_quote(usage: TokenUsage, quote: Quote, version: str, *, batch: bool) -> Usage:
    """Return the usage, priced by a quote. ``batch`` marks it as the usage of a batch.

    ``unpriced`` names the buckets without a known price, tool calls as ``server_tools.<name>``, and then the counts
    that the reply reported in an unreadable form. If no price is known, the cost is None, never 0.
    """
    total, known, unpriced = _price_tokens(usage, quote)
    unpriced += usage.unread
    if quote.request is not None:
        total = EXACT.add(total, quote.request.scaleb(-3, EXACT))
        known = True
    if usage.server_tools:
        rates = quote.tools or {}
        for name, calls in usage.server_tools.items():
            if not calls:
                continue
            spellings = (name, *map(name.removesuffix, _CALL_SUFFIXES))
            rate = next((rates[each] for each in spellings if each in rates), None)
            if rate is None:
                unpriced.append(f"server_tools.{name}")
            else:
                total = EXACT.add(total, EXACT.multiply(rate, calls).scaleb(-3, EXACT))
                known = True
    if not unpriced and quote.steps:
        status, known = CostStatus.FREE if quote.free and not total else CostStatus.PRICED, True
    else:
        if quote.unknown:
            unpriced.append(quote.unknown)
        status = CostStatus.PARTIAL if known or quote.unknown else CostStatus.UNPRICED
    figures: dict[str, object] = {
        "cost_usd": total if known else None,
        "cost_status": status,
        "unpriced": tuple(unpriced),
        "pricing_version": version,
    }
    if batch:
        figures["pricing_mode"] = "batch"
    # Validation would take most of the 20 microseconds that pricing a reply may take.
    if isinstance(usage, Usage):
        return replace_fields(usage, figures)
    given = usage.__pydantic_fields_set__ | figures.keys()
    return assemble(Usage, {**usage.__dict__, **NO_COST, **figures}, given)


def _price_tokens(usage: TokenUsage, quote: Quote) -> tuple[Decimal, bool, list[str]]:
    """Return the sum over the buckets, whether any of them has a rate, and those that have none.

    A subset larger than its bucket contradicts it (such as audio that was read from a cache). The part of it that fits
    is charged at its own rate, and its name is added to the unpriced ones.
    """
    if not quote.steps:
        return _ZERO, False, [field for field in BUCKETS if getattr(usage, field)]
    buckets = quote.steps[0][1]
    if len(quote.steps) > 1:
        prompt = usage.prompt_tokens
        buckets = [buckets, *(step_buckets for threshold, step_buckets in quote.steps if prompt > threshold)][-1]
    total, known = _ZERO, False
    unpriced: list[str] = []
    counts = usage.__dict__
    for field, rate, parts in buckets:
        remaining = counts[field]
        for part, part_rate in parts:
            if count := counts[part]:
                if count > remaining:
                    unpriced.append(part)
                    count = remaining
                total = EXACT.add(total, EXACT.multiply(part_rate, count))
                remaining -= count
                known = True
        if remaining:
            if rate is None:
                unpriced.append(field)
            else:
                total = EXACT.add(total, EXACT.multiply(rate, remaining))
                known = True
    return total, known, unpriced


_PROVIDER_KEYS = {"provider", "source", "checked", "origin", "fallback", "tools", "surcharge", "model"}
_MODEL_KEYS = {"id", "match", "source", "checked", "prices", "variants"}


class ProviderPrices:
    """Models in the order of their rules: the first match wins. Rows are read on a match.

    ``layers`` are parsed files, the highest precedence first. Raises ConfigurationError if one does not follow
    ``pricing/README.md``.
    """

    def __init__(self, name: str, layers: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self.fallback: tuple[str, ...] = ()
        self._models: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._tools: dict[str, Decimal] = {}
        surcharges: list[Surcharge] = []
        try:
            for layer in layers:
                if unknown := layer.keys() - _PROVIDER_KEYS:
                    raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
                self.fallback = self.fallback or tuple(layer.get("fallback", ()))
                self._tools = {**read_amounts(layer.get("tools", {})), **self._tools}
                surcharges += map(read_surcharge, layer.get("surcharge", ()))
                defaults = {key: layer[key] for key in ("source", "checked") if key in layer}
                for model in layer.get("model", ()):
                    if unknown := model.keys() - _MODEL_KEYS:
                        raise ValueError(f"{model.get('id')}: unknown: {', '.join(sorted(unknown))}")
                    if not isinstance(model.get("id"), str) or not isinstance(model.get("match"), dict):
                        raise ValueError(f"every model needs an id and a match: {model.get('id')!r}")
                    self._models.append((read_rule(model["match"]), defaults | model))
        except FORMAT_ERRORS as error:
            raise ConfigurationError(f"the prices of {name}: {error!s:.400}") from None
        self.surcharges = tuple(surcharges)

    @property
    def models(self) -> tuple[str, ...]:
        """The ids of all models, in the order of their rules."""
        return tuple(raw["id"] for _, raw in self._models)

    def find(self, name: str) -> PricedModel | None:
        """Return the model that matches a name in lower case."""
        for rule, raw in self._models:
            if matches(rule, name):
                return self._read(raw)
        return None

    def sell(self, model: PricedModel) -> PricedModel:
        """Return a model of another provider as this one sells it: tools that it prices itself cost its price, and its
        own surcharges apply. Its prices for the variants are unknown, so they are left out."""
        standard = (row for row in model.rows if row.variant is None)
        rows = tuple(replace(row, tools={**row.tools, **self._tools}) if self._tools else row for row in standard)
        return PricedModel(model.id, rows, self._surcharges_of(model.id))

    def all_models(self) -> Iterator[PricedModel]:
        """Yield every model with its rows."""
        return (self._read(raw) for _, raw in self._models)

    def _read(self, raw: Mapping[str, Any]) -> PricedModel:
        try:
            return PricedModel(raw["id"], tuple(self._rows(raw)), self._surcharges_of(raw["id"]))
        except FORMAT_ERRORS as error:
            raise ConfigurationError(f"the prices of {self.name}:{raw['id']}: {error!s:.400}") from None

    def _surcharges_of(self, model_id: str) -> tuple[Surcharge, ...]:
        return tuple(filter(None, (each.of_model(model_id.lower()) for each in self.surcharges)))

    def _rows(self, raw: Mapping[str, Any]) -> Iterator[PriceRow]:
        source, checked = raw.get("source"), raw.get("checked")
        if not isinstance(source, str) or checked is None:
            raise ValueError("name the source of the figures (source) and the day of the comparison (checked)")
        if not isinstance(checked, date):
            raise ValueError("checked must be a date: in TOML without quotes, in Python date(2026, 11, 1)")
        common = {"provider": self.name, "model": raw["id"], "source": source, "checked": checked}
        for row in raw.get("prices", ()):
            yield read_row(row, self._tools, **common)
        for row in raw.get("variants", ()):
            yield read_row(row, {}, **common)
