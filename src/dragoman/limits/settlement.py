"""What an attempt used, by how it ended: the same on every road."""

from typing import NamedTuple

from dragoman.adapter.errors import MalformedReplyError
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.effects.outcomes import Abandoned, Broken, Failed, Replied, SendOutcome


class Use(NamedTuple):
    """What a limit counts. ``tokens`` is None for a request without a reply."""

    tokens: TokenUsage | None
    requests: int


def is_billed(outcome: SendOutcome) -> bool:
    """Whether a reply that reported no usage costs its estimated input: the caller saw some of it, or it arrived whole
    and cannot be read. Otherwise it costs nothing."""
    return _was_seen(outcome) or (isinstance(outcome, Broken) and isinstance(outcome.error, MalformedReplyError))


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
