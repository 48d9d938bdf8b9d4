"""CMF extensions with a counterpart in our metadata. Source: docs/reference/cmf.md#extensions.

All other metadata and block fields without a CMF form are stored in the slot ``custom``,
under the name of this library: the *note*, which makes reading it back lossless.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from dragoman.adapter.notes import strip_note
from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.guard import Count
from dragoman.canonical.message import Message, MessageMetadata, Role, StopReason
from dragoman.canonical.usage import Usage
from dragoman.formats.cmf.models import CmfMessage
from dragoman.formats.cmf.parts import KNOWN
from dragoman.formats.labels import add_labels

NOTE = "dragoman"

STOP_REASONS = {
    StopReason.END_TURN: "end",
    StopReason.TOOL_USE: "call",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.STOP_SEQUENCE: "stop_sequence",
}
"""The other stop reasons have no CMF word."""

_READ_STOP_REASONS = {word: reason for reason, word in STOP_REASONS.items()} | {"return": StopReason.END_TURN}

Fields = dict[str, Any]


class _Slot(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, hide_input_in_errors=True)


class _Tokens(_Slot):
    input_tokens: Count
    output_tokens: Count
    total_tokens: Count


class _Completion(_Slot):
    stop_reason: str | None = None
    tokens: _Tokens | None = None
    model: str | None = None
    created_at: str | None = None
    latency_ms: Count | None = None


class _Llm(_Slot):
    model_id: str | None = None
    provider: str | None = None


class _Provenance(_Slot):
    message_id: str | None = None


class _Agent(_Slot):
    session_id: str | None = None


class _Security(_Slot):
    labels: list[str] = Field(default_factory=list)


class BlockNote(_Slot):
    """The origin of one block: a part, with ``more`` fields than the part has, or ``more`` alone."""

    part: Count | None = None
    more: dict[str, Any] = Field(default_factory=dict)


class Note(_Slot):
    """``of`` is the digest of the CMF message that ``content`` belongs to. If the message was changed, it is not
    restored.
    """

    of: str
    fields: dict[str, Any]
    content: list[BlockNote] | None = None


class _Custom(_Slot):
    note: Note | None = Field(default=None, alias=NOTE)


class Slots(_Slot):
    """The slots that are read. The rest of security, headers and the like belong to the policy, not to the
    conversation.
    """

    completion: _Completion | None = None
    llm: _Llm | None = None
    provenance: _Provenance | None = None
    agent: _Agent | None = None
    security: _Security | None = None
    custom: _Custom | None = None

    @property
    def labels(self) -> frozenset[str] | None:
        """The security labels, or None if there are none."""
        return frozenset(self.security.labels) or None if self.security else None

    @property
    def note(self) -> Note | None:
        return self.custom.note if self.custom else None


def write_extensions(message: Message, note: Fields, extensions: Mapping[str, Any] | None) -> Fields:
    """Return the extensions of a message. ``extensions`` take precedence over its own, except over the note."""
    metadata = message.metadata
    own_slots: Fields = {
        "agent": {"session_id": message.session_id} if message.session_id else {},
        "completion": _completion(message),
        "llm": _drop_none(model_id=_model_name(metadata.model), provider=metadata.provider),
        "provenance": {"message_id": message.id} if message.id else {},
    }
    slots = add_labels(
        {name: slot for name, slot in own_slots.items() if slot} | dict(extensions or {}), metadata.labels
    )
    custom = slots.get("custom")
    return slots | {"custom": {**(custom if isinstance(custom, dict) else {}), NOTE: note}}


def build_note(message: Message, written: Fields, content: list[Fields] | None) -> Fields:
    """Return the note on a message. ``content`` is None if each part reads back as its block, in order."""
    fields = message.model_dump(mode="json", exclude_none=True, exclude={"content"})
    fields = {name: value for name, value in fields.items() if name not in KNOWN or value not in KNOWN[name]}
    fields["metadata"].pop("labels", None)  # they are in security.labels, where other programs may add to them
    fields["metadata"] = strip_note(fields["metadata"], "cmf")
    note: Fields = {"of": digest(CmfMessage.model_validate(written)), "fields": fields}
    return note | ({"content": content} if content is not None else {})


def note_block(part: int | None, block: Fields, read: Fields | None) -> Fields:
    """Return the note on a block, given the block that its part alone reads as."""
    if part is None or read is None or not read.keys() <= block.keys():
        return {"more": block}
    more = {name: value for name, value in block.items() if name not in read or read[name] != value}
    return {"part": part, "more": more} if more else {"part": part}


def digest(message: CmfMessage) -> str:
    """Return the digest of a message's meaning: nulls, defaults and unknown keys do not count."""
    return hashlib.sha256(to_json(message.model_dump(exclude_defaults=True))).hexdigest()


def metadata_fields(slots: Slots, role: str) -> Fields:
    """Return the fields of a message other than its content, from a document of another program."""
    fields: Fields = {}
    if slots.provenance and slots.provenance.message_id:
        fields["id"] = slots.provenance.message_id
    if slots.agent and slots.agent.session_id:
        fields["session_id"] = slots.agent.session_id
    metadata: Fields = {"labels": slots.labels} if slots.labels else {}
    completion, llm = slots.completion or _Completion(), slots.llm or _Llm()
    name = llm.model_id or completion.model
    if role == Role.ASSISTANT and name:
        metadata["model"] = f"{llm.provider}:{name}" if llm.provider else name
        metadata["provider"] = llm.provider
    if completion.stop_reason in _READ_STOP_REASONS:
        metadata["stop_reason"] = _READ_STOP_REASONS[completion.stop_reason]
    if completion.tokens is not None:
        tokens = completion.tokens
        metadata["usage"] = Usage(
            input_tokens=tokens.input_tokens,
            output_tokens=tokens.output_tokens,
            reported_total=tokens.total_tokens,
            latency_ms=completion.latency_ms,
        )
    if completion.created_at:
        fields["created_at"] = completion.created_at
    return fields | {"metadata": MessageMetadata.model_validate(metadata)}


def as_json(block: ContentBlock) -> Fields:
    fields: Fields = block.model_dump(mode="json")
    return fields


def _completion(message: Message) -> Fields:
    metadata = message.metadata
    usage = metadata.usage
    tokens = usage and {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
    is_reply = message.role is Role.ASSISTANT
    return _drop_none(
        stop_reason=STOP_REASONS.get(metadata.stop_reason) if metadata.stop_reason else None,
        tokens=tokens,
        model=_model_name(metadata.model) if is_reply else None,
        created_at=message.created_at.isoformat() if is_reply else None,
        latency_ms=usage.latency_ms if usage else None,
    )


def _model_name(model: str | None) -> str | None:
    """Return the provider's own name of a model."""
    return model.partition(":")[2] or model if model else None


def _drop_none(**fields: Any) -> Fields:
    return {name: value for name, value in fields.items() if value is not None}
