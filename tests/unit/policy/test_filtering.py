"""Filtering: a plugin sees what its capabilities grant, and nothing else, however it looks."""

import pickle
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.policy import Capability, Extensions, Tier, TierViolation
from dragoman.policy.extensions import AgentExtension, RequestExtension, filter_extensions, merge_extensions
from dragoman.policy.slots import SLOTS, Slot, expand_capabilities
from tests.laws.policy.capabilities import breaches, subsets
from tests.unit.canonical.extensions.samples import FULL, full
from tests.unit.policy.grants import GATED, grant_for, texts

ALL_TEXTS = texts(FULL)
SUBSETS = list(subsets())


def shown_to(names: tuple[str, ...]) -> Extensions:
    shown = filter_extensions(full(), names)
    assert shown is not None
    return shown


def test_the_sample_has_a_text_for_each_capability() -> None:
    """So the tests below can notice a leak."""
    assert {start for start in GATED if any(text.startswith(start) for text in ALL_TEXTS)} == set(GATED)
    assert len(SUBSETS) == 2 ** len(Capability) == 32_768
    assert filter_extensions(full(), Capability) == full()


@pytest.mark.parametrize("part", range(4))
def test_capability_sets_are_enforced_in_every_view(part: int) -> None:
    """In fields, accessors, prints, dicts, pickles, copies, views and errors.

    `python -m tests.laws.policy.capabilities` tries all sets.
    """
    sample = SUBSETS[part * 97 :: 997]
    assert [(names, found) for names in sample if (found := breaches(names))] == []


def test_a_leak_would_be_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a slot were open to all, or closed to those who may see it."""
    monkeypatch.setitem(SLOTS, "agent", Slot(Tier.IMMUTABLE))
    ways = {way for way, _ in breaches([])}
    assert ways >= {"fields", "accessors", "repr and str", "__dict__", "dict and JSON", "pickle", "copies"}
    assert ways >= {"view to_dict", "view to_opa_input", "view, every attribute"}
    monkeypatch.setitem(SLOTS, "agent", Slot(Tier.IMMUTABLE, read=Capability.READ_DATA))
    assert ("fields", "agent.input") in breaches([Capability.READ_AGENT])


@pytest.mark.parametrize("name", Capability)
def test_each_capability_alone_grants_what_it_implies(name: Capability) -> None:
    allowed = {text for text in ALL_TEXTS if grant_for(text) is None or grant_for(text) in expand_capabilities([name])}
    assert texts(shown_to((name,)).model_dump(mode="json")) == allowed


def test_extensions_without_capabilities() -> None:
    """Security stays an empty object if it was set; slots that need no capability are complete."""
    shown = shown_to(())
    assert shown.model_dump(mode="json", exclude_none=True) == {
        **{name: FULL[name] for name in FULL if name not in ("agent", "http", "security", "delegation")},
        "security": {"labels": [], "classification": "security.classification", "objects": {}, "data": {}},
    }
    assert filter_extensions(Extensions(), Capability) == Extensions()
    assert filter_extensions(None, Capability) is None


def test_an_unregistered_slot_is_hidden() -> None:
    """A host may add slots; they are hidden until the table says who may see them."""

    class Wider(Extensions):
        vault: str | None = None

    wider = Wider.model_validate({**FULL, "vault": "s3cret"})
    read = Extensions.model_validate({**FULL, "vault": "s3cret"}, extra="allow")
    for extensions in (wider, read):
        shown = filter_extensions(extensions, Capability)
        assert "s3cret" in repr(extensions)
        assert "s3cret" not in repr(shown) + str(pickle.dumps(shown))
        assert shown == full()


def test_an_unknown_capability_is_refused() -> None:
    """It is refused even if there is nothing to filter."""
    with pytest.raises(ConfigurationError, match="is not a capability"):
        filter_extensions(None, ["read_everything"])


def test_nothing_is_shared_with_the_original() -> None:
    """Forced changes affect the copy only."""
    original = full()
    shown = filter_extensions(original, Capability)
    pending: list[Any] = [shown]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            pending += node.values()
            dict.clear(node)
        elif isinstance(node, (list, tuple)):
            pending += node
            if isinstance(node, list):
                list.clear(node)
        elif hasattr(node, "__dict__") and hasattr(node, "model_fields_set"):
            pending += node.__dict__.values()
            node.__dict__.clear()
    assert original == full()


FORGED = [
    Extensions(agent=AgentExtension(session_id="forged")),
    Extensions(request=RequestExtension(request_id="forged")),
    Extensions.model_validate({"http": {"headers": {"A": "forged"}}}),
    Extensions.model_validate({"security": {"subject": {"id": "forged", "type": "user"}}}),
    Extensions.model_validate({"security": {"objects": {"execute_sql": {"managed_by": "tool"}}}}),
    Extensions.model_validate({"security": {"data": {"execute_sql": {}}}}),
    Extensions.model_validate({"delegation": {"depth": 7}}),
]


@pytest.mark.parametrize("forged", FORGED)
def test_errors_reveal_nothing_hidden(forged: Extensions) -> None:
    """Neither what is in a slot, nor whether anything is."""
    reasons = []
    for original in (full(), Extensions()):
        with pytest.raises(TierViolation) as raised:
            merge_extensions(original, forged, [], plugin="spy")
        reasons.append(str(raised.value))
        assert not any(
            text in reasons[-1] for text in ALL_TEXTS if text.startswith(tuple(GATED)) and text != raised.value.slot
        )
        assert "forged" not in reasons[-1]
    assert reasons[0] == reasons[1]
