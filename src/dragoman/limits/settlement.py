"""Settles what an attempt used, according to how it ended. The rules are the same for all kinds of requests."""

from collections.abc import Callable
from typing import NamedTuple

from dragoman.adapter.errors import BudgetExceededError, MalformedReplyError
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.effects.outcomes import Abandoned, Broken, Failed, Replied, SendOutcome
from dragoman.limits.errors import LimitReachedError
from dragoman.limits.usage import BYTES_PER_TOKEN, text_bytes


class Use(NamedTuple):
    """What a limit counts. ``tokens`` is None for a request without a reply."""

    tokens: TokenUsage | None
    requests: int


def charged_use(
    outcome: SendOutcome, estimate_input: Callable[[], TokenUsage | None], arrived: int = 0
) -> TokenUsage | None:
    """Return what an attempt is charged: a `Usage` if its provider reported it, and otherwise an estimate. None if it
    costs nothing.

    A reply without a final report costs the larger of its report and what arrived: ``arrived`` bytes of output, or
    those of the partial message. Without a report it costs its estimated input too. Nothing is charged for what was not
    sent, and for a reply that its provider broke before the caller saw any of it.
    """
    reported = usage_of(outcome)
    if isinstance(outcome, Replied) and reported is not None:
        return reported
    if reported is None and not is_billed(outcome):
        return None
    output = max(arrived, _output_bytes(outcome)) // BYTES_PER_TOKEN
    if reported is not None and (
        reported.cost_status is CostStatus.PRICED  # the final report: that of a part is a lower bound
        or reported.output_tokens >= output
    ):
        return reported
    used = estimate_input() if reported is None else _counts(reported)
    return reported if used is None else used.model_copy(update={"output_tokens": output})


def is_ended_here(outcome: SendOutcome) -> bool:
    """Whether a budget or a limit ended a reply that its provider was still writing."""
    return isinstance(outcome, Broken) and isinstance(outcome.error, (BudgetExceededError, LimitReachedError))


def is_unreadable(outcome: SendOutcome) -> bool:
    """Whether a reply arrived whole and cannot be read."""
    return isinstance(outcome, Broken) and isinstance(outcome.error, MalformedReplyError)


def is_billed(outcome: SendOutcome) -> bool:
    """Whether a reply that reported no usage was probably billed all the same."""
    left = isinstance(outcome, Abandoned) and outcome.sent  # the provider may continue
    return left or _was_seen(outcome) or is_unreadable(outcome) or is_ended_here(outcome)


def _counts(usage: Usage) -> TokenUsage:
    return TokenUsage.model_validate({name: getattr(usage, name) for name in TokenUsage.model_fields})


def _output_bytes(outcome: SendOutcome) -> int:
    """Return the bytes of what the model wrote: text, thinking, and the arguments of calls."""
    message: Message | None = outcome.message if isinstance(outcome, Replied) else getattr(outcome, "partial", None)
    size = 0
    for block in () if message is None else message.content:
        for name in ("text", "thinking", "raw_input"):
            if isinstance(text := getattr(block, name, None), str):
                size += text_bytes(text)
                break
        else:
            if given := getattr(block, "input", None):
                size += text_bytes(str(given))
    return size


def count_use(outcome: SendOutcome, input_tokens: int) -> Use | None:
    """Return what the limits count; None if everything that was reserved counts, because a reply that the caller saw
    reported no usage. ``input_tokens`` are the estimated ones. What was never sent counts as nothing.
    """
    usage = usage_of(outcome)
    match outcome:
        case Failed():
            return Use(None, 0 if getattr(outcome.error, "sent", None) is False else 1)
        case _ if _was_seen(outcome):
            return None if usage is None else Use(usage, 1)
        case Abandoned(response=None):
            return Use(usage, int(outcome.sent))
        case _ if outcome.response is None:
            return Use(usage, 0)
        case _:
            return Use(usage or TokenUsage(input_tokens=input_tokens), 1)


def usage_of(outcome: SendOutcome) -> Usage | None:
    """Return what the provider reported of the reply, or of its part."""
    match outcome:
        case Replied():
            return outcome.message.usage
        case Broken():
            return None if outcome.partial is None else outcome.partial.usage
        case Abandoned():
            reply = outcome.partial or outcome.billed
            return None if reply is None else reply.usage
        case Failed():
            return None


def _was_seen(outcome: SendOutcome) -> bool:
    """Whether the caller received any of the reply."""
    match outcome:
        case Replied():
            return True
        case Broken():
            return outcome.seen
        case Abandoned():
            return outcome.partial is not None
        case Failed():
            return False
