"""The table of slots: complete, and with the implications of the specification."""

import itertools

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.policy import Capability, Extensions, SecurityExtension, SubjectExtension, Tier
from dragoman.policy.slots import SLOTS, expand_capabilities

IMPLIES = {
    "write_headers": {"read_headers"}, "append_labels": {"read_labels"}, "declassify_labels": {"read_labels"},
    "append_delegation": {"read_delegation"}, "read_roles": {"read_subject"}, "read_teams": {"read_subject"},
    "read_claims": {"read_subject"}, "read_permissions": {"read_subject"},
}  # fmt: skip

TABLE = {
    "request": ("immutable", None, None), "provenance": ("immutable", None, None),
    "completion": ("immutable", None, None), "llm": ("immutable", None, None), "framework": ("immutable", None, None),
    "mcp": ("immutable", None, None), "meta": ("immutable", None, None), "agent": ("immutable", "read_agent", None),
    "http": ("guarded", "read_headers", "write_headers"),
    "security.labels": ("monotonic", "read_labels", "append_labels"),
    "security.classification": ("immutable", None, None), "security.subject": ("immutable", "read_subject", None),
    "security.subject.id": ("immutable", "read_subject", None),
    "security.subject.type": ("immutable", "read_subject", None),
    "security.subject.roles": ("immutable", "read_roles", None),
    "security.subject.permissions": ("immutable", "read_permissions", None),
    "security.subject.teams": ("immutable", "read_teams", None),
    "security.subject.claims": ("immutable", "read_claims", None),
    "security.objects": ("immutable", "read_objects", None), "security.data": ("immutable", "read_data", None),
    "delegation": ("monotonic", "read_delegation", "append_delegation"), "custom": ("mutable", None, None),
}  # fmt: skip


def test_the_table_of_slots() -> None:
    assert {path: tuple(slot) for path, slot in SLOTS.items()} == TABLE
    assert [str(tier) for tier in Tier] == ["immutable", "monotonic", "guarded", "mutable"]


def test_every_field_is_in_the_table() -> None:
    """A missing field would be hidden from everyone."""
    paths = {path for path in Extensions.model_fields if path != "security"}
    paths |= {f"security.{name}" for name in SecurityExtension.model_fields}
    paths |= {f"security.subject.{name}" for name in SubjectExtension.model_fields}
    assert set(SLOTS) == paths


def test_the_list_of_capabilities() -> None:
    assert {str(capability) for capability in Capability} == {
        "read_subject", "read_roles", "read_teams", "read_claims", "read_permissions", "read_agent", "read_headers",
        "write_headers", "read_labels", "append_labels", "read_delegation", "append_delegation", "read_objects",
        "read_data", "declassify_labels",
    }  # fmt: skip


@pytest.mark.parametrize("name", Capability)
def test_implied_capabilities(name: Capability) -> None:
    """Writing implies reading, and a part of a subject implies the subject; nothing else implies anything."""
    assert expand_capabilities([name]) == {name, *IMPLIES.get(name, set())}
    assert expand_capabilities([str(name)]) == expand_capabilities([name])


def test_implication_is_closed_and_idempotent() -> None:
    """For all 32,768 sets: each contains what its members imply, and closing it twice adds nothing."""
    alone = {name: expand_capabilities([name]) for name in Capability}
    for size in range(len(Capability) + 1):
        for names in itertools.combinations(Capability, size):
            granted = expand_capabilities(names)
            assert granted == frozenset[Capability]().union(*(alone[name] for name in names))
            assert expand_capabilities(granted) == granted


@pytest.mark.parametrize(
    ("wrong", "hint"), [("read_role", "read_roles?"), ("READ_LABELS", "read_labels|they are"), ("", "they are read_s")]
)
def test_an_unknown_name_is_refused(wrong: str, hint: str) -> None:
    """An unknown name is refused with the nearest one, or with all of them."""
    with pytest.raises(ConfigurationError, match=f"is not a capability: .*({hint})"):
        expand_capabilities(["read_labels", wrong])
