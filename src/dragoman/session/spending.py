"""What a session has used and what that cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage


@dataclass(frozen=True, slots=True)
class Cost:
    """``usd`` is the sum of what is known; None where no reply has a known cost.

    ``status`` is free where all is free, priced where every reply is priced or free, partial where some cost is
    unknown, and unpriced where all of it is.
    """

    usd: Decimal | None
    status: CostStatus
    by_model: dict[str, Decimal | None]
    replies: int

    def __str__(self) -> str:
        if self.usd is None:
            return f"unknown ({self.replies} replies without a price)" if self.replies else "$0 (nothing asked yet)"
        return f"${self.usd:.6f}{'' if self.status is not CostStatus.PARTIAL else ' at least: some of it is unpriced'}"


def usages(history: Sequence[Message]) -> list[tuple[str, Usage]]:
    """(model, usage) of each reply that has a usage."""
    return [
        (message.metadata.model or "", message.metadata.usage)
        for message in history
        if message.metadata.usage is not None
    ]


def total_usage(history: Sequence[Message]) -> TokenUsage:
    """The sum of all replies' buckets; subsets are summed where any reply tells them."""
    counted = [usage for _, usage in usages(history)]

    def subset(name: str) -> int | None:
        known = [value for usage in counted if (value := getattr(usage, name)) is not None]
        return sum(known) if known else None

    return TokenUsage(
        input_tokens=sum(usage.input_tokens for usage in counted),
        output_tokens=sum(usage.output_tokens for usage in counted),
        cached_input_tokens=sum(usage.cached_input_tokens for usage in counted),
        cache_creation_input_tokens=sum(usage.cache_creation_input_tokens for usage in counted),
        reasoning_tokens=subset("reasoning_tokens"),
        cache_creation_1h_input_tokens=subset("cache_creation_1h_input_tokens"),
    )


def total_cost(history: Sequence[Message]) -> Cost:
    """The sum of all replies' costs, honest about what is unknown."""
    counted = usages(history)
    by_model: dict[str, Decimal | None] = {}
    for model, usage in counted:
        if usage.cost_usd is not None:
            by_model[model] = (by_model.get(model) or Decimal(0)) + usage.cost_usd
        else:
            by_model.setdefault(model, None)
    statuses = {usage.cost_status for _, usage in counted}
    unknown = any(message.metadata.provider and message.metadata.usage is None for message in history)
    if unknown:
        statuses.add(CostStatus.UNPRICED)
    known = [usage.cost_usd for _, usage in counted if usage.cost_usd is not None]
    return Cost(sum(known, Decimal(0)) if known else None, _status(statuses), by_model, len(counted))


def _status(statuses: set[CostStatus]) -> CostStatus:
    if statuses <= {CostStatus.FREE}:
        return CostStatus.FREE
    if statuses <= {CostStatus.FREE, CostStatus.PRICED}:
        return CostStatus.PRICED
    return CostStatus.UNPRICED if statuses == {CostStatus.UNPRICED} else CostStatus.PARTIAL
