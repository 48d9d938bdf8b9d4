"""Amounts as people write them, and the errors of budgets and limits that name them.

``50/month``, ``1000000 tokens/day``, ``100/minute``, ``30d``.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from dragoman.errors import BudgetExceededError, ConfigurationError, LimitReachedError
from dragoman.limits import Budget, Limit
from dragoman_gateway.keys.ledger_entries import LEAST, Amount

_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Period(StrEnum):
    """How long a budget lasts, by the calendar of UTC. Weeks begin on Monday. ``total`` never begins again."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    TOTAL = "total"

    def first_day(self, now: datetime) -> int:
        """Return the first day of the period, counted from 1970."""
        today = (now - _EPOCH).days
        match self:
            case Period.DAY:
                return today
            case Period.WEEK:
                return today - now.weekday()
            case Period.MONTH:
                return today - now.day + 1
            case _:
                return 1

    def reset_at(self, now: datetime) -> datetime | None:
        """Return when the next period begins; None for `TOTAL`."""
        if self is Period.TOTAL:
            return None
        days = {Period.DAY: 1, Period.WEEK: 7, Period.MONTH: 32}[self]
        later = _EPOCH + timedelta(days=self.first_day(now) + days)
        return later.replace(day=1) if self is Period.MONTH else later


class OnOutage(StrEnum):
    """Whether requests pass while nothing can be counted."""

    OPEN = "open"
    CLOSED = "closed"


class PeriodBudget(Budget):
    """A budget of a key, a user or a team in each period.

    Its spend is in the gateway's database, which all replicas share, and not in this object. ``on_outage`` says whether
    requests pass while that database does not answer.
    """

    def __init__(
        self,
        *,
        usd: Decimal | str | int | None = None,
        tokens: int | None = None,
        period: Period = Period.TOTAL,
        allow_unpriced: bool = False,
        on_outage: OnOutage = OnOutage.CLOSED,
    ) -> None:
        super().__init__(usd=usd, tokens=tokens, allow_unpriced=allow_unpriced)
        self.period = period
        self.on_outage = on_outage

    def __str__(self) -> str:
        amount = f"${self.usd:f}" if self.usd is not None else f"{self.tokens:,} tokens"
        return amount if self.period is Period.TOTAL else f"{amount}/{self.period}"

    def left(self, used: Amount) -> "Remaining":
        """Return what requests may still reserve."""
        usd = None if self.usd is None else max(self.usd - used.usd, Decimal(0))
        return Remaining(usd, None if self.tokens is None else max(self.tokens - used.tokens, 0))

    def to_json(self) -> dict[str, Any]:
        fields = {"usd": None if self.usd is None else str(self.usd), "tokens": self.tokens, "period": self.period}
        if self.allow_unpriced:
            fields["allow_unpriced"] = True
        if self.on_outage is OnOutage.OPEN:
            fields["on_outage"] = self.on_outage
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "PeriodBudget":
        return cls(
            usd=fields.get("usd"),
            tokens=fields.get("tokens"),
            period=Period(fields.get("period", Period.TOTAL)),
            allow_unpriced=bool(fields.get("allow_unpriced")),
            on_outage=OnOutage(fields.get("on_outage", OnOutage.CLOSED)),
        )


