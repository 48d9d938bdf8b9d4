"""The price table as a flat sheet: one line per kind of reply, time span and prompt length, with integer rates.

A database can price by joining it. The rates come from the table itself, once for each span in which they cannot
change; none of its rules is repeated here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from dragoman.canonical.usage import TokenUsage
from dragoman.pricing.quote import BUCKETS, EXACT, NO_QUOTE, PricedModel, Quote, apply_quote
from dragoman.pricing.rows import VARIANTS
from dragoman.pricing.table import PriceTable

PARTS: Mapping[str, tuple[str, ...]] = {bucket: tuple(parts) for bucket, (_, parts) in BUCKETS.items()}
"""The four buckets and their subsets, in the order in which they are charged."""
COUNTS = tuple(field for bucket, parts in PARTS.items() for field in (*parts, bucket))

FIRST, LAST = -(2**63), 2**63 - 1
DAY = 86_400_000_000
WEEK = 7 * DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MONDAY = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""Microseconds from 1970 to the first day of the calendar, which was a Monday."""
_END = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


class ReplyKind(NamedTuple):
    """The properties of a reply that select its rates. ``raw_fields``: fields of the provider's usage object, by name;
    ``terms``: those of the request.
    """

    model: str
    service_tier: str | None = None
    speed: str | None = None
    batch: bool = False
    raw_fields: Mapping[str, str | None] = {}
    terms: Mapping[str, str | None] = {}


@dataclass(frozen=True, slots=True)
class RateLine:
    """The rates of one kind of reply (by its index in the list of kinds), from each lower bound up to, but not
    including, the upper one. Times are microseconds since 1970; those of the week, since Monday's midnight in UTC.

    ``rates``: by the field that counts the tokens, and by ``server_tools.<name>``; a missing one has no rate.
    Rates, and ``request``, are in the units of the sheet.
    """

    kind: int
    since: int
    until: int
    week_since: int
    week_until: int
    prompt_since: int
    prompt_until: int
    rates: Mapping[str, int]
    request: int | None
    quoted: bool
    free: bool
    unknown: str | None


@dataclass(frozen=True, slots=True)
class RateSheet:
    """``scale``: a unit is 10 to the minus ``scale`` dollars, small enough that every rate is an integer."""

    scale: int
    lines: tuple[RateLine, ...]


_ALWAYS = (FIRST, LAST, 0, WEEK)
"""The bounds of all time, and of the whole week."""


def rate_sheet(
    table: PriceTable,
    kinds: Sequence[ReplyKind],
    tools: Iterable[str] = (),
    *,
    at: datetime | None = None,
    as_model: str | None = None,
) -> RateSheet:
    """Return the rates of all kinds, and of these tools of providers. ``at`` and ``as_model`` are those of `reprice`.

    Raises ConfigurationError if the table cannot be read.
    """
    names = tuple(tools)
    found = [
        (index, bounds, quote, _tool_rates(quote, names))
        for index, kind in enumerate(kinds)
        for bounds, quote in _quotes(table, kind, at, as_model)
    ]
    amounts: list[Decimal] = []
    for *_, quote, tool_rates in found:
        amounts += tool_rates.values()
        amounts += (amount for _, buckets in quote.steps for amount in _rates(buckets).values())
        amounts += [] if quote.request is None else [quote.request.scaleb(-3, EXACT)]
    scale = max((0, *(-int(amount.normalize(EXACT).as_tuple().exponent) for amount in amounts)))
    lines = [line for index, bounds, quote, rates in found for line in _lines(index, bounds, quote, rates, scale)]
    return RateSheet(scale, tuple(lines))


def list_surcharge_fields(table: PriceTable, models: Iterable[str]) -> tuple[str, ...]:
    """Return the fields of usage objects that change the cost of any of the models."""
    found = filter(None, map(table._model, models))
    return tuple(sorted({surcharge.field for model in found for surcharge in model._surcharges} - {*VARIANTS}))


