"""Token counts and their cost. Source: docs/reference/canonical.md#usage and docs/reference/canonical.md#cost-status.

The four buckets are disjoint: their sum is everything that was billed as tokens. The subsets (reasoning, 1-hour
cache writes, audio, images) are parts of a bucket and never add to the total.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import Count, JsonObject, Text
from dragoman.canonical.words import OpenEnum, OpenLiteral


class CostStatus(OpenEnum):
    """Whether the cost of a usage is known. ``partial``: some of the usage has no known price, so ``cost_usd`` is a
    lower bound. It is None if a priced model served the reply in a tier without a price and no other part has one.
    """

    PRICED = "priced"
    FREE = "free"
    PARTIAL = "partial"
    UNPRICED = "unpriced"


def combine_statuses(statuses: Iterable[CostStatus]) -> CostStatus:
    """Return the status of a sum: free if all are free, priced if all are known, unpriced if none is, else partial."""
    found = set(statuses)
    if found <= {CostStatus.FREE}:
        return CostStatus.FREE
    if found <= {CostStatus.FREE, CostStatus.PRICED}:
        return CostStatus.PRICED
    return CostStatus.UNPRICED if found == {CostStatus.UNPRICED} else CostStatus.PARTIAL


class TokenUsage(FrozenModel):
    """The usage of one reply. All counts are tokens; a subset is None if the provider does not report it."""

    input_tokens: Count = 0
    """Prompt tokens that were neither read from a cache nor written to one."""
    output_tokens: Count = 0
    """Everything that the model generated, reasoning included."""
    cached_input_tokens: Count = 0
    """Prompt tokens read from a cache."""
    cache_creation_input_tokens: Count = 0
    """Prompt tokens written to a cache."""

    reasoning_tokens: Count | None = None
    """Tokens of reasoning, a part of output_tokens."""
    cache_creation_1h_input_tokens: Count | None = None
    """Tokens that were written to a cache for one hour, a part of cache_creation_input_tokens."""
    audio_input_tokens: Count | None = None
    """Tokens of audio in the prompt, a part of input_tokens."""
    audio_output_tokens: Count | None = None
    """Tokens of generated audio, a part of output_tokens."""
    image_input_tokens: Count | None = None
    """Tokens of images in the prompt, a part of input_tokens."""
    image_output_tokens: Count | None = None
    """Tokens of generated images, a part of output_tokens."""
    cached_audio_input_tokens: Count | None = None
    """Tokens of audio that were read from a cache, a part of cached_input_tokens."""
    cached_image_input_tokens: Count | None = None
    """Tokens of images that were read from a cache, a part of cached_input_tokens."""

    server_tools: dict[Text, Count] = Field(default_factory=dict)
    """Billed calls of the provider's own tools, by its name for them."""
    service_tier: Text | None = None
    """The tier that served the request, as the reply states it."""
    speed: Text | None = None
    """The speed that served the request, as the reply states it."""
    terms: dict[Text, Text] | None = None
    """Parts of the request that change its price and that the reply does not repeat, by name: the ``host`` of an
    address with prices of its own, and the ``completion_window`` of a request in the background.
    """
    reported_total: Count | None = None
    """The provider's own total, if it sends one."""
    reported_cost_usd: Decimal | None = None
    """The provider's own cost, if it sends one."""
    unread: tuple[Text, ...] = ()
    """Paths in the provider's usage object with an invalid count (negative, a text, missing). They are in no bucket,
    so the cost is a lower bound.
    """
    raw: JsonObject | None = None
    """The provider's usage object, verbatim."""
    uncounted_replies: Count | None = None
    """The number of replies without reported tokens, in the usage of several replies: the counts are then lower bounds.
    None if all reported theirs. A single reply without counts has no usage at all."""

    @property
    def prompt_tokens(self) -> int:
        """All tokens billed as prompt: uncached, read from a cache and written to a cache."""
        return self.input_tokens + self.cached_input_tokens + self.cache_creation_input_tokens

    @property
    def total_tokens(self) -> int:
        """The sum of the four buckets."""
        return self.input_tokens + self.cached_input_tokens + self.cache_creation_input_tokens + self.output_tokens

    @property
    def discrepancy(self) -> int | None:
        """The provider's own total minus the four buckets, which should be 0. None if the provider sends no total.

        A difference is reported and never repaired.
        """
        return None if self.reported_total is None else self.reported_total - self.total_tokens


def describe_tokens(usage: TokenUsage | None) -> str:
    """Return the number of tokens as text. What the provider did not report is said, and never shown as 0."""
    total = 0 if usage is None else usage.total_tokens
    if not total and (usage is None or usage.uncounted_replies or usage.unread):
        return "the provider reported no tokens"
    is_bound = usage is not None and (usage.uncounted_replies or usage.unread)
    return f"{'at least ' if is_bound else ''}{total:,} tokens"


class Usage(TokenUsage):
    """Token counts with their cost. An unknown ``cost_usd`` is None, never 0."""

    cost_usd: Decimal | None = Field(default=None, ge=0)
    """US dollars; None if unknown, and never 0 instead."""
    cost_status: CostStatus = CostStatus.UNPRICED
    """Whether the whole cost is known."""
    unpriced: tuple[Text, ...] = ()
    """The buckets without a known price, if the status is partial or unpriced."""
    pricing_version: Text | None = None
    """The version of the price table that the cost was computed with."""
    pricing_mode: Annotated[Literal["sync", "batch"], OpenLiteral("pricing mode")] | None = None
    """How the reply was requested, if known: batches have their own prices."""
    latency_ms: Count | None = None
    """Milliseconds from the request to the end of the reply."""

    @property
    def cost_discrepancy(self) -> Decimal | None:
        """The provider's own cost minus ours, as a fraction of the larger one: 0.25 means a quarter.

        None if either is unknown, negative if ours is larger.
        """
        if self.reported_cost_usd is None or self.cost_usd is None:
            return None
        larger = max(self.reported_cost_usd, self.cost_usd)
        return (self.reported_cost_usd - self.cost_usd) / larger if larger else Decimal(0)

    def as_lower_bound(self) -> Self:
        """Return the usage of an interrupted reply. More may be billed than was counted, so a cost becomes a lower
        bound.
        """
        if self.cost_status is not CostStatus.PRICED:
            return self
        return self.model_copy(
            update={"cost_status": CostStatus.PARTIAL, "unpriced": (*self.unpriced, "output_tokens")}
        )


NO_COST = {name: value for name, value in Usage().__dict__.items() if name not in TokenUsage.model_fields}
"""The fields that a `Usage` has besides those of its tokens, as they are before it is priced."""
