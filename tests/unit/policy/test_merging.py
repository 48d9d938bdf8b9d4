"""Merging: no change of what a plugin was shown bypasses the tiers."""

import copy
import pickle
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from dragoman.policy import (
    Capability,
    Extensions,
    HttpExtension,
    PolicyError,
    SecurityExtension,
    SubjectType,
    TierViolation,
)
from dragoman.policy.extensions import (
    DelegationExtension,
    DelegationHop,
    RequestExtension,
    filter_extensions,
    merge_extensions,
)
from tests.unit.canonical.extensions.samples import FULL, full

EVERYTHING = list(Capability)


def visible_extensions(capabilities: Iterable[str] = EVERYTHING, original: Extensions | None = None) -> Extensions:
    made = filter_extensions(original or full(), capabilities)
    assert made is not None
    return made


def assert_refused(returned: Extensions, capabilities: Iterable[str], slot: str, tier: str, **more: Any) -> None:
    """The merge raises, names plugin, slot and tier, and leaves the original as it is."""
    original = full()
    with pytest.raises(TierViolation) as raised:
        merge_extensions(original, returned, capabilities, plugin="spy", **more)
    violation = raised.value
    assert (violation.plugin, violation.slot, violation.tier) == ("spy", slot, tier)
    assert str(violation).startswith(f"plugin 'spy': slot {slot} is {tier}: {violation.detail}")
    assert original == full()


def merge_accepted(returned: Extensions | None, capabilities: Iterable[str], **more: Any) -> Extensions:
    original = full()
    merged = merge_extensions(original, returned, capabilities, **more)
    assert original == full()
    assert merged is not None
    return merged


@pytest.mark.parametrize("capabilities", [[], ["read_agent", "read_roles"], EVERYTHING])
def test_without_a_change_the_same_object_is_returned(capabilities: list[str]) -> None:
    """Whatever was hidden from the plugin, and also if it returns nothing."""
    original = full()
    for returned in (None, visible_extensions(capabilities), Extensions(custom=original.custom)):
        assert merge_extensions(original, returned, capabilities) is original
    assert merge_extensions(None, None, capabilities) is None
    assert merge_extensions(None, Extensions(), capabilities) is None


@pytest.mark.parametrize("slot", [name for name in FULL if name != "custom"])
def test_slots_missing_in_a_result_stay(slot: str) -> None:
    """A slot set to None is not a deletion: security = None loses no label."""
    returned = visible_extensions().model_copy(update={slot: None})
    original = full()
    assert merge_extensions(original, returned, EVERYTHING) is original


def test_missing_parts_of_security_stay() -> None:
    """A security of labels only keeps subject, objects and data."""
    returned = Extensions(security=SecurityExtension(labels=frozenset({"new"})), custom=full().custom)
    merged = merge_accepted(returned, [])
    assert merged.security is not None
    assert merged.security.labels == {"new", "security.labels.one", "security.labels.two"}
    assert merged.model_copy(update={"security": None}) == full().model_copy(update={"security": None})
    assert merged.security.model_copy(update={"labels": frozenset()}) == (
        full().security or SecurityExtension()
    ).model_copy(update={"labels": frozenset()})


IMMUTABLE = {
    "request": {"request_id": "forged"}, "agent": {"session_id": "forged"}, "mcp": {"tool": {"name": "forged"}},
    "completion": {"model": "forged"}, "provenance": {"source": "forged"}, "llm": {"model_id": "forged"},
    "framework": {"node_id": "forged"}, "meta": {"scope": "forged"},
}  # fmt: skip


@pytest.mark.parametrize("slot", IMMUTABLE)
def test_an_immutable_slot_cannot_be_changed_or_added(slot: str) -> None:
    returned = Extensions.model_validate({**FULL, slot: IMMUTABLE[slot]})
    assert_refused(returned, EVERYTHING, slot, "immutable")
    with pytest.raises(TierViolation, match=f"slot {slot} is immutable"):
        merge_extensions(None, Extensions.model_validate({slot: IMMUTABLE[slot]}), EVERYTHING)


