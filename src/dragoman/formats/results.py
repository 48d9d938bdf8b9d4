"""What readers return, a conversation or several; what writers share: the history that they take, and the result.

Security labels in formats that have no room for them: a named loss, and a file beside the document.

Source: docs/reference/cmf.md#labels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic_core import from_json, to_json

from dragoman.adapter.losses import Loss, LossKind, Severity, log_losses
from dragoman.adapter.requests.request_builder import refuse_critical
from dragoman.canonical.extensions.message_labels import labels_of_messages, with_message_labels
from dragoman.canonical.message import Message
from dragoman.formats.errors import FormatError

Data = TypeVar("Data")


@dataclass(frozen=True, slots=True)
class Conversion(Generic[Data]):
    """A conversation in another format. ``data`` is JSON as Python values, or a text. ``losses`` are like those of a
    request to a provider.

    ``labels`` are security labels that ``data`` has no room for: keep them beside it.
    """

    data: Data
    losses: tuple[Loss, ...] = ()
    labels: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Pieces:
    """A list that is made when it is read, piece by piece and once.

    If there are ``fields``, it stands behind them in an object, under ``name``.
    """

    pieces: Iterable[list[Any]]
    fields: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


LOSS_KINDS: Mapping[str, LossKind] = {
    "text": LossKind.CITATIONS,
    "tool_use": LossKind.INVALID_INPUT,
    "tool_result": LossKind.FLATTENED,
    "thinking": LossKind.THINKING,
    "redacted_thinking": LossKind.THINKING,
    "image": LossKind.MEDIA,
    "audio": LossKind.MEDIA,
    "video": LossKind.MEDIA,
    "document": LossKind.MEDIA,
    "resource": LossKind.FLATTENED,
    "resource_ref": LossKind.FLATTENED,
    "prompt_request": LossKind.FLATTENED,
    "prompt_result": LossKind.FLATTENED,
    "provider": LossKind.NATIVE_BLOCK,
}
"""The loss kind by the kind of the block; blocks of other kinds count as unknown."""


def describe_unknown_role(message: Message) -> str:
    return f"the role {message.role!s:.100} is unknown to this version: written as the user's"


class LossCollector:
    """Collects the losses of one document."""

    def __init__(self, format_name: str) -> None:
        self._format_name = format_name
        self._found: dict[Loss, None] = {}

    def add(
        self,
        message: Message,
        index: int,
        reason: str,
        *,
        kind: LossKind | None = None,
        severity: Severity = Severity.WARNING,
    ) -> None:
        """Add one loss. ``index`` is the index of the block in its message, or -1 for a loss of the message itself."""
        block_type = message.content[index].type if index >= 0 else ""
        kind = kind or LOSS_KINDS.get(block_type, LossKind.UNKNOWN_BLOCK)
        self._found[Loss(kind, message.id, index, reason, severity, block_type)] = None

    def add_info(self, message: Message, index: int, reason: str, kind: LossKind | None = None) -> None:
        """As `add`, with the severity info."""
        self.add(message, index, reason, kind=kind, severity=Severity.INFO)

    def report(self, messages: list[Message]) -> tuple[Loss, ...]:
        """Return all losses, and log each."""
        found = tuple(self._found)
        log_losses(found, session_id=messages[0].session_id if messages else "", adapter=self._format_name)
        return found


def as_history(messages: Iterable[Message]) -> list[Message]:
    """Return the messages as a list. Raises TypeError for a single message, or an item that is not a message."""
    if isinstance(messages, (Message, str, bytes)):
        raise TypeError(f"a history must be a list of messages, not a {type(messages).__name__}")
    history = list(messages)
    for index, message in enumerate(history):
        as_message(message, f"history[{index}]")
    return history


def as_message(message: Message, place: str = "this") -> Message:
    """Return the message. Raises TypeError if it is something else."""
    if not isinstance(message, Message):
        raise TypeError(f"{place} is a {type(message).__name__}, not a Message: from_messages reads JSON")
    return message


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation of a source. ``name`` is its name in the source, or its number there."""

    name: str
    messages: list[Message]
    """The messages, oldest first."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The conversations of a source. ``format`` is the name of the format. Each loss has the path in the source."""

    format: str
    conversations: list[Conversation]
    """The conversations in the order of the source."""
    losses: tuple[Loss, ...] = ()
    """What the source holds and messages cannot."""

    @property
    def messages(self) -> list[Message]:
        """The messages of the only conversation. Raises FormatError if there are several, or none."""
        if len(self.conversations) != 1:
            raise FormatError(f"the document holds {len(self.conversations)} conversations: choose one by its name")
        return self.conversations[0].messages


SIDECAR_SUFFIX = ".labels.json"


def report_labels(conversion: Conversion[Data], history: Sequence[Message], format_name: str) -> Conversion[Data]:
    """Return the conversion with its labels, and with one loss for each message whose labels the format cannot hold."""
    labels = labels_of_messages(history)
    if not labels:
        return conversion
    losses = tuple(
        Loss(
            LossKind.LABELS, message.id, -1, f"{format_name} has no room for security labels: kept beside the document"
        )
        for message in history
        if message.metadata.labels
    )
    log_losses(losses, session_id=history[0].session_id, adapter=format_name)
    return replace(conversion, losses=(*conversion.losses, *losses), labels=labels)


def finish(data: Data, losses: LossCollector, history: list[Message], label: str | None = None) -> Conversion[Data]:
    """Return what a writer wrote, with its losses; ``label`` is the name of a format that has no room for labels.

    Raises CriticalLossError if a block marked critical would be lost.
    """
    found = losses.report(history)
    refuse_critical(history, found)
    conversion = Conversion(data, found)
    return conversion if label is None else report_labels(conversion, history, label)


def sidecar_path(path: Path) -> Path:
    """Return the path of the file with the labels of a document."""
    return path.with_name(path.name + SIDECAR_SUFFIX)


def write_sidecar(labels: frozenset[str]) -> bytes:
    return to_json({"security": {"labels": sorted(labels)}}, indent=1) + b"\n"


def read_sidecar(path: Path, messages: list[Message]) -> list[Message]:
    """Return the messages with the labels of the file beside a document, if there is one. Raises FormatError."""
    beside = sidecar_path(path)
    if not beside.exists():
        return messages
    try:
        found: Any = from_json(beside.read_bytes())["security"]["labels"]
    except (ValueError, TypeError, KeyError):
        raise FormatError(f"{beside.name} holds no labels: it must be an object with security.labels") from None
    labels = read_label_list(found, "$.security.labels")
    return [with_message_labels(each, labels | (each.metadata.labels or frozenset())) for each in messages]


def read_label_list(value: Any, path: str) -> frozenset[str]:
    """Return the labels in a list of texts. Raises FormatError."""
    if not isinstance(value, list) or not all(isinstance(label, str) for label in value):
        raise FormatError("labels must be a list of texts", path=path)
    return frozenset(value)


def add_labels(slots: Mapping[str, Any], labels: frozenset[str] | None) -> dict[str, Any]:
    """Return CMF extensions with these labels added to those that they have."""
    security = slots.get("security")
    known: dict[str, Any] = dict(security) if isinstance(security, Mapping) else {}
    present = frozenset(known.get("labels") or ())
    if not labels or labels <= present:
        return dict(slots)
    return {**slots, "security": {**known, "labels": sorted(present | labels)}}
