"""Labels: they pass on to whatever is made from the data, and are removed only with a record."""

import copy
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from dragoman.policy import Declassification, DeclassificationError, Extensions, SecurityExtension
from dragoman.policy.labels import declassify, inherit_labels, labels_of, with_labels
from tests.unit.canonical.extensions.samples import full

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
KNOWN = {"security.labels.one", "security.labels.two"}


def labelled_extensions(*labels: str) -> Extensions:
    return Extensions(security=SecurityExtension(labels=frozenset(labels)))


def without(extensions: Extensions, *labels: str, records: list[Declassification], **changed: Any) -> Extensions:
    given: dict[str, Any] = {
        "capabilities": ["declassify_labels"], "actor": "officer", "reason": "published", "audit": records.append,
        "at": NOON, **changed,
    }  # fmt: skip
    return declassify(extensions, labels, **given)


def test_labels_are_added() -> None:
    """To existing ones; everything else stays, and without a new label the same object is returned."""
    assert labels_of(None) == labels_of(Extensions()) == frozenset()
    assert with_labels(None, ["PII"]) == labelled_extensions("PII")
    assert labels_of(with_labels(full(), ["PII"])) == {*KNOWN, "PII"}
    assert with_labels(full(), ["PII"]).model_copy(update={"security": full().security}) == full()
    for extensions in (full(), labelled_extensions("PII"), Extensions()):
        assert with_labels(extensions, labels_of(extensions)) is extensions
    assert labels_of(with_labels(None, "PII")) == {"PII"}


def test_derived_data_have_the_labels_of_all_sources() -> None:
    made = inherit_labels(
        labelled_extensions("own"), labelled_extensions("a", "b"), None, Extensions(), labelled_extensions("b", "c")
    )
    assert labels_of(made) == {"own", "a", "b", "c"}
    assert inherit_labels(None) == Extensions()


@pytest.mark.parametrize(
    "kept",
    [
        copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value)), lambda value: value.model_copy(),
        lambda value: Extensions.model_validate_json(value.model_dump_json()),
        lambda value: value.model_copy(update={"custom": {"a": 1}}), lambda value: inherit_labels(None, value),
    ],
)  # fmt: skip
def test_copies_and_stores_keep_labels(kept: Any) -> None:
    """However the extensions come back."""
    assert labels_of(kept(full())) == KNOWN


def test_declassification_is_recorded_once() -> None:
    """Who, what, why, when and of what; only the labels go."""
    records: list[Declassification] = []
    left = without(full(), "security.labels.one", "absent", records=records, subject="message 7")
    assert labels_of(left) == {"security.labels.two"}
    assert with_labels(left, KNOWN) == full()
    assert records == [
        Declassification(
            labels=["security.labels.one"], actor="officer", reason="published", subject="message 7", at=NOON
        )
    ]
    without(full(), *KNOWN, records=records, at=None)
    assert records[1].labels == sorted(KNOWN)
    assert records[1].at.tzinfo is UTC
    assert Declassification.model_validate_json(records[1].model_dump_json()) == records[1]


def test_removing_no_label_records_nothing() -> None:
    """The same object is returned."""
    records: list[Declassification] = []
    for extensions in (full(), Extensions()):
        assert without(extensions, "absent", records=records) is extensions
        assert without(extensions, records=records) is extensions
    assert records == []


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"capabilities": []}, "requires the capability declassify_labels"),
        ({"capabilities": ["append_labels", "read_labels", "write_headers"]}, "requires the capability"),
        ({"actor": " "}, "an actor and a reason"), ({"reason": ""}, "an actor and a reason"),
    ],
)  # fmt: skip
def test_declassification_needs_a_capability_and_a_reason(changed: dict[str, Any], complaint: str) -> None:
    """Otherwise nothing is removed and nothing recorded."""
    records: list[Declassification] = []
    with pytest.raises(DeclassificationError, match=complaint):
        without(full(), *KNOWN, records=records, **changed)
    assert records == []


def test_a_failing_record_keeps_the_labels() -> None:
    """The error comes instead of the extensions."""

    def full_disk(_: Declassification) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        without(full(), *KNOWN, records=[], audit=full_disk)
