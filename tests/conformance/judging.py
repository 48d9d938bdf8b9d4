"""All outcomes of one recorded provider."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from tests.conformance import failures, oracle, replies, roundtrips
from tests.conformance.oracle.expected import Failure
from tests.conformance.outcomes import Difference, Outcome, Respect
from tests.conformance.scope import out_of_scope
from tests.exchanges import Exchange, load


@dataclass(slots=True)
class Verdict:
    """``skipped`` counts the exchanges out of scope, by reason."""

    provider: str
    outcomes: list[Outcome] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


@cache
def judge(provider: str) -> Verdict:
    """Every exchange in every respect. The adapter must be installed."""
    verdict = Verdict(provider)
    for exchange in load(provider):
        if reason := out_of_scope(exchange):
            verdict.skipped[reason] += 1
        else:
            verdict.outcomes += _judge(exchange)
    return verdict


def _judge(exchange: Exchange) -> Iterator[Outcome]:
    if exchange.request is not None:
        yield roundtrips.judge(exchange)
    if exchange.status >= 400:
        yield failures.judge(exchange, None)
        return
    try:
        expected = oracle.read(exchange)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # A shape that the oracle was not written for: to be looked at, not to be passed over.
        yield Outcome(exchange, Respect.REPLY, (Difference("unreadable for the oracle", repr(error)),))
        return
    if isinstance(expected, Failure):
        yield failures.judge(exchange, expected)
    else:
        yield from replies.judge(exchange, expected)