@pytest.mark.parametrize(
    ("path", "value", "slot"),
    [
        ("classification", "public", "security.classification"),
        ("subject", {"id": "root", "type": "service"}, "security.subject.id"),
        ("objects", {"execute_sql": {}}, "security.objects"), ("objects", {"other": {}}, "security.objects"),
        ("data", {"execute_sql": {}}, "security.data"),
    ],
)  # fmt: skip
def test_security_except_labels_is_immutable(path: str, value: Any, slot: str) -> None:
    security = {**FULL["security"], path: value}
    assert_refused(Extensions.model_validate({**FULL, "security": security}), EVERYTHING, slot, "immutable")


@pytest.mark.parametrize("field", ["id", "type", "roles", "permissions", "teams", "claims"])
def test_no_part_of_the_subject_changes(field: str) -> None:
    """The violation names the part."""
    forged = {"id": "root", "type": "user", "claims": {"sub": "root"}}.get(field, ["admin"])
    security = {**FULL["security"], "subject": {**FULL["security"]["subject"], field: forged}}
    returned = Extensions.model_validate({**FULL, "security": security})
    assert_refused(returned, EVERYTHING, f"security.subject.{field}", "immutable")


def test_a_hidden_subject_cannot_be_replaced() -> None:
    alone = Extensions.model_validate(
        {"security": {"subject": {"id": "root", "type": "user"}}, "custom": FULL["custom"]}
    )
    assert_refused(alone, [], "security.subject", "immutable")
    subject = {"id": "security.subject.id", "type": "service", "roles": ["admin"]}
    partly = Extensions.model_validate({"security": {"subject": subject}, "custom": FULL["custom"]})
    assert_refused(partly, ["read_subject"], "security.subject.roles", "immutable")


HEADERS = HttpExtension(headers={"X-New": "1"})


def test_writing_headers_needs_the_capability() -> None:
    """With it they are replaced or emptied; without it they are not, nor in a mode that may only look."""
    for headers in (HEADERS, HttpExtension()):
        returned = visible_extensions().model_copy(update={"http": headers})
        assert merge_accepted(returned, EVERYTHING) == full().model_copy(update={"http": headers})
        assert_refused(
            visible_extensions(["read_headers"]).model_copy(update={"http": headers}),
            ["read_headers"],
            "http",
            "guarded",
        )
        assert_refused(visible_extensions([]).model_copy(update={"http": headers}), [], "http", "guarded")
        assert_refused(returned, EVERYTHING, "http", "guarded", may_write=False)
    assert merge_extensions(None, Extensions(http=HEADERS), ["write_headers"]) == Extensions(http=HEADERS)


def with_labels(*labels: str) -> Extensions:
    return Extensions(security=SecurityExtension(labels=frozenset(labels)), custom=full().custom)


def labels_of(extensions: Extensions) -> set[str]:
    return set(extensions.security.labels) if extensions.security else set()


KNOWN = ("security.labels.one", "security.labels.two")


def test_any_writing_plugin_may_add_labels() -> None:
    """Any writing plugin may add labels without any capability, and without seeing the existing ones."""
    assert labels_of(merge_accepted(with_labels("new"), [])) == {*KNOWN, "new"}
    assert labels_of(merge_accepted(with_labels(*KNOWN, "new"), ["read_labels"])) == {*KNOWN, "new"}
    assert merge_extensions(None, Extensions(security=SecurityExtension(labels=frozenset({"new"}))), []) == Extensions(
        security=SecurityExtension(labels=frozenset({"new"}))
    )


def test_a_read_only_plugin_needs_append_labels() -> None:
    """Everything else stays closed to it."""
    assert labels_of(merge_accepted(with_labels(*KNOWN, "new"), ["append_labels"], may_write=False)) == {*KNOWN, "new"}
    assert_refused(with_labels("new"), [], "security.labels", "monotonic", may_write=False)


