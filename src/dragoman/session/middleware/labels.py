"""The labels of a session's data, stored with its messages, and the records of declassified labels.

Each message is stored with the labels that the conversation had when it was added, followed by the records of labels
that were declassified while it was the newest message. Read in the order of the history, they give the present labels.
"""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from dragoman.canonical.extensions.extensions import Extensions
from dragoman.policy.labels import Declassification, with_labels, without_labels

MessageExtensions = MutableMapping[str, Any]
"""Extensions of the session's messages as JSON, by message id, as a store keeps them."""

_RECORDS_KEY, _EARLIER_RECORDS_KEY = "declassified", "declassified_before"


class LabelLedger:
    """Changes ``extensions``, which belong to the session. A declassification covers the messages that existed then:
    checking them again, for another model or after a load, does not restore the label."""

    def __init__(self, extensions: MessageExtensions) -> None:
        self._extensions = extensions
        self._covered: dict[str, set[str]] = {}
        """The ids of the messages that the declassification of a label covers, by label."""
        self._pending_records: list[dict[str, Any]] = []
        """Records from before the first message."""

    def record_labels(self, message_id: str, labels: Iterable[str]) -> None:
        """Store the present labels with a new message. Labels that are stored with it already stay."""
        known = self._extensions.get(message_id) or {}
        if self._pending_records:
            known = {**known, _EARLIER_RECORDS_KEY: self._pending_records}
            self._pending_records = []
        all_labels = sorted({*labels, *_read_labels(known)})
        if all_labels:
            known = {**known, "security": {"labels": all_labels}}
        if known:
            self._extensions[message_id] = known

    def build_record(self, record: Declassification, history: Iterable[str]) -> Mapping[str, Any] | None:
        """Return the new extensions of the newest message; None if there is no message yet."""
        newest = [*history][-1:]
        if not newest:
            return None
        known = self._extensions.get(newest[0]) or {}
        return {**known, _RECORDS_KEY: [*_read_records(known, _RECORDS_KEY), _to_json(record)]}

    def apply_record(
        self, record: Declassification, history: Iterable[str], extensions: Mapping[str, Any] | None
    ) -> None:
        """Store the record, with the extensions from `build_record`."""
        ids = [*history]
        self._cover(record.labels, ids)
        if extensions is None:
            self._pending_records.append(_to_json(record))
        else:
            self._extensions[ids[-1]] = dict(extensions)

    def replay(self, state: Extensions, history: Iterable[str]) -> Extensions:
        """Return the extensions with the labels at the end of a stored history."""
        seen: list[str] = []
        for message_id in dict.fromkeys(history):
            kept = self._extensions.get(message_id) or {}
            state = self._remove_labels(state, _read_records(kept, _EARLIER_RECORDS_KEY), seen)
            seen.append(message_id)
            state = with_labels(state, _read_labels(kept))
            state = self._remove_labels(state, _read_records(kept, _RECORDS_KEY), seen)
        return state

    def new_labels(self, before: frozenset[str], after: frozenset[str], message_id: str | None) -> frozenset[str]:
        """Return the labels to add; ``message_id`` is that of a message of the history, None for a new message."""
        return frozenset(
            label for label in after - before if message_id is None or message_id not in self._covered.get(label, ())
        )

    def _remove_labels(
        self, state: Extensions, records: Iterable[Mapping[str, Any]], seen: Iterable[str]
    ) -> Extensions:
        for record in records:
            labels = [label for label in record.get("labels") or () if isinstance(label, str)]
            self._cover(labels, seen)
            state = without_labels(state, frozenset(labels))
        return state

    def _cover(self, labels: Iterable[str], ids: Iterable[str]) -> None:
        for label in labels:
            self._covered.setdefault(label, set()).update(ids)


def _read_labels(kept: Mapping[str, Any]) -> list[str]:
    found = (kept.get("security") or {}).get("labels") or ()
    return [label for label in found if isinstance(label, str)]


def _read_records(kept: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return [record for record in kept.get(key) or () if isinstance(record, Mapping)]


def _to_json(record: Declassification) -> dict[str, Any]:
    return record.model_dump(mode="json", exclude_none=True)
