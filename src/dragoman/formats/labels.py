"""Security labels in formats that have no room for them: a named loss, and a file beside the document.

Source: docs/reference/cmf.md#labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import from_json, to_json

from dragoman.adapter.losses import Loss, LossKind, log_losses
from dragoman.canonical.extensions.message_labels import labels_of_messages, with_message_labels
from dragoman.canonical.message import Message
from dragoman.formats.errors import FormatError
from dragoman.formats.results import Conversion

Data = TypeVar("Data")

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