@pytest.mark.parametrize("capabilities", [["read_labels"], ["append_labels"], ["declassify_labels"], EVERYTHING])
@pytest.mark.parametrize("left", [(), KNOWN[:1], ("new",), (KNOWN[1], "new")])
def test_labels_cannot_be_removed_by_returning_fewer(capabilities: list[str], left: tuple[str, ...]) -> None:
    """Not even with the right to declassify, which is a call of its own."""
    assert_refused(with_labels(*left), capabilities, "security.labels", "monotonic")


def test_hidden_labels_are_not_lost() -> None:
    """The plugin was shown an empty set."""
    original = full()
    assert merge_extensions(original, with_labels(), []) is original
    assert labels_of(merge_accepted(with_labels(KNOWN[0]), [])) == set(KNOWN)


HOP = DelegationHop(subject_id="bot", subject_type=SubjectType.AGENT, timestamp=datetime(2026, 11, 21, 9, tzinfo=UTC))


def delegation() -> DelegationExtension:
    found = full().delegation
    assert found is not None
    return found


class TestDelegation:
    def changed(self, **fields: Any) -> Extensions:
        return visible_extensions().model_copy(update={"delegation": delegation().model_copy(update=fields)})

    def test_hops_are_appended_with_the_capability(self) -> None:
        """Derived fields are computed here, whatever the plugin returns."""
        longer = delegation().with_new_hop(HOP)
        for returned in (
            self.changed(chain=longer.chain),
            visible_extensions().model_copy(update={"delegation": longer}),
        ):
            assert merge_accepted(returned, EVERYTHING) == full().model_copy(update={"delegation": longer})
            reader = visible_extensions(["read_delegation"]).model_copy(update={"delegation": returned.delegation})
            assert_refused(reader, ["read_delegation"], "delegation", "monotonic")
            assert_refused(returned, EVERYTHING, "delegation", "monotonic", may_write=False)

    def test_the_first_delegation_can_be_created(self) -> None:
        """Its origin is the subject of its first hop."""
        first = DelegationExtension().with_new_hop(HOP)
        assert merge_extensions(None, Extensions(delegation=first), ["append_delegation"]) == Extensions(
            delegation=first
        )
        forged = first.model_copy(update={"origin_subject_id": "root"})
        with pytest.raises(TierViolation, match="origin"):
            merge_extensions(None, Extensions(delegation=forged), ["append_delegation"])

    @pytest.mark.parametrize(
        "fields",
        [
            {"chain": ()}, {"chain": (HOP,)}, {"chain": (HOP, *delegation().chain)}, {"origin_subject_id": "root"},
            {"actor_subject_id": "root"}, {"depth": 0}, {"delegated": False}, {"age_seconds": 0.0},
            {"chain": (*delegation().chain, HOP), "origin_subject_id": "root"},
        ],
    )  # fmt: skip
    def test_nothing_else_of_a_delegation_changes(self, fields: dict[str, Any]) -> None:
        """No hop is lost, replaced or prepended, and the origin stays."""
        assert_refused(self.changed(**fields), EVERYTHING, "delegation", "monotonic")


def test_custom_data_may_change_freely() -> None:
    """Changed, emptied and deleted, but not by a plugin that may only look."""
    for custom in ({"b": [1]}, {}, None):
        returned = visible_extensions([]).model_copy(update={"custom": custom})
        assert merge_accepted(returned, []) == full().model_copy(update={"custom": custom})
        assert_refused(returned, [], "custom", "mutable", may_write=False)
    in_place = visible_extensions([])
    assert in_place.custom is not None
    in_place.custom["a"]["b"].append("more")
    assert merge_accepted(in_place, []).custom == {"a": {"b": ["custom", "more"]}}


