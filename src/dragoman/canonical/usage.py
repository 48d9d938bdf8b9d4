"""Token counts and what they cost (specification D2 and D4).

The four buckets are disjoint: their sum is everything that was billed as tokens. The subsets (reasoning, 1-hour
cache writes, audio, images) are parts of a bucket and never add to the total.
"""

from decimal import Decimal
from enum import StrEnum

from pydantic import Field

from dragoman.canonical.blocks import Frozen
from dragoman.canonical.guard import Count, JsonObject, Text


class CostStatus(StrEnum):
    """``partial``: some of the usage has no known price, so ``cost_usd`` is a lower bound, or None where a reply
    of a priced model came in a tier without a price and no other part of it is known."""

    PRICED = "priced"
    FREE = "free"
    PARTIAL = "partial"
    UNPRICED = "unpriced"


class TokenUsage(Frozen):
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

    server_tools: dict[Text, Count] = Field(default_factory=dict)
    """Billed calls of the provider's own tools, by its name for them."""
    service_tier: Text | None = None
    """The tier that served the request, as the reply states it."""
    speed: Text | None = None
    reported_total: Count | None = None
    """The provider's own total, where it sends one."""
    reported_cost_usd: Decimal | None = None
    """The provider's own figure, where it sends one."""
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


class Usage(TokenUsage):
    """Token counts with their price. ``cost_usd`` is None, never 0, where it is unknown."""

    cost_usd: Decimal | None = Field(default=None, ge=0)
    cost_status: CostStatus = CostStatus.UNPRICED
    unpriced: tuple[Text, ...] = ()
    """The buckets without a known price, where the status is partial or unpriced."""
    pricing_version: Text | None = None
    latency_ms: Count | None = None
