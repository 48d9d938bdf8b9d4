"""One row of the price table: the rates, their validity, how it is read from TOML, and which models it matches.

``pricing/README.md`` describes the format. Amounts are US dollars: per million tokens, and per thousand requests and
calls of the provider's tools. Source: docs/reference/pricing.md#rows.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

TOKEN_RATES = (
    "input",
    "output",
    "cache_read",
    "cache_write",
    "cache_write_1h",
    "audio_input",
    "audio_output",
    "image_input",
    "image_output",
    "audio_cache_read",
    "image_cache_read",
    "reasoning",
)
VARIANTS = ("processing", "service_tier", "speed")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

FORMAT_ERRORS = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""Exceptions that an invalid table raises: a number instead of a list, unlimited depth."""

_KEYS = frozenset({*TOKEN_RATES, *VARIANTS, "from", "until", "window", "free", "request", "tools", "over"})


@dataclass(frozen=True, slots=True)
class Rate:
    """Dollars per million tokens. ``over``: (prompt tokens, rate) in ascending order, for prompts longer than that."""

    amount: Decimal
    """Dollars per million tokens, for prompts below every length in ``over``."""
    over: tuple[tuple[int, Decimal], ...] = ()

    def at(self, prompt_tokens: int) -> Decimal:
        """Return the rate of the whole request for a prompt of this length."""
        amount = self.amount
        for threshold, higher in self.over:
            if prompt_tokens > threshold:
                amount = higher
        return amount


@dataclass(frozen=True, slots=True)
class Window:
    """Hours of the day, in UTC; an end before the start is on the next day. ``days``: 0 is Monday."""

    start: time
    """The first moment of the window."""
    end: time
    """The first moment after the window."""
    days: frozenset[int] = frozenset(range(7))

    def is_active(self, at: datetime) -> bool:
        """Return whether a moment in UTC is in the window."""
        now = at.time()
        if self.start <= self.end:
            return self.start <= now < self.end and at.weekday() in self.days
        if now >= self.start:
            return at.weekday() in self.days
        return now < self.end and (at.weekday() - 1) % 7 in self.days


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """The prices of one model while the row is valid. If a row has no rate, the prices are unknown.

    ``valid_from`` is inclusive, ``valid_until`` exclusive, None is open. ``variant`` is what a reply must say for
    the row to apply (``("service_tier", "flex")``); such a row lists only the differences from the standard one.
    ``source`` is the page with the figures and ``checked`` the day on which they were last compared with it.
    """

    provider: str
    """The provider's name, as in the table's file."""
    model: str
    """The provider's name for the model."""
    source: str
    checked: date
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    window: Window | None = None
    """The hours in which the row applies; None means always."""
    variant: tuple[str, str] | None = None
    free: bool = False
    """Whether the model costs nothing. A row without rates is unknown, not free."""
    rates: Mapping[str, Rate]
    """The price of each bucket of tokens, by the bucket's name."""
    request: Decimal | None = None
    """Dollars per request, besides the tokens."""
    tools: Mapping[str, Decimal]
    """Dollars per call of the provider's own tools, by their names."""

    def is_active(self, at: datetime) -> bool:
        """Return True if the row applies at that time, given in UTC."""
        return (
            (self.valid_from is None or at >= self.valid_from)
            and (self.valid_until is None or at < self.valid_until)
            and (self.window is None or self.window.is_active(at))
        )

    @property
    def thresholds(self) -> tuple[int, ...]:
        """The prompt lengths at which any rate of the row changes, in ascending order."""
        return tuple(sorted({tokens for rate in self.rates.values() for tokens, _ in rate.over}))


@dataclass(frozen=True, slots=True)
class Surcharge:
    """A factor on all token rates, selected by a word of the reply or of its request.

    ``field`` is ``service_tier``, ``speed`` or ``processing`` (where no variant of the model has the word), a term of
    the request (`TokenUsage.terms`), or a field of the provider's usage object, such as ``inference_geo``.
    """

    field: str
    standard: frozenset[str]
    factors: Mapping[str, Decimal]
    source: str = ""
    models: Mapping[str, Any] | None = None
    """The rule of the models that have it; None: all."""
    exempt: Mapping[str, Any] | None = None
    """The rule of the models that cost the standard price whatever the word."""

    def of_model(self, name: str) -> "Surcharge | None":
        """Return the surcharge of a model, by its name in lower case; None if it has none."""
        if self.models is not None and not matches(self.models, name):
            return None
        if self.exempt is not None and matches(self.exempt, name):
            return replace(self, factors=dict.fromkeys(self.factors, Decimal(1)))
        return self


def read_row(raw: Mapping[str, Any], tools: Mapping[str, Decimal], **common: Any) -> PriceRow:
    """Read a row; ``tools`` and ``common`` come from its provider and its model. Raises ValueError."""
    if unknown := raw.keys() - _KEYS:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
    variants = [(kind, str(raw[kind])) for kind in VARIANTS if kind in raw]
    if len(variants) > 1:
        raise ValueError(f"a row can have one variant, not {len(variants)}")
    return PriceRow(
        valid_from=_moment(raw.get("from")),
        valid_until=_moment(raw.get("until")),
        window=_window(raw["window"]) if "window" in raw else None,
        variant=variants[0] if variants else None,
        free=raw.get("free", False),
        rates=dict(_rates(raw)),
        request=_amount(raw["request"]) if "request" in raw else None,
        tools={**tools, **read_amounts(raw.get("tools", {}))},
        **common,
    )


