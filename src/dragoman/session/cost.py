"""The usage and the cost of a session."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from dragoman.adapter.contract import Prices
from dragoman.canonical.forks import ProcessLock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage, combine_statuses

_BUCKETS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens")
_SUBSETS = (
    "reasoning_tokens", "cache_creation_1h_input_tokens", "audio_input_tokens", "audio_output_tokens",
    "image_input_tokens", "image_output_tokens", "cached_audio_input_tokens", "cached_image_input_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of replies: of a turn, a session or a client. Costs can be added, and `sum` adds many.

    ``usd`` is the sum of the known costs; None if no reply has one. ``status`` is free if all replies are free, priced
    if every reply is priced or free, partial if some cost is unknown, and unpriced if all of it is. ``by_model`` has
    the same sums for each model that replied. ``uncounted`` is the number of replies of which the provider reported no
    tokens: their cost is unknown, and not 0.
    """

    usd: Decimal | None
    status: CostStatus
    by_model: dict[str, Decimal | None]
    replies: int
    """The number of replies, broken ones that were billed included."""
    uncounted: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        if not isinstance(other, Cost):
            return NotImplemented
        if not (self.replies and other.replies):
            return self if self.replies else other
        return Cost(
            _add_known(self.usd, other.usd),
            combine_statuses({self.status, other.status}),
            {
                model: _add_known(self.by_model.get(model), other.by_model.get(model))
                for model in {**self.by_model, **other.by_model}
            },
            self.replies + other.replies,
            self.uncounted + other.uncounted,
        )

    def __radd__(self, other: object) -> "Cost":
        """Return this cost: `sum` begins with 0."""
        return self if other == 0 else NotImplemented

    def __str__(self) -> str:
        if self.usd is None:
            if self.replies and self.uncounted == self.replies:
                return "unknown (the provider reported no tokens)"
            return f"unknown ({self.replies} replies without a price)" if self.replies else "$0 (nothing asked yet)"
        if self.status is not CostStatus.PARTIAL:
            return f"${self.usd:.6f}"
        reason = f"no tokens were reported of {self.uncounted} of its {self.replies} replies"
        return f"${self.usd:.6f} at least: {reason if self.uncounted else 'some of it is unpriced'}"


NO_COST = Cost(None, CostStatus.FREE, {}, 0)


class RunningTotals:
    """The usage and the cost of a list of messages that only grows. Both are made when they are read, of what is new:
    sums take long to make."""

    __slots__ = ("_cost", "_new", "_read", "_usage")

    def __init__(self) -> None:
        self._cost, self._usage = NO_COST, TokenUsage()
        self._new: list[tuple[str, Usage | None]] = []
        self._read = 0

    def add_new(self, messages: Sequence[Message]) -> None:
        """Count the messages of the list that came since the last time."""
        if self._read < len(messages):
            new = messages[self._read :]
            self._read += len(new)
            self.add(new)

    def add(self, messages: Iterable[Message]) -> None:
        """Count each message that is a reply that was billed."""
        if billed := _replies(messages):
            self._new += billed
            if len(self._new) >= _MAX_NEW:
                self._fold()

    @property
    def cost(self) -> Cost:
        self._fold()
        return self._cost

    @property
    def usage(self) -> TokenUsage:
        self._fold()
        return self._usage

    def _fold(self) -> None:
        if new := self._new:
            self._new = []
            self._cost += _sum_costs(new)
            self._usage = sum_usages([self._usage, *(usage for _, usage in new)])


class Meter:
    """Counts what was used and what it cost, over all sessions and threads."""

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._totals = RunningTotals()

    def add(self, message: Message) -> None:
        """Count a message, if it is a reply that was billed."""
        if message.metadata.usage is not None or message.metadata.provider:
            with self._lock:
                self._totals.add((message,))

    @property
    def cost(self) -> Cost:
        with self._lock:
            return self._totals.cost

    @property
    def usage(self) -> TokenUsage:
        with self._lock:
            return self._totals.usage


_MAX_NEW = 1000


def total_usage(history: Iterable[Message]) -> TokenUsage:
    """Return the sum of all replies' buckets and tool calls. A subset is summed if any reply reports it."""
    return sum_usages([usage for _, usage in _replies(history)])


def sum_usages(usages: Sequence[TokenUsage | None]) -> TokenUsage:
    """Return the sum of usages. None is that of a reply without counts."""
    counted = [usage for usage in usages if usage is not None]
    uncounted = len(usages) - len(counted) + sum(usage.uncounted_replies or 0 for usage in counted)
    tools: Counter[str] = Counter()
    for usage in counted:
        tools.update(usage.server_tools)
    sums = {name: sum(getattr(usage, name) for usage in counted) for name in _BUCKETS}
    for name in _SUBSETS:
        values = [value for usage in counted if (value := getattr(usage, name)) is not None]
        if values:
            sums[name] = sum(values)
    unread = tuple(dict.fromkeys(path for usage in counted for path in usage.unread))
    return TokenUsage(**sums, server_tools=dict(tools), unread=unread, uncounted_replies=uncounted or None)


def total_cost(history: Iterable[Message]) -> Cost:
    """Return the sum of all replies' costs. The cost of a reply without token counts is unknown."""
    return _sum_costs(_replies(history))


def cost_on(history: Iterable[Message], model: str, prices: Prices, at: datetime) -> Cost:
    """Return what the same token counts would have cost on that model."""
    return _sum_costs([(model, usage and prices.price(model, usage, at)) for _, usage in _replies(history)])


def average_output(history: Iterable[Message]) -> int | None:
    """Return the average output tokens of a reply, rounded up; None if no reply reported any. Summaries do not
    count."""
    values = [
        message.metadata.usage.output_tokens
        for message in history
        if message.role is Role.ASSISTANT and message.metadata.usage is not None
    ]
    return -(-sum(values) // len(values)) if values else None


def _replies(history: Iterable[Message]) -> list[tuple[str, Usage | None]]:
    """Return model and usage of every message that a provider sent."""
    return [
        (message.metadata.model or "", message.metadata.usage)
        for message in history
        if message.metadata.usage is not None or message.metadata.provider
    ]


def _sum_costs(replies: Sequence[tuple[str, Usage | None]]) -> Cost:
    by_model: dict[str, Decimal | None] = {model: None for model, _ in replies}
    statuses: set[CostStatus] = set()
    for model, usage in replies:
        statuses.add(usage.cost_status if usage is not None else CostStatus.UNPRICED)
        if usage is not None and usage.cost_usd is not None:
            by_model[model] = (by_model[model] or Decimal(0)) + usage.cost_usd
    known = [cost for cost in by_model.values() if cost is not None]
    uncounted = sum(usage is None for _, usage in replies)
    usd = sum(known, Decimal(0)) if known else None
    return Cost(usd, combine_statuses(statuses), by_model, len(replies), uncounted)


def _add_known(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return one if other is None else other if one is None else one + other
