"""The labels of a session's data as they are kept beside its messages, and the records of those that were taken away.

Beside a message stand the labels that the conversation bore when it came in, and behind them the records of labels that
were declassified while it was the newest one. Read in the order of the history, they give the labels that hold now.
"""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from dragoman.canonical.extensions import Extensions
from dragoman.policy.labels import Declassification, with_labels, without_labels

Beside = MutableMapping[str, Any]
"""Extensions of the session's messages as JSON, by message id: what a store keeps beside each."""

_RECORDS, _EARLIER = "declassified", "declassified_before"


class Ledger:
    """``beside`` is the session's own, and changed here. What was declassified covers the messages of its time: plugins
    and data policies that judge those again, for another model or after a load, do not bring the label back."""

    def __init__(self, beside: Beside) -> None:
        self._beside = beside
        self._covered: dict[str, set[str]] = {}
        """By label, the ids of the messages that it was taken from."""
        self._unkept: list[dict[str, Any]] = []
        """Records from before the first message."""

    def note(self, message_id: str, labels: Iterable[str]) -> None:
        """The labels that hold now that this message is there; those of its own time stay noted."""
        known = self._beside.get(message_id) or {}
        if self._unkept:
            known = {**known, _EARLIER: self._unkept}
            self._unkept = []
        together = sorted({*labels, *_labels(known)})
        if together:
            known = {**known, "security": {"labels": together}}
        if known:
            self._beside[message_id] = known

    def with_record(self, record: Declassification, history: Iterable[str]) -> Mapping[str, Any] | None:
        """What is to be kept beside the newest message from now on; None where there is no message yet."""
        newest = [*history][-1:]
        if not newest:
            return None
        known = self._beside.get(newest[0]) or {}
        return {**known, _RECORDS: [*_records(known, _RECORDS), _written(record)]}

    def take(self, record: Declassification, history: Iterable[str], beside: Mapping[str, Any] | None) -> None:
        """Keeps the record, with what `with_record` gave."""
        ids = [*history]
        self._cover(record.labels, ids)
        if beside is None:
            self._unkept.append(_written(record))
        else:
            self._beside[ids[-1]] = dict(beside)

    def replayed(self, state: Extensions, history: Iterable[str]) -> Extensions:
        """The extensions with the labels that hold at the end of a history that a store kept."""
        seen: list[str] = []
        for message_id in dict.fromkeys(history):
            kept = self._beside.get(message_id) or {}
            state = self._without(state, _records(kept, _EARLIER), seen)
            seen.append(message_id)
            state = with_labels(state, _labels(kept))
            state = self._without(state, _records(kept, _RECORDS), seen)
        return state

    def gained(self, before: frozenset[str], after: frozenset[str], message_id: str | None) -> frozenset[str]:
        """The labels that are new and hold; ``message_id`` is of a message that was there before, None of a new one."""
        return frozenset(
            label for label in after - before if message_id is None or message_id not in self._covered.get(label, ())
        )

    def _without(self, state: Extensions, records: Iterable[Mapping[str, Any]], seen: Iterable[str]) -> Extensions:
        for record in records:
            labels = [label for label in record.get("labels") or () if isinstance(label, str)]
            self._cover(labels, seen)
            state = without_labels(state, frozenset(labels))
        return state

    def _cover(self, labels: Iterable[str], ids: Iterable[str]) -> None:
        for label in labels:
            self._covered.setdefault(label, set()).update(ids)


def _labels(kept: Mapping[str, Any]) -> list[str]:
    found = (kept.get("security") or {}).get("labels") or ()
    return [label for label in found if isinstance(label, str)]


def _records(kept: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return [record for record in kept.get(key) or () if isinstance(record, Mapping)]


def _written(record: Declassification) -> dict[str, Any]:
    return record.model_dump(mode="json", exclude_none=True)