def read_surcharge(raw: Mapping[str, Any]) -> Surcharge:
    """Read a surcharge. Raises ValueError."""
    if unknown := raw.keys() - {"field", "standard", "factors", "source", "models", "exempt"}:
        raise ValueError(f"surcharge: unknown: {', '.join(sorted(unknown))}")
    rules = {name: read_rule(raw[name]) for name in ("models", "exempt") if name in raw}
    try:
        field, standard, factors = raw["field"], frozenset(raw["standard"]), read_amounts(raw["factors"])
    except KeyError as missing:
        raise ValueError(f"surcharge: {missing} is missing") from None
    return Surcharge(field, standard, factors, raw.get("source", ""), **rules)


def read_amounts(raw: Mapping[str, Any]) -> dict[str, Decimal]:
    return {name: _amount(value) for name, value in raw.items()}


def _rates(raw: Mapping[str, Any]) -> Iterator[tuple[str, Rate]]:
    tiers = sorted(raw.get("over", ()), key=lambda tier: tier["tokens"])
    for tier in tiers:
        if unknown := tier.keys() - {"tokens", *TOKEN_RATES}:
            raise ValueError(f"over: unknown: {', '.join(sorted(unknown))}")
        if missing := [name for name in tier if name != "tokens" and name not in raw]:
            raise ValueError(f"over: {', '.join(missing)} has no rate for shorter prompts")
    for name in TOKEN_RATES:
        if name in raw:
            over = tuple((tier["tokens"], _amount(tier[name])) for tier in tiers if name in tier)
            yield name, Rate(_amount(raw[name]), over)


def _amount(value: object) -> Decimal:
    """Read an amount from its decimal string. A TOML number is rejected, because it has already been a float."""
    if not isinstance(value, str):
        raise ValueError(f"write {value!r} in quotes, as a decimal string")
    try:
        amount = Decimal(value)
    except InvalidOperation:
        raise ValueError(f"{value!r} is not a decimal number") from None
    if not amount.is_finite() or amount < 0:
        raise ValueError(f"{value!r} is not an amount of money")
    return amount


def _moment(value: object) -> datetime | None:
    """Read a time; a date means its first moment in UTC."""
    match value:
        case None:
            return None
        case datetime(tzinfo=None):
            raise ValueError(f"{value} needs a time zone")
        case datetime():
            return value.astimezone(UTC)
        case date():
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        case _:
            raise ValueError(f"{value!r} is not a date")


def _window(raw: Mapping[str, Any]) -> Window:
    start, end = raw.get("start"), raw.get("end")
    if not isinstance(start, time) or not isinstance(end, time):
        raise ValueError("window: start and end must be times, e.g. 01:00:00")
    days = raw.get("days", DAYS)
    if not set(days) <= set(DAYS):
        raise ValueError(f"window: days must be some of {', '.join(DAYS)}")
    return Window(start, end, frozenset(DAYS.index(day) for day in days))


_DATE = re.compile(r"[-@]\d{8}|-\d{4}-\d{2}-\d{2}")
_DATE_AT_END = re.compile(rf"({_DATE.pattern})$")
_COMPACT_DATE = re.compile(r"-(20\d{2})(\d{2})(\d{2})(?=[-:]|$)")


RULE_KINDS: Mapping[str, Callable[[str, str], bool]] = {
    "equals": str.__eq__,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": str.__contains__,
    "dated": lambda name, stem: name.startswith(stem) and _DATE.fullmatch(name, len(stem)) is not None,
    "regex": lambda name, pattern: re.search(pattern, name) is not None,
}


def read_rule(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Validate a rule and return it in lower case. Raises ValueError if it can never match."""
    rule: dict[str, Any] = {}
    for kind, texts in raw.items():
        if kind == "all":
            rule[kind] = [read_rule(part) for part in texts]
        elif kind not in RULE_KINDS:
            raise ValueError(f"match: {kind!r} is not one of {', '.join(RULE_KINDS)} or all")
        else:
            rule[kind] = list(texts) if kind == "regex" else [text.lower() for text in texts]
    if not any(rule.values()):
        raise ValueError("match: nothing to match")
    return rule


def matches(rule: Mapping[str, Any], name: str) -> bool:
    """Return True if the rule matches this name, which is in lower case."""
    for kind, texts in rule.items():
        if kind == "all":
            if all(matches(part, name) for part in texts):
                return True
        elif any(RULE_KINDS[kind](name, text) for text in texts):
            return True
    return False


def without_date(name: str) -> str:
    """Return the name without a date at its end: a snapshot of a model has the model's prices."""
    found = _DATE_AT_END.search(name)
    return name if found is None else name[: found.start()]


def with_dashed_date(name: str) -> str:
    """Expand a compact date at the end of a name (``-20251211``) to ``-2025-12-11``; routers shorten it."""

    def add_dashes(found: re.Match[str]) -> str:
        year, month, day = found.groups()
        try:
            date(int(year), int(month), int(day))
        except ValueError:
            return found[0]
        return f"-{year}-{month}-{day}"

    return _COMPACT_DATE.sub(add_dashes, name)