def test_accepted_changes_are_copies() -> None:
    """Changing a returned object afterwards has no effect."""
    returned = visible_extensions().model_copy(
        update={"custom": {"a": [1]}, "http": HEADERS, "delegation": delegation().with_new_hop(HOP.model_copy())}
    )
    merged = merge_accepted(returned, EVERYTHING)
    before = copy.deepcopy(merged)
    assert returned.custom is not None
    assert returned.http is not None
    assert returned.delegation is not None
    returned.custom["a"].append(2)
    dict.clear(returned.http.headers)
    returned.delegation.chain[-1].__dict__["subject_id"] = "root"
    assert merged == before


def test_several_changes_are_all_or_nothing() -> None:
    """One forbidden change rejects the others."""
    allowed = {"http": HEADERS, "custom": {"b": 1}, "security": SecurityExtension(labels=frozenset({*KNOWN, "new"}))}
    merged = merge_accepted(visible_extensions().model_copy(update=allowed), EVERYTHING)
    assert (merged.http, merged.custom, labels_of(merged)) == (HEADERS, {"b": 1}, {*KNOWN, "new"})
    assert_refused(
        visible_extensions().model_copy(update={**allowed, "request": RequestExtension()}),
        EVERYTHING,
        "request",
        "immutable",
    )


def test_an_unregistered_slot_cannot_be_written() -> None:
    """Neither with a subclass nor by reading one in; the host's own value stays."""

    class Wider(Extensions):
        vault: str | None = None

    original = Wider.model_validate({**FULL, "vault": "s3cret"})
    assert merge_extensions(original, visible_extensions(), EVERYTHING) is original
    merged = merge_extensions(original, with_labels("new"), [])
    assert isinstance(merged, Wider)
    assert merged.vault == "s3cret"
    for returned in (
        Wider.model_validate({**FULL, "vault": "x"}),
        Extensions.model_validate({**FULL, "vault": "x"}, extra="allow"),
    ):
        with pytest.raises(TierViolation, match="slot vault is immutable"):
            merge_extensions(original, returned, EVERYTHING)


@pytest.mark.parametrize(
    ("slot", "value"),
    [("http", "EVIL"), ("http", 7), ("delegation", ["EVIL"]), ("security", "EVIL"), ("custom", object()),
     ("custom", [1]), ("custom", {"a": float("nan")})],
)  # fmt: skip
def test_writable_slots_are_validated(slot: str, value: Any) -> None:
    """Values that were forced past validation are validated again."""
    returned = visible_extensions()
    returned.__dict__[slot] = value
    with pytest.raises(TierViolation):
        merge_extensions(full(), returned, EVERYTHING)


def test_headers_and_labels_are_validated_again() -> None:
    """Headers and labels are validated again inside a model of the right class too."""
    returned = visible_extensions()
    assert returned.http is not None
    returned.http.__dict__["headers"] = {"a": 1}
    with pytest.raises(TierViolation, match="the new value is not valid"):
        merge_extensions(full(), returned, EVERYTHING)
    for labels in ([*KNOWN, 1], 7, {"a": "b"}):
        returned = visible_extensions()
        assert returned.security is not None
        returned.security.__dict__["labels"] = labels
        with pytest.raises(TierViolation):
            merge_extensions(full(), returned, EVERYTHING)


def test_anything_but_extensions_is_refused() -> None:
    """Anything but extensions is refused with the same error as any other forbidden change."""
    with pytest.raises(TierViolation, match="expected Extensions, not a dict"):
        merge_extensions(full(), {"custom": {}}, EVERYTHING)  # type: ignore[arg-type]


def test_a_violation_can_be_pickled() -> None:
    """It may have happened in another process."""
    violation = TierViolation("spy", "http", "guarded", "no")
    again = pickle.loads(pickle.dumps(violation))
    assert isinstance(again, TierViolation)
    assert isinstance(again, PolicyError)
    assert (str(again), again.plugin, again.slot) == (str(violation), "spy", "http")
