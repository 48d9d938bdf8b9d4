"""Token counts and what they cost (specification D2 and D4).

The four buckets are disjoint: their sum is everything that was billed as tokens. The subsets (reasoning, 1-hour
cache writes, audio, images) are parts of a bucket and never add to the total.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Literal, Self

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import Count, JsonObject, Text


class CostStatus(StrEnum):
    """``partial``: some of the usage has no known price, so ``cost_usd`` is a lower bound, or None where a reply
    of a priced model came in a tier without a price and no other part of it is known."""

    PRICED = "priced"
    FREE = "free"
    PARTIAL = "partial"
    UNPRICED = "unpriced"


class TokenUsage(FrozenModel):
    """What one reply used. All counts are tokens; subsets are None where the provider does not tell."""

    input_tokens: Count = 0
    """Prompt tokens that were neither read from nor written to a cache."""
    output_tokens: Count = 0
    """Everything the model generated, reasoning included."""
    cached_input_tokens: Count = 0
    """Prompt tokens read from a cache."""
    cache_creation_input_tokens: Count = 0
    """Prompt tokens written to a cache."""

    reasoning_tokens: Count | None = None
    """Part of output_tokens."""
    cache_creation_1h_input_tokens: Count | None = None
    """Part of cache_creation_input_tokens: written with the one-hour lifetime."""
    audio_input_tokens: Count | None = None
    audio_output_tokens: Count | None = None
    image_input_tokens: Count | None = None
    image_output_tokens: Count | None = None
    """Parts of input_tokens and of output_tokens."""
    cached_audio_input_tokens: Count | None = None
    cached_image_input_tokens: Count | None = None
    """Parts of cached_input_tokens."""

    server_tools: dict[Text, Count] = Field(default_factory=dict)
    """Billed calls of the provider's own tools, by its name for them."""
    service_tier: Text | None = None
    """The tier that served the request, as the reply states it."""
    speed: Text | None = None
    reported_total: Count | None = None
    """The provider's own total, where it sends one."""
    reported_cost_usd: Decimal | None = None
    """The provider's own figure, where it sends one."""
    unread: tuple[Text, ...] = ()
    """Where the provider's object holds what is no count (a negative number, a text, nothing where one is due). What
    it stood for is in no bucket, so the cost is a lower bound."""
    raw: JsonObject | None = None
    """The provider's usage object, verbatim."""

    @property
    def prompt_tokens(self) -> int:
        """Everything billed as prompt: uncached, read from cache and written to cache."""
        return self.input_tokens + self.cached_input_tokens + self.cache_creation_input_tokens

    @property
    def total_tokens(self) -> int:
        """The four buckets together."""
        return self.prompt_tokens + self.output_tokens

    @property
    def discrepancy(self) -> int | None:
        """How far the provider's own total exceeds the four buckets (negative: falls short of them).

        0 is the law; None where the provider sends no total. What differs is reported, never repaired.
        """
        return None if self.reported_total is None else self.reported_total - self.total_tokens


class Usage(TokenUsage):
    """Token counts with their price. ``cost_usd`` is None, never 0, where it is unknown."""

    cost_usd: Decimal | None = Field(default=None, ge=0)
    cost_status: CostStatus = CostStatus.UNPRICED
    unpriced: tuple[Text, ...] = ()
    """The buckets without a known price, where the status is partial or unpriced."""
    pricing_version: Text | None = None
    """Which table, with which content, the cost was computed with."""
    pricing_mode: Literal["sync", "batch"] | None = None
    """How the reply was asked for, where that is known: a batch has prices of its own."""
    latency_ms: Count | None = None

    @property
    def cost_discrepancy(self) -> Decimal | None:
        """How far the provider's own figure exceeds ours, as a part of the larger one: 0.25 means a quarter.

        None where either is unknown. Below zero where ours is the larger one.
        """
        if self.reported_cost_usd is None or self.cost_usd is None:
            return None
        larger = max(self.reported_cost_usd, self.cost_usd)
        return (self.reported_cost_usd - self.cost_usd) / larger if larger else Decimal(0)

    def as_lower_bound(self) -> Self:
        """The usage of a reply that broke off: more may be billed than was counted by then, so nothing is priced."""
        if self.cost_status is not CostStatus.PRICED:
            return self
        return self.model_copy(
            update={"cost_status": CostStatus.PARTIAL, "unpriced": (*self.unpriced, "output_tokens")}
        )