@dataclass(frozen=True, slots=True)
class Remaining:
    """The rest of a budget; None for a unit that it does not limit."""

    usd: Decimal | None
    tokens: int | None

    def to_json(self) -> dict[str, Any]:
        return {"usd": None if self.usd is None else format(self.usd, "f"), "tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class KeyLimit(Limit):
    """A limit of a key, a user or a team. ``on_outage`` says whether requests pass while the counters cannot be
    reached."""

    on_outage: OnOutage = OnOutage.OPEN

    def __str__(self) -> str:
        tokens = "tokens" if self.count_cached else "uncached tokens"
        amount = f"{self.requests:,}" if self.requests is not None else f"{self.tokens:,} {tokens}"
        seconds = next((name for name, each in _SECONDS.items() if each == self.seconds), f"{self.seconds:g} s")
        return ("" if self.models == "*" else f"{self.models}=") + f"{amount}/{seconds}"

    def to_json(self) -> dict[str, Any]:
        fields = {"models": self.models, "requests": self.requests, "tokens": self.tokens, "seconds": self.seconds}
        if self.on_outage is OnOutage.CLOSED:
            fields["on_outage"] = self.on_outage
        if not self.count_cached:
            fields["count_cached"] = False
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "KeyLimit":
        return cls(**{**fields, "on_outage": OnOutage(fields.get("on_outage", OnOutage.OPEN))}, shared=True)


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many requests of a key, a user or a team may run at the same time. ``on_outage`` says whether requests pass
    while they cannot be counted."""

    requests: int
    on_outage: OnOutage = OnOutage.OPEN

    def __str__(self) -> str:
        return f"{self.requests:,} at once"

    def to_json(self) -> dict[str, Any]:
        outage = {"on_outage": self.on_outage} if self.on_outage is OnOutage.CLOSED else {}
        return {"requests": self.requests, **outage}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Concurrency":
        return cls(fields["requests"], OnOutage(fields.get("on_outage", OnOutage.OPEN)))


def parse_concurrency(text: str) -> Concurrency:
    """Read ``8``, or ``8 closed``, which refuses requests while they cannot be counted. Raises ConfigurationError."""
    amount, on_outage = _split_outage(text, OnOutage.OPEN)
    if not re.fullmatch("[1-9][0-9]{0,8}", amount):
        raise ConfigurationError(f"a concurrency must be a number of requests, such as 8, not {text!r:.40}")
    return Concurrency(int(amount), on_outage)


def parse_budget(text: str, *, allow_unpriced: bool = False) -> PeriodBudget:
    """Read ``50/month``, ``$5``, ``1000000 tokens/day``, or ``5/day open``, which passes requests while spend cannot be
    counted. Raises ConfigurationError.
    """
    text, on_outage = _split_outage(text, OnOutage.CLOSED)
    amount, _, period = text.partition("/")
    if period and period not in list(Period):
        raise ConfigurationError(f"a budget must be per day, week or month, or have no period: not {period!r:.40}")
    duration = Period(period or Period.TOTAL)
    amount, tokens, rest = amount.strip().partition(" tokens")
    amount = amount.removeprefix("$").replace("_", "")
    try:
        number = Decimal(amount)
    except InvalidOperation:
        number = Decimal("NaN")
    if rest or not number.is_finite():
        raise ConfigurationError(f"a budget must be an amount of dollars or tokens, such as 50/month, not {text!r:.60}")
    if tokens:
        if number != number.to_integral_value():
            raise ConfigurationError(f"a budget in tokens must be a whole number, not {text!r:.60}")
        return PeriodBudget(tokens=int(number), period=duration, allow_unpriced=allow_unpriced, on_outage=on_outage)
    return PeriodBudget(usd=number, period=duration, allow_unpriced=allow_unpriced, on_outage=on_outage)


def parse_limit(text: str) -> KeyLimit:
    """Read ``100/minute``, ``40000 tokens/minute`` or ``40000 uncached tokens/minute``, each also for some models as in
    ``anthropic:*=100/minute``, and with ``closed``, which refuses requests while they cannot be counted. Raises
    ConfigurationError.
    """
    text, on_outage = _split_outage(text, OnOutage.OPEN)
    models, _, amount = text.rpartition("=")
    found = re.fullmatch(r"([0-9_]+)( tokens| uncached tokens| requests|)/(second|minute|hour|day)", amount.strip())
    if not found:
        raise ConfigurationError(
            "a limit must be a number of requests or tokens in a second, minute, hour or day, such as 100/minute or"
            f" 40000 tokens/minute, not {text!r:.60}"
        )
    unit = "tokens" if found[2].endswith("tokens") else "requests"
    amounts: dict[str, Any] = {unit: int(found[1].replace("_", "") or 0)}
    return KeyLimit(
        models or "*",
        seconds=_SECONDS[found[3]],
        shared=True,
        count_cached=found[2] != " uncached tokens",
        on_outage=on_outage,
        **amounts,
    )


def _split_outage(text: str, default: OnOutage) -> tuple[str, OnOutage]:
    amount, _, word = text.strip().rpartition(" ")
    return (amount.strip(), OnOutage(word)) if word in list(OnOutage) else (text.strip(), default)


def parse_end(text: str, now: datetime) -> datetime:
    """Read ``30d``, ``12h``, or a date such as ``2027-01-31``, at whose end a key expires. Raises
    ConfigurationError.
    """
    if found := re.fullmatch(r"([0-9]{1,5})([mhdw])", text.strip()):
        return now + timedelta(**{_UNITS[found[2]]: int(found[1])})
    try:
        end = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigurationError(f"write a time such as 30d or 12h, or a date such as 2027-01-31, not {text!r:.40}"
                                 ) from None  # fmt: skip
    if len(text.strip()) == len("2027-01-31"):
        end += timedelta(days=1)
    return end if end.tzinfo else end.replace(tzinfo=UTC)


_ROOM_AFTER = 1.0
"""Seconds after which a request that found no room may try again. It is not known when another one ends."""


class SpentBudgetError(BudgetExceededError):
    """A budget of a key, a user or a team has too little left. ``reset_at`` is when its next period begins."""

    def __init__(self, scope: str, budget: PeriodBudget, spent: Amount, reserved: Amount, needed: Amount,
                 reset_at: datetime | None) -> None:  # fmt: skip
        unit = "usd" if budget.usd is not None and spent.usd + reserved.usd + needed.usd > budget.usd else "tokens"
        amounts = [getattr(each, unit) for each in (spent, reserved, needed)]
        super().__init__(
            scope.partition(":")[0], unit, getattr(budget, unit), amounts[0] + amounts[1], amounts[2], amounts[1]
        )
        self.reset_at = reset_at
        shown = [f"${each:.4f}" if unit == "usd" else f"{each:,} tokens" for each in amounts]
        again = f"; it begins again at {reset_at:%Y-%m-%d %H:%M} UTC" if reset_at else ""
        message = (
            f"the budget of {owner_of(scope)} is {budget}: {shown[0]} are spent, {shown[1]} are reserved for requests"
            f" in flight{'' if needed == LEAST else f', and this request could take {shown[2]}'}{again}"
        )
        self.args = (message,)


class NoRoomError(LimitReachedError):
    """A key, a user or a team has as many requests in flight as it may, or they have reserved what is left of a
    budget."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: try again when one has ended", status=429, retry_after=_ROOM_AFTER)


def owner_of(scope: str) -> str:
    """Return how an error names a key, a user or a team."""
    kind, _, name = scope.partition(":")
    return "this key" if kind == "key" else f"the {kind} {name}"
