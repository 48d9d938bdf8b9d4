"""Attacks on what a plugin was shown; `python -m tests.laws.policy.attacks` tries all of them at every place."""

from collections import Counter

import pytest

from dragoman.policy import Extensions, TierViolation
from dragoman.policy.extensions import merge_extensions
from tests.laws.policy.attacks import ATTACKS, EVERYTHING, READERS, VALUES, Explosive, places, run_attacks
from tests.unit.canonical.extensions.samples import full


@pytest.mark.parametrize(("start", "capabilities"), [(0, EVERYTHING), (3, READERS)])
def test_no_attack_gets_through(start: int, capabilities: tuple[str, ...]) -> None:
    """In any way, with any value: it is refused or has no effect."""
    outcomes: Counter[tuple[str, str]] = Counter()
    sample = places()[start::12]
    assert run_attacks(sample, capabilities, outcomes) == []  # type: ignore[arg-type]
    assert sum(outcomes.values()) == len(sample) * len(ATTACKS) * len(VALUES) > 300
    for attack in set(ATTACKS) - {"setattr"}:
        assert outcomes[attack, "TierViolation"] > 0, attack


def test_a_successful_attack_would_be_reported() -> None:
    """The table counts a breach at a place that the plugin may write: headers."""
    outcomes: Counter[tuple[str, str]] = Counter()
    assert ("http", "headers") not in places()
    breaches = run_attacks([("http", "headers")], EVERYTHING, outcomes)
    assert {breach.attack for breach in breaches} >= {"object.__setattr__", "model_copy", "pickle"}


def test_an_unreadable_value_is_a_violation() -> None:
    """An error in a plugin's own class does not bypass the tiers."""
    returned = full()
    object.__setattr__(returned, "agent", Explosive())
    with pytest.raises(TierViolation, match="cannot be read: RuntimeError"):
        merge_extensions(full(), returned, EVERYTHING)
    with pytest.raises(TierViolation):
        merge_extensions(full(), Extensions.__new__(Extensions), EVERYTHING)
