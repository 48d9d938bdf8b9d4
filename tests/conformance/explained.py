"""Differences that stand, each explained by a rule that says why. Nothing here names a single recording."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.outcomes import Difference, Outcome, Respect
from tests.exchanges import Exchange


def _always(exchange: Exchange) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """Explains the differences of one respect whose ``what`` matches, in exchanges for which ``when`` holds."""

    respect: Respect
    providers: frozenset[str]
    what: re.Pattern[str]
    why: str
    when: Callable[[Exchange], bool] = _always


RULES: tuple[Rule, ...] = ()


def explanation(outcome: Outcome, difference: Difference) -> str | None:
    """Why a difference stands, or None where no rule says so."""
    for rule in RULES:
        if (
            rule.respect is outcome.respect
            and outcome.exchange.provider in rule.providers
            and rule.what.fullmatch(difference.what)
            and rule.when(outcome.exchange)
        ):
            return rule.why
    return None


def unexplained(outcome: Outcome) -> tuple[Difference, ...]:
    return tuple(difference for difference in outcome.differences if explanation(outcome, difference) is None)
