"""Filtering: a plugin sees what its capabilities grant, and nothing else, by any way of looking."""

import itertools
import json
import pickle
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Role
from dragoman.policy import (
    AgentExtension,
    Capability,
    Extensions,
    MessageView,
    RequestExtension,
    TierViolation,
    filtered,
    held,
    merge,
)
from tests.unit.canonical.extension_samples import FULL, full
from tests.unit.policy.grants import ACCESSORS, GATED, READING, grant_for, texts

ALL_TEXTS = texts(FULL)
SUBSETS = [names for size in range(len(READING) + 1) for names in itertools.combinations(READING, size)]


def shown_to(names: tuple[str, ...]) -> Extensions:
    shown = filtered(full(), names)
    assert shown is not None
    return shown


def view_over(extensions: Extensions) -> MessageView:
    return MessageView(ToolUseBlock(id="tu_1", name="execute_sql"), Role.ASSISTANT, extensions=extensions)


def test_the_sample_has_a_text_behind_every_capability() -> None:
    """So that the tests below can tell."""
    assert {start for start in GATED if any(text.startswith(start) for text in ALL_TEXTS)} == set(GATED)
    assert len(SUBSETS) == 2 ** len(READING) == 2_048
    assert filtered(full(), Capability) == full()


@pytest.mark.parametrize("part", range(8))
def test_every_subset_by_every_way_of_looking(part: int) -> None:
    """Fields, JSON, pickles, prints and views hold the granted texts; nothing that is not granted is in any of them."""
    everything = full()
    for names in SUBSETS[part::8]:
        granted = held(names)
        shown = filtered(everything, names)
        assert shown is not None
        allowed = {text for text in ALL_TEXTS if grant_for(text) is None or grant_for(text) in granted}
        assert texts(shown.model_dump(mode="json")) == allowed, names
        view = view_over(shown)
        looks = repr(shown) + str(shown) + repr(view) + json.dumps(view.to_dict()) + json.dumps(view.to_opa_input())
        looks += pickle.dumps(shown).decode("latin-1") + pickle.dumps(view).decode("latin-1")
        assert [text for text in ALL_TEXTS - allowed if text in looks] == [], names


@pytest.mark.parametrize("names", SUBSETS[:: len(SUBSETS) // 256])
def test_the_accessors_of_a_view(names: tuple[str, ...]) -> None:
    """Each gives its value with its capability, and what it gives without extensions otherwise."""
    granted, full_view, bare = held(names), view_over(full()), view_over(Extensions())
    view = view_over(shown_to(names))
    for accessor, capability in ACCESSORS.items():
        expected = full_view if capability in granted else bare
        if accessor == "subject" and capability in granted:
            assert view.subject is not None
            assert (view.subject.id, view.subject.type) == ("security.subject.id", "service")
        else:
            assert getattr(view, accessor) == getattr(expected, accessor), (accessor, names)
    assert (view.environment, view.request_id) == ("request.environment", "request.request_id")


@pytest.mark.parametrize("name", Capability)
def test_each_capability_alone(name: Capability) -> None:
    """What it implies is granted, and its neighbours are not."""
    allowed = {text for text in ALL_TEXTS if grant_for(text) is None or grant_for(text) in held([name])}
    assert texts(shown_to((name,)).model_dump(mode="json")) == allowed


def test_without_capabilities() -> None:
    """Security is there if it was, but empty; what needs no capability is whole."""
    shown = shown_to(())
    assert shown.model_dump(mode="json", exclude_none=True) == {
        **{name: FULL[name] for name in FULL if name not in ("agent", "http", "security", "delegation")},
        "security": {"labels": [], "classification": "security.classification", "objects": {}, "data": {}},
    }
    assert filtered(Extensions(), Capability) == Extensions()
    assert filtered(None, Capability) is None


def test_a_slot_that_is_not_registered_is_hidden() -> None:
    """A host may add slots; nobody sees them until the table says who may."""

    class Wider(Extensions):
        vault: str | None = None

    wider = Wider.model_validate({**FULL, "vault": "s3cret"})
    read = Extensions.model_validate({**FULL, "vault": "s3cret"}, extra="allow")
    for extensions in (wider, read):
        shown = filtered(extensions, Capability)
        assert "s3cret" in repr(extensions)
        assert "s3cret" not in repr(shown) + str(pickle.dumps(shown))
        assert shown == full()


def test_an_unknown_capability_is_refused() -> None:
    """Even where there is nothing to filter."""
    with pytest.raises(ConfigurationError, match="is no capability"):
        filtered(None, ["read_everything"])


def test_nothing_is_shared_with_the_original() -> None:
    """Force that goes around the locks changes the copy alone."""
    original = full()
    shown = filtered(original, Capability)
    spoilt: list[Any] = [shown]
    while spoilt:
        node = spoilt.pop()
        if isinstance(node, dict):
            spoilt += node.values()
            dict.clear(node)
        elif isinstance(node, (list, tuple)):
            spoilt += node
            if isinstance(node, list):
                list.clear(node)
        elif hasattr(node, "__dict__") and hasattr(node, "model_fields_set"):
            spoilt += node.__dict__.values()
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
def test_an_error_tells_nothing_that_was_hidden(forged: Extensions) -> None:
    """Neither what is in a slot, nor whether anything is."""
    told = []
    for original in (full(), Extensions()):
        with pytest.raises(TierViolation) as raised:
            merge(original, forged, [], plugin="spy")
        told.append(str(raised.value))
        assert not any(
            text in told[-1] for text in ALL_TEXTS if text.startswith(tuple(GATED)) and text != raised.value.slot
        )
        assert "forged" not in told[-1]
    assert told[0] == told[1]
