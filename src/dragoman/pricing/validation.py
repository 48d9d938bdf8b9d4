"""Finds errors and suspicious figures in a price table. For the bundled table the list is empty.

Suspicious figures that were verified are listed in the overlay, as ``accepted``.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import combinations, pairwise

from dragoman.adapter.errors import ConfigurationError
from dragoman.pricing.quote import PricedModel
from dragoman.pricing.rows import PriceRow
from dragoman.pricing.table import PriceTable

# Dollars per million tokens; more than this is a misplaced decimal point (the most expensive model costs 600).
_MAX_RATE = Decimal(2000)
# The maximum ratio from one row to the next, and from the standard price to a variant.
_JUMP = 20
_BEGINNING = datetime.min.replace(tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)


def find_faults(table: PriceTable) -> list[str]:
    """Return every fault as ``provider:model: fault``; raises nothing. An empty list means that there are none."""
    try:
        names = table.providers()
        newest = table.as_of
        undecided = sorted(set(names) & table.unpriced.keys())
    except ConfigurationError as error:
        return [str(error)]
    faults = [f"{name}: has prices, but also a reason for having none" for name in undecided]
    for name in names:
        try:
            prices = table.provider(name)
            if prices is None or prices.name != name:
                continue
            models = list(prices.all_models())
        except ConfigurationError as error:
            faults.append(str(error))
            continue
        faults += (
            f"{name}: falls back to {other}, which does not exist" for other in prices.fallback if other not in names
        )
        for model in models:
            model_id = f"{name}:{model.id}"
            faults += (f"{model_id}: {fault}" for fault in _model_faults(model, newest))
            if model_id not in table.accepted:
                faults += (f"{model_id}: {oddity}" for oddity in _oddities(model))
    return faults


def _model_faults(model: PricedModel, newest: date) -> Iterator[str]:
    for row in model.rows:
        if not row.source.startswith("https://"):
            yield f"the source is not a link: {row.source!r}"
        if row.checked > newest:
            yield f"checked on {row.checked}, after the table's own date {newest}"
        if row.valid_from and row.valid_until and row.valid_from >= row.valid_until:
            yield f"ends before it begins: {_describe_row(row)}"
        if row.free and (row.rates or row.variant):
            yield f"free, but with rates: {_describe_row(row)}"
    for first, second in combinations(model.rows, 2):
        if _overlaps(first, second):
            yield f"two rows apply at once: {_describe_row(first)} and {_describe_row(second)}"


def _oddities(model: PricedModel) -> Iterator[str]:
    """Yield figures that may be correct, but are mostly mistakes."""
    for row in model.rows:
        for name, rate in row.rates.items():
            if max((rate.amount, *(amount for _, amount in rate.over))) > _MAX_RATE:
                yield f"{name} is more than {_MAX_RATE} dollars per million tokens: {_describe_row(row)}"
            if any(amount < rate.amount for _, amount in rate.over):
                yield f"{name} is cheaper for longer prompts: {_describe_row(row)}"
        for expensive, cheap in (("input", "cache_read"), ("cache_write_1h", "cache_write")):
            if {expensive, cheap} <= row.rates.keys() and row.rates[expensive].amount < row.rates[cheap].amount:
                yield f"{cheap} is more expensive than {expensive}: {_describe_row(row)}"
    standard = sorted(
        (row for row in model.rows if row.variant is None and row.window is None),
        key=lambda row: row.valid_from or _BEGINNING,
    )
    pairs = [*pairwise(standard)]
    pairs += [(standard[-1], row) for row in model.rows if standard and row.variant]
    for before, after in pairs:
        for name in before.rates.keys() & after.rates.keys():
            low, high = sorted((before.rates[name].amount, after.rates[name].amount))
            if high > low * _JUMP:
                amounts = f"from {before.rates[name].amount} to {after.rates[name].amount}"
                yield f"{name} jumps {amounts}: {_describe_row(after)}"


def _overlaps(first: PriceRow, second: PriceRow) -> bool:
    if first.variant != second.variant or (first.window is None) != (second.window is None):
        return False
    starts = max(first.valid_from or _BEGINNING, second.valid_from or _BEGINNING)
    ends = min(first.valid_until or _END, second.valid_until or _END)
    windows = [row.window for row in (first, second) if row.window is not None]
    if starts >= ends or not windows:
        return starts < ends
    # Windows overlap if one contains the start of the other, on any day of a week.
    days = (datetime(2024, 1, day, tzinfo=UTC) for day in range(1, 8))
    moments = [datetime.combine(day, window.start, tzinfo=UTC) for day in days for window in windows]
    return any(all(window.is_active(moment) for window in windows) for moment in moments)


def _describe_row(row: PriceRow) -> str:
    """Describe a row by the fields that distinguish it."""
    variant = "=".join(row.variant) if row.variant else "standard"
    hours = f" {row.window.start:%H:%M}-{row.window.end:%H:%M}" if row.window else ""
    return f"{variant} from {row.valid_from or 'ever'} until {row.valid_until or 'further notice'}{hours}"
