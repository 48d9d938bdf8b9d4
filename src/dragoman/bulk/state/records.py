"""The records of a manifest: one row and one model. Times are microseconds since 1970, UTC; money is US dollars."""

import string
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Literal

from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, Usage

LossReason = Literal["killed", "network", "failed"]
"""Why money was, or may have been, spent without an answer: the process ended, the connection failed, or the provider
billed a reply that was an error and was requested again.
"""


class State(StrEnum):
    IN_FLIGHT = "in_flight"
    BATCHED = "batched"
    """It is part of a batch that was submitted to the provider."""
    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class KnownRow:
    """What the manifest holds about a row."""

    state: State
    digest: str
    sent_at: int
    cost_usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A request that is about to be sent. ``estimate_usd`` is its estimated cost; None is unknown."""

    model_no: int
    row_no: int
    digest: str
    estimate_usd: Decimal | None
    sent_at: int


@dataclass(frozen=True, slots=True)
class LostRequest:
    """A request that was, or may have been, billed without an answer. ``estimate_usd`` is the claim's, or the cost if
    that is known.
    """

    model_no: int
    row_no: int
    sent_at: int
    why: LossReason
    estimate_usd: Decimal | None

    @classmethod
    def from_claim(cls, claim: Claim, why: LossReason) -> "LostRequest":
        return cls(claim.model_no, claim.row_no, claim.sent_at, why, claim.estimate_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a row. ``ms`` is the time of the request that decided it; ``tries`` is the number of requests."""

    model_no: int
    row_no: int
    state: State
    answer: str | None = None
    alike: str | None = None
    """The `answer_key`."""
    error: str | None = None
    error_class: str | None = None
    retryable: bool = False
    cost_usd: Decimal | None = None
    cost_status: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    ms: int | None = None
    tries: int = 1


_STRIPPED = string.whitespace + string.punctuation
_BUCKETS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens")


def answer_key(answer: str) -> str:
    """Return a short key. Answers that differ only in case, spaces or surrounding punctuation share it."""
    normalized = " ".join(answer.casefold().split()).strip(_STRIPPED)
    return blake2b(normalized.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def answered_outcome(claim: Claim, reply: Message, ms: int | None, tries: int) -> Outcome:
    return Outcome(
        model_no=claim.model_no,
        row_no=claim.row_no,
        state=State.ANSWERED,
        answer=reply.text,
        alike=answer_key(reply.text),
        ms=ms,
        tries=tries,
        **_usage_columns(reply.usage),
    )


def failed_outcome(
    claim: Claim,
    error: DragomanError,
    ms: int | None,
    tries: int,
    *,
    text: str | None = None,
    usage: Usage | None = None,
) -> Outcome:
    """``text`` stands in place of the error's own. ``usage`` is that of a whole reply that the row does not get."""
    partial = error.partial if isinstance(error, ProviderError) else None
    if usage is None and isinstance(partial, Message) and partial.usage is not None:
        usage = partial.usage.as_lower_bound()
    return Outcome(
        model_no=claim.model_no,
        row_no=claim.row_no,
        state=State.FAILED,
        error=text or str(error) or type(error).__name__,
        error_class=error.error_class if isinstance(error, ProviderError) else type(error).__name__,
        retryable=isinstance(error, ProviderError) and error.retryable,
        ms=ms,
        tries=tries,
        **_usage_columns(usage),
    )


def _usage_columns(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {"cost_status": CostStatus.UNPRICED.value}
    counts = {name: getattr(usage, name) for name in _BUCKETS}
    return {"cost_usd": usage.cost_usd, "cost_status": usage.cost_status.value, **counts}
