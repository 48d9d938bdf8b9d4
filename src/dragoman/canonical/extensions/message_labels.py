"""The labels of each message of a conversation, from what is stored with them. Source: docs/reference/cmf.md#labels.

A session and a store keep the labels beside the messages, as JSON by message id: the labels that the conversation had
when the message was added, and the records of labels that were declassified since. Outside, a message carries its
labels in its metadata, so that they travel with it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from dragoman.canonical.blocks import PromptResultBlock, ToolResultBlock, has_only_texts, replace_fields
from dragoman.canonical.message_fields import MessageFields

RECORDS, EARLIER_RECORDS = "declassified", "declassified_before"
"""The keys of records: from when the message was the newest one, and from before it."""
BEFORE_MESSAGES = ""
"""The key of the extensions of a session without messages: its records wait there for the first one."""

MessageT = TypeVar("MessageT", bound=MessageFields)


def read_labels(kept: Mapping[str, Any]) -> frozenset[str]:
    """Return the labels in the stored extensions of one message."""
    found = (kept.get("security") or {}).get("labels") or ()
    return frozenset(label for label in found if isinstance(label, str))


def read_records(kept: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return [record for record in kept.get(key) or () if isinstance(record, Mapping)]


def record_labels(records: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the labels that these records removed."""
    return frozenset(label for record in records for label in record.get("labels") or () if isinstance(label, str))


_NONE: frozenset[str] = frozenset()


def carried_labels(message: MessageFields) -> frozenset[str]:
    """Return the labels that a message carries, with those of the messages inside a rendered prompt."""
    labels = message.metadata.labels or _NONE
    if has_only_texts(message.content):
        return labels
    return labels.union(*(found for block in message.content for found in _inner_labels(block)))


def _inner_labels(block: Any) -> Iterator[frozenset[str]]:
    if isinstance(block, ToolResultBlock):
        for part in block.content:
            yield from _inner_labels(part)
    elif isinstance(block, PromptResultBlock):
        for message in block.messages:
            metadata = message.get("metadata")
            labels = metadata.get("labels") if isinstance(metadata, dict) else None
            yield frozenset(label for label in labels or () if isinstance(label, str))


def stored_labels(message: MessageFields, extensions: Mapping[str, Any]) -> frozenset[str]:
    """Return the labels stored with a message, or else those that it carries."""
    return read_labels(extensions.get(message.id) or {}) or carried_labels(message)


def labels_at_end(
    messages: Iterable[MessageFields], extensions: Mapping[str, Any], initial: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Return the labels of a conversation at its end."""
    labels = initial - record_labels(read_records(extensions.get(BEFORE_MESSAGES) or {}, EARLIER_RECORDS))
    for message in messages:
        kept = extensions.get(message.id) or {}
        labels -= record_labels(read_records(kept, EARLIER_RECORDS))
        labels |= stored_labels(message, extensions)
        labels -= record_labels(read_records(kept, RECORDS))
    return labels


def label_messages(messages: Sequence[MessageT], extensions: Mapping[str, Any], start: int = 0) -> tuple[MessageT, ...]:
    """Return the messages from that position on, with their present labels in their metadata: the records after a
    message tell which of its labels are gone."""
    if not extensions:
        return tuple(messages[start:])
    gone: frozenset[str] = frozenset()
    labelled: list[MessageT] = []
    for message in reversed(messages[start:]):
        kept = extensions.get(message.id) or {}
        gone |= record_labels(read_records(kept, RECORDS))
        labelled.append(with_message_labels(message, stored_labels(message, extensions) - gone))
        gone |= record_labels(read_records(kept, EARLIER_RECORDS))
    return tuple(reversed(labelled))


def with_message_labels(message: MessageT, labels: frozenset[str]) -> MessageT:
    """Return the message with exactly these labels."""
    if labels == (message.metadata.labels or frozenset()):
        return message
    return replace_fields(message, {"metadata": replace_fields(message.metadata, {"labels": labels or None})})


def labels_of_messages(messages: Iterable[MessageFields]) -> frozenset[str]:
    """Return the labels that the messages carry."""
    return frozenset[str]().union(*map(carried_labels, messages))
