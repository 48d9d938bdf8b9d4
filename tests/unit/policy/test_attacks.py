"""Attacks on what a plugin was shown; `python -m tests.laws.policy.attacks` tries all of them at every place."""

from collections import Counter

import pytest

from dragoman.policy import Extensions, TierViolation
from dragoman.policy.extensions import merge_extensions
from tests.laws.policy.attack_table import TABLE, Attack, run_message, run_plugin
from tests.laws.policy.attacks import ATTACKS, EVERYTHING, READERS, VALUES, Explosive, places, run_attacks
from tests.tables import each_row
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


@each_row("attack", TABLE["messages"], ids=lambda attack: attack["name"])
def test_no_message_gets_around_a_ready_policy(attack: Attack) -> None:
    """An address, a word, a call or data in disguise, at any place of a message, ends as the table says."""
    assert run_message(attack) == attack["verdict"]


@each_row("attack", TABLE["plugins"], ids=lambda attack: attack["name"])
def test_no_plugin_returns_more_than_it_may(attack: Attack) -> None:
    """No plugin returns more than it may, whatever it returns, against its mode and its capabilities."""
    assert run_plugin(attack) == attack["verdict"]


def test_the_table_is_large_and_its_names_are_distinct() -> None:
    names = [attack["name"] for attacks in (TABLE["messages"], TABLE["plugins"]) for attack in attacks]
    assert len(names) == len(set(names)) >= 150
