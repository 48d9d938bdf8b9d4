"""All outcomes of one recorded provider."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from tests.conformance.outcomes import Aspect, Difference, Outcome
from tests.conformance.recordings import errors, oracle, replies, requests
from tests.conformance.recordings.oracle.expected import Failure
from tests.conformance.scope import skip_reason
from tests.exchanges import RecordedExchange, load


@dataclass(slots=True)
class ProviderOutcomes:
    """``skipped`` counts the exchanges out of scope, by reason."""

    provider: str
    outcomes: list[Outcome] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


@cache
def compare_provider(provider: str) -> ProviderOutcomes:
    """Judges every exchange in every aspect. The adapter must be installed."""
    verdict = ProviderOutcomes(provider)
    for exchange in load(provider):
        if reason := skip_reason(exchange):
            verdict.skipped[reason] += 1
        else:
            verdict.outcomes += _judge(exchange)
    return verdict


def _judge(exchange: RecordedExchange) -> Iterator[Outcome]:
    if exchange.request is not None:
        yield requests.judge(exchange)
    if exchange.status >= 400:
        yield errors.judge(exchange, None)
        return
    try:
        expected = oracle.read(exchange)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # A shape that the oracle does not know: to be examined, not to be skipped.
        yield Outcome(exchange, Aspect.REPLY, (Difference("unreadable for the oracle", repr(error)),))
        return
    if isinstance(expected, Failure):
        yield errors.judge(exchange, expected)
    else:
        yield from replies.judge(exchange, expected)
