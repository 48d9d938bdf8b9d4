"""Laws of tool ids: every provider sees legal ids that never change and never collide."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.facts.capabilities import ToolIdRule
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.testing.strategies import TOOL_IDS
from tests.laws.projection import targets
from tests.laws.projection.tool_ids import all_rules, broken_law, digest, digests_of_other_processes, id_sets

RULES = all_rules()
providers = st.sampled_from(sorted(RULES))
natives = st.sampled_from(TOOL_IDS) | st.text(max_size=12)
calls = st.lists(st.tuples(providers, natives), max_size=12)
"""The issuer of a call and its id: empty and repeated ones included."""


def receive_all(issued: list[tuple[str, str]]) -> tuple[ToolIdMap, list[str]]:
    ids = ToolIdMap()
    return ids, [ids.receive(provider, native) for provider, native in issued]


@pytest.mark.parametrize("target", sorted(RULES))
def test_sets_of_ids_break_no_law(target: str) -> None:
    """Over-long, empty, repeated, Unicode and look-alike ids.

    `python -m tests.laws.projection.tool_ids` tries ten thousand sets.
    """
    assert {broken_law(issued, later, target, RULES[target]) for issued, later in id_sets(100, 0)} == {None}


@pytest.mark.exhaustive
def test_sets_of_ids_are_the_same_in_other_processes() -> None:
    """Ids do not depend on the process or its hash seed, for any declared rule."""
    here = digest(list(id_sets(20, 0)), RULES)
    assert list(digests_of_other_processes(20, 0)) == [here] * 2


@given(issued=calls, target=providers)
def test_ids_are_injective_both_ways(issued: list[tuple[str, str]], target: str) -> None:
    """Two calls never share an id, neither ours nor that of a target."""
    ids, canonical = receive_all(issued)
    sent = [ids.id_for(one, target, RULES[target]) for one in canonical]
    assert len(set(canonical)) == len(set(sent)) == len(issued)


@given(issued=calls, target=providers)
def test_foreign_ids_are_legal_and_the_issuer_gets_its_own(issued: list[tuple[str, str]], target: str) -> None:
    """The first call with an id is sent back with it, in any form; all others get an id by the rule."""
    ids, canonical = receive_all(issued)
    rule = RULES[target]
    returned: set[str] = set()
    for one, (issuer, native) in zip(canonical, issued, strict=True):
        wire = ids.id_for(one, target, rule)
        if issuer == target and native and native not in returned:
            assert wire == native
            returned.add(native)
        else:
            assert rule.accepts(wire)
            assert wire.startswith(rule.prefix)


@given(issued=calls, later=calls, target=providers, data=st.data())
def test_an_id_never_changes_once_sent(
    issued: list[tuple[str, str]], later: list[tuple[str, str]], target: str, data: st.DataObject
) -> None:
    """Not by further turns, not by a restart, not by the order in which later ids are requested.

    It belongs to its call for good: calls after the restart get others.
    """
    ids, canonical = receive_all(issued)
    sent = {one: ids.id_for(one, target, RULES[target]) for one in canonical}
    restored = ToolIdMap.load(json.loads(json.dumps(ids.dump())))
    new = [restored.receive(provider, native) for provider, native in later]
    for one in data.draw(st.permutations(canonical)):
        assert restored.id_for(one, target, RULES[target]) == sent[one]
    fresh = {restored.id_for(one, target, RULES[target]) for one in new}
    assert len(fresh) == len(new)
    assert fresh.isdisjoint(sent.values())


@given(issued=calls, target=providers)
def test_a_generated_id_needs_no_memory(issued: list[tuple[str, str]], target: str) -> None:
    """An id that is generated follows from the canonical id only: losing the map is harmless."""
    ids, canonical = receive_all([call for call in issued if call[0] != target])
    for one in canonical:
        assert ids.id_for(one, target, RULES[target]) == ToolIdMap().id_for(one, target, RULES[target])


@given(native=natives.filter(bool), repeats=st.integers(2, 5))
def test_a_repeated_id_means_another_call(native: str, repeats: int) -> None:
    """A provider that reuses its ids, as some count from zero in every reply, gets two separate calls."""
    ids, canonical = receive_all([("mistral", native)] * repeats)
    assert len(set(canonical)) == repeats
    assert ids.find("mistral", native) == canonical[-1]
    assert [ids.native_id(one, "mistral") for one in canonical] == [native] * repeats


def test_a_native_id_is_reserved_for_its_call() -> None:
    """An id that a provider issued is not generated for another call, even if that one is sent first."""
    made = ToolIdMap().id_for("tu_foreign", "openai", RULES["openai"])
    ids = ToolIdMap()
    own = ids.receive("openai", made)
    assert ids.id_for("tu_foreign", "openai", RULES["openai"]) != made
    assert ids.id_for(own, "openai", RULES["openai"]) == made


def test_an_empty_id_is_no_id() -> None:
    """A call without an id is sent with a generated one, and is not found by the empty text."""
    ids, (first, second) = receive_all([("ollama", ""), ("ollama", "")])
    assert first != second
    assert ids.find("ollama", "") is None
    assert ids.native_id(first, "ollama") is None
    assert all(RULES["openai"].accepts(ids.id_for(one, "ollama", RULES["openai"])) for one in (first, second))


def test_an_empty_map_is_still_a_map() -> None:
    """``given or ToolIdMap()`` keeps the caller's map, although nothing is in it yet."""
    ids = ToolIdMap()
    assert (ids or ToolIdMap()) is ids
    assert len(ids) == 0


def test_a_rule_without_a_free_id_is_named() -> None:
    """A rule with a single possible id serves one call; the error of the second says why it cannot be sent."""
    rule = ToolIdRule(alphabet="a", min_length=6, max_length=6)
    ids = ToolIdMap()
    assert ids.id_for("tu_1", "tiny", rule) == "aaaaaa"
    with pytest.raises(ConfigurationError, match="tiny leaves no free id: 1 are in use"):
        ids.id_for("tu_2", "tiny", rule)


@pytest.mark.parametrize(
    "impossible",
    [
        {"max_length": 5},
        {"prefix": "call_", "max_length": 10},
        {"prefix": "call:"},
        {"min_length": 65},
    ],
)
def test_an_impossible_rule_is_refused(impossible: dict[str, object]) -> None:
    """A prefix outside the alphabet or contradictory limits are reported when the rule is read."""
    with pytest.raises(ValueError, match=r"outside the alphabet|too little room"):
        ToolIdRule.model_validate(impossible)


PROGRAM = """
import json, sys
from dragoman.adapter.tool_ids import ToolIdMap
from tests.laws.projection.targets import RULES
canonical = json.loads(sys.argv[1])
ids = {name: [ToolIdMap().id_for(one, name, RULES[name]) for one in canonical] for name in sorted(RULES)}
print(json.dumps(ids))
"""


@pytest.mark.exhaustive
def test_another_process_makes_the_same_ids() -> None:
    """Ids do not depend on the process or its hash seed."""
    rules = targets.RULES
    canonical = ["tu_01M7YJFK7P2ZFT4X2CGGZPP6M5", "call_1~2", "ünïcode"]
    here = {name: [ToolIdMap().id_for(one, name, rules[name]) for one in canonical] for name in sorted(rules)}
    for seed in ("0", "1"):
        there = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(canonical)],  # ASCII, which any locale can pass on
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
        )
        assert json.loads(there.stdout) == here
