"""Losses: what a request could not carry (docs/reference/contract.md#lossy-projection)."""

import logging
from dataclasses import dataclass
from enum import StrEnum

from dragoman.canonical.log import get_logger, one_line

logger = get_logger("dragoman.projection")


class Severity(StrEnum):
    """How much a loss matters. ``info``: the form changed, the content did not; ``warning``: content is gone or
    reduced."""

    INFO = "info"
    WARNING = "warning"


class LossKind(StrEnum):
    """What kind of thing a request or a document could not carry. Source: docs/reference/tool-ids.md#losses."""

    ORPHAN_RESULT = "orphan_result"
    INTERRUPTED_CALL = "interrupted_call"
    DUPLICATE_TOOL_ID = "duplicate_tool_id"
    INVALID_INPUT = "invalid_input"
    THINKING = "thinking"
    MEDIA = "media"
    NATIVE_BLOCK = "native_block"
    UNKNOWN_BLOCK = "unknown_block"
    FLATTENED = "flattened"
    CITATIONS = "citations"
    ROLE = "role"
    CHANNEL = "channel"
    MISPLACED_BLOCK = "misplaced_block"
    EMPTY_TEXT = "empty_text"
    TRUNCATED = "truncated"
    """An input to embed was longer than the model reads, and a part was left out."""
    EMPTY_MESSAGE = "empty_message"
    PREFILL = "prefill"
    TOOLS = "tools"
    OPTION = "option"
    STATE = "state"
    """What only its provider can read, such as a signature, could not travel with a reply, or came back unreadable."""
    STOP_REASON = "stop_reason"
    USAGE = "usage"
    FIELD = "field"
    """A field of a document that its reader does not know, or of a message that means nothing elsewhere."""
    LABELS = "labels"
    """A format has no room for the security labels of a message."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that was changed or left out on its way to the wire.

    ``message_id`` is empty and ``block_index`` is -1 for losses of the whole request, such as an option, and for those
    of a reader, which has a ``path`` in its source.
    """

    kind: LossKind
    """What happened."""
    message_id: str
    block_index: int
    reason: str
    """Why, in a sentence for people."""
    severity: Severity = Severity.WARNING
    """A warning if content is lost, else information."""
    block_type: str = ""
    """The kind of block; empty if the loss is not one of a block."""
    path: str = ""


_printed: set[tuple[str, LossKind]] = set()
"""The losses that this process has printed without any logging set up, by model and kind."""
_MAX_PRINTED = 1_000


def log_losses(losses: tuple[Loss, ...], *, session_id: str, adapter: str, model: str = "") -> None:
    """Write one log record for each loss, with five fields: a warning if content is lost, else information.

    In a program that has not set up logging, Python prints warnings to stderr: there, each model and kind is one line.
    """
    prints = bool(losses) and not logger.hasHandlers()
    for loss in losses:
        if prints:
            key = (model or adapter, loss.kind)
            if key in _printed:
                continue
            if loss.severity is Severity.WARNING and len(_printed) < _MAX_PRINTED:
                _printed.add(key)
        logger.log(
            logging.WARNING if loss.severity is Severity.WARNING else logging.INFO,
            "%s: %s",
            adapter,
            one_line(loss.reason),
            extra={
                "session_id": one_line(session_id),
                "message_id": one_line(loss.message_id),
                "block_type": one_line(loss.block_type),
                "adapter": adapter,
                "reason": one_line(loss.reason),
                "loss_kind": str(loss.kind),
            },
        )
