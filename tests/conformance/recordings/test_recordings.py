"""The adapters over all recordings, with thresholds. The report prints every difference."""

from collections.abc import Sequence

import pytest

from tests.conformance.adapters import missing_adapter
from tests.conformance.outcomes import Aspect, Outcome
from tests.conformance.recordings.compare import ProviderOutcomes, compare_provider
from tests.conformance.recordings.known_differences import unexplained_differences
from tests.conformance.scope import ADAPTERS
from tests.exchanges import load_or_skip

pytestmark = pytest.mark.exchanges

THRESHOLDS = {
    Aspect.REPLY: 0.995,
    Aspect.REQUEST: 0.97,
    Aspect.ERROR: 1.0,
    Aspect.TOTAL: 1.0,
    Aspect.COST: 1.0,
    Aspect.RESEND: 0.97,
}
"""The least share of equal genuine recordings; explained differences still count as differences."""

_MANY_UNREADABLE = 0.94
"""For providers with many conversations that were not stored, and whose reasoning was not requested in a form that
could be sent back.
"""
LOWER = {("azure-openai", Aspect.RESEND): _MANY_UNREADABLE, ("openai-compatible", Aspect.RESEND): _MANY_UNREADABLE}


@pytest.fixture(params=list(ADAPTERS))
def verdict(request: pytest.FixtureRequest) -> ProviderOutcomes:
    """All outcomes of one provider whose adapter is installed."""
    provider: str = request.param
    load_or_skip(provider)
    if missing := missing_adapter(provider):
        pytest.skip(missing)
    return compare_provider(provider)


def test_enough_recordings_are_equal(verdict: ProviderOutcomes) -> None:
    """What the adapter reads and writes is what was recorded, in every aspect that the recordings contain."""
    genuine = [outcome for outcome in verdict.outcomes if outcome.exchange.is_genuine]
    shown = [aspect for aspect in Aspect if any(outcome.aspect is aspect for outcome in genuine)]
    assert Aspect.REPLY in shown
    for aspect in shown:
        outcomes = [outcome for outcome in genuine if outcome.aspect is aspect]
        different = [outcome for outcome in outcomes if not outcome.equal]
        equal = 1 - len(different) / len(outcomes)
        assert equal >= LOWER.get((verdict.provider, aspect), THRESHOLDS[aspect]), _lines(different)


def test_every_difference_is_explained(verdict: ProviderOutcomes) -> None:
    """Each difference of a genuine recording has a rule."""
    left = [outcome for outcome in verdict.outcomes if outcome.exchange.is_genuine and unexplained_differences(outcome)]
    assert not left, _lines(left)


def test_handmade_recordings_give_a_message_or_a_typed_error(verdict: ProviderOutcomes) -> None:
    """Doubtful recordings prove nothing about a provider, but they must not break the adapter."""
    broken = [
        outcome
        for outcome in verdict.outcomes
        if not outcome.exchange.is_genuine
        and any(difference.what.startswith("raised") for difference in unexplained_differences(outcome))
    ]
    assert not broken, _lines(broken)


def _lines(outcomes: Sequence[Outcome]) -> str:
    shown = [
        f"{outcome.exchange.id} {outcome.aspect}: {'; '.join(map(str, outcome.differences))}"
        for outcome in outcomes[:20]
    ]
    return "\n".join([f"{len(outcomes)} differ", *shown])
