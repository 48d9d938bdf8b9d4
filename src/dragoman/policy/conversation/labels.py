"""The labels and the data policies of a conversation.

Each message is stored with the labels that the conversation had when it was added, followed by the records of labels
that were declassified while it was the newest message. Read in the order of the history, they give the present labels.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.message_labels import (
    BEFORE_MESSAGES,
    EARLIER_RECORDS,
    RECORDS,
    labels_at_end,
    read_labels,
    read_records,
    record_labels,
)
from dragoman.canonical.extensions.security import RETENTION, DataPolicy, retention_end, stored_retention
from dragoman.canonical.message import Message
from dragoman.policy.data_policy import check_data_use
from dragoman.policy.labels import Declassification, labels_of, with_labels, without_labels
from dragoman.policy.plugin import Violation

MessageExtensions = MutableMapping[str, Any]
"""Extensions of the session's messages as JSON, by message id, as a store keeps them."""


class LabelLedger:
    """Changes ``extensions``, which belong to the session. A declassification covers the messages that existed then:
    checking them again, for another model or after a load, does not restore the label."""

    def __init__(self, extensions: MessageExtensions) -> None:
        self._extensions = extensions
        self._covered: dict[str, set[str]] = {}
        """The ids of the messages that the declassification of a label covers, by label."""

    def has_labels(self, message_id: str) -> bool:
        """Return True if labels are stored with the message: those that it carries itself may be older."""
        return bool(read_labels(self._extensions.get(message_id) or {}))

    def record_labels(self, message_id: str, labels: Iterable[str], *, first: bool = False) -> None:
        """Store the present labels with a new message. Labels that are stored with it already stay.

        The ``first`` message of a conversation gets the records from before it, too. They also keep their own place: a
        turn that fails takes its message with it.
        """
        if not labels and not self._extensions:
            return
        known = self._extensions.get(message_id) or {}
        if first:
            known = {**known, **(self._extensions.get(BEFORE_MESSAGES) or {})}
        all_labels = sorted({*labels, *read_labels(known)})
        if all_labels:
            known = {**known, "security": {"labels": all_labels}}
        if known:
            self._extensions[message_id] = known

    def record_retention(self, message: Message, policies: Iterable[DataPolicy]) -> None:
        """Store how long the data of the message may be kept. What is stored already stays."""
        known = self._extensions.get(message.id) or {}
        limits = [policy.retention for policy in policies if policy.retention is not None]
        if RETENTION not in known and (kept := stored_retention(limits, message.created_at)) is not None:
            self._extensions[message.id] = {**known, RETENTION: kept}

    def add_record(
        self, record: Declassification, history: Sequence[str], keep: Callable[[str, Mapping[str, Any]], None]
    ) -> None:
        """Store the record with the newest message, whose new extensions ``keep`` receives first; if that raises,
        nothing changes."""
        written = record.model_dump(mode="json", exclude_none=True)
        if history:
            known = self._extensions.get(history[-1]) or {}
            extensions = {**known, RECORDS: [*read_records(known, RECORDS), written]}
            keep(history[-1], extensions)
            self._extensions[history[-1]] = extensions
        else:
            known = self._extensions.get(BEFORE_MESSAGES) or {}
            self._extensions[BEFORE_MESSAGES] = {EARLIER_RECORDS: [*read_records(known, EARLIER_RECORDS), written]}
        self._cover(record.labels, history)

    def replay(self, state: Extensions, history: Iterable[Message]) -> Extensions:
        """Return the extensions with the labels at the end of a stored history."""
        messages = list({message.id: message for message in history}.values())
        seen: list[str] = []
        for message in messages:
            kept = self._extensions.get(message.id) or {}
            self._cover(record_labels(read_records(kept, EARLIER_RECORDS)), seen)
            seen.append(message.id)
            self._cover(record_labels(read_records(kept, RECORDS)), seen)
        labels = labels_at_end(messages, self._extensions, labels_of(state))
        return with_labels(without_labels(state, labels_of(state) - labels), labels)

    def new_labels(self, before: frozenset[str], after: frozenset[str], message_id: str | None) -> frozenset[str]:
        """Return the labels to add; ``message_id`` is that of a message of the history, None for a new message."""
        return frozenset(
            label for label in after - before if message_id is None or message_id not in self._covered.get(label, ())
        )

    def _cover(self, labels: Iterable[str], ids: Iterable[str]) -> None:
        for label in labels:
            self._covered.setdefault(label, set()).update(ids)


class ConversationData:
    """Both checks return the first violation, or None."""

    def __init__(self) -> None:
        self._policies: list[tuple[str | None, DataPolicy]] = []
        self._call_providers: dict[str, str | None] = {}
        """The provider that each call came from."""

    def note_call(self, call_id: str, provider: str | None) -> None:
        self._call_providers[call_id] = provider

    def add(self, message: Message, policies: Iterable[DataPolicy]) -> None:
        """Add the policies of what the message holds."""
        provider = next((self._call_providers.get(result.tool_use_id) for result in message.tool_results), None)
        new = [(provider, policy) for policy in policies]
        self._policies += [source for source in new if source not in self._policies]

    def check_actions(self, actions: Sequence[str]) -> Violation | None:
        return check_data_use(actions, (policy for _, policy in self._policies))

    def check_forwarding(self, provider: str) -> Violation | None:
        """Check that data which may not be forwarded stays with the provider that requested it.

        If it is unknown who requested it, no provider did.
        """
        if not self._policies:
            return None
        foreign = (policy for source, policy in self._policies if source != provider)
        return check_data_use(("forward",), foreign)


_DELETE = "delete"
"""A store deletes what its program tells it to, without asking a data policy: only tools are kept from deleting."""


def has_data_policies(extensions: Extensions) -> bool:
    """Return whether there are data policies. Raises ConfigurationError if one denies what nothing enforces, or has a
    time that is not a time."""
    policies = {} if extensions.security is None else extensions.security.data
    for name, policy in policies.items():
        if _DELETE in policy.denied_actions:
            raise ConfigurationError(
                f"the data policy of {name!r} denies delete, which no store here enforces: withhold the tools that"
                " delete, with a list of allowed_actions"
            )
        try:
            if policy.retention is not None:
                retention_end(policy.retention, datetime.now(UTC))
        except ValueError:
            raise ConfigurationError(
                f"the data policy of {name!r:.80}: delete_after is an ISO time, such as 2027-01-31T00:00:00Z"
            ) from None
    return bool(policies)