def _quotes(
    table: PriceTable, kind: ReplyKind, at: datetime | None, as_model: str | None
) -> Iterator[tuple[tuple[int, int, int, int], Quote]]:
    """Yield the bounds of each time span with one quote, in time and in the week, and the quote."""
    model = table._model(as_model or kind.model)
    if model is None:
        yield _ALWAYS, NO_QUOTE
        return
    foreign = as_model is not None and as_model.partition(":")[0] != kind.model.partition(":")[0]
    usage = TokenUsage()
    if not foreign:
        terms = {name: value for name, value in kind.terms.items() if value is not None}
        raw = kind.raw_fields or None
        usage = TokenUsage(service_tier=kind.service_tier, speed=kind.speed, terms=terms or None, raw=raw)
    batch = kind.batch or kind.service_tier == "batch"
    if at is not None:
        yield _ALWAYS, model.quote(usage, at.astimezone(UTC), batch)
        return
    # Any row may become active or inactive at these times.
    moments = {moment for row in model.rows for moment in (row.valid_from, row.valid_until) if moment is not None}
    cuts = sorted((moment - _EPOCH) // _MICROSECOND for moment in moments)
    weeks = _week_spans(model)
    for since, until in pairwise([FIRST, *cuts, LAST]):
        # A span shorter than a week does not contain every moment of the week.
        probes = ((week, _first_moment(since, until, *week)) for week in weeks)
        quotes = [(week, model.quote(usage, moment, batch)) for week, moment in probes if moment is not None]
        for quote, group in groupby(quotes, key=itemgetter(1)):
            same = [week for week, _ in group]
            yield (since, until, same[0][0], same[-1][1]), quote


def _week_spans(model: PricedModel) -> list[tuple[int, int]]:
    """Return the spans between the times of a week at which any window of the model may open or close."""
    bounds = [bound for row in model.rows if row.window is not None for bound in (row.window.start, row.window.end)]
    if not bounds:
        return [(0, WEEK)]
    times = {0, *((datetime.combine(_EPOCH, bound, UTC) - _EPOCH) // _MICROSECOND for bound in bounds)}
    cuts = sorted(day * DAY + time for day in range(7) for time in times)
    return [*pairwise([*cuts, WEEK])]


def _first_moment(since: int, until: int, week_since: int, week_until: int) -> datetime | None:
    """Return the first moment of the time span that is in that span of the week."""
    since = max(since, MONDAY)
    now = (since - MONDAY) % WEEK
    moment = since if week_since <= now < week_until else since + (week_since - now) % WEEK
    return _EPOCH + timedelta(microseconds=moment) if moment < until and moment <= _END else None


def _tool_rates(quote: Quote, names: tuple[str, ...]) -> dict[str, Decimal]:
    """Return dollars for one call of each tool, from a bill of a thousand calls."""
    rates: dict[str, Decimal] = {}
    for name in names:
        billed = apply_quote(TokenUsage(server_tools={name: 1000}), Quote(tools=quote.tools), "", batch=False)
        if billed.cost_usd is not None:
            rates[f"server_tools.{name}"] = billed.cost_usd.scaleb(-3, EXACT)
    return rates


def _lines(
    kind: int, bounds: tuple[int, int, int, int], quote: Quote, tools: Mapping[str, Decimal], scale: int
) -> Iterator[RateLine]:
    steps = quote.steps or ((0, ()),)
    starts = [0, *(threshold + 1 for threshold, _ in steps[1:]), LAST]
    for (_, buckets), (low, high) in zip(steps, pairwise(starts), strict=True):
        rates = {name: _to_units(amount, scale) for name, amount in (*_rates(buckets).items(), *tools.items())}
        yield RateLine(
            kind, *bounds, low, high, rates,
            request=None if quote.request is None else _to_units(quote.request.scaleb(-3, EXACT), scale),
            quoted=bool(quote.steps), free=quote.free, unknown=quote.unknown,
        )  # fmt: skip


def _rates(buckets: Iterable[tuple[str, Decimal | None, tuple[tuple[str, Decimal], ...]]]) -> dict[str, Decimal]:
    found = {name: rate for name, rate, _ in buckets if rate is not None}
    return found | {name: rate for _, _, parts in buckets for name, rate in parts}


def _to_units(amount: Decimal, scale: int) -> int:
    return int(amount.scaleb(scale, EXACT))
