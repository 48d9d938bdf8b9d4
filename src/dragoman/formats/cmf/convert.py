"""CMF 2.0 as JSON: a list of messages, each with its extensions. Source: docs/reference/cmf.md#conversion.

The written form is ``[{"message": {...}, "extensions": {...}}, ...]``. A single entry can be read too, and so can bare
messages. Content without a CMF form is stored in ``extensions.custom`` under the name of this library, so that reading
it back is lossless. Other readers do not see it, so it is listed as a loss.

CMF repeats the namespace and the name of a tool with each call and each result. A message has no field for the
namespace, because it belongs to the tool; views get it from ``calls``.

CMF extensions with a counterpart in our metadata. Source: docs/reference/cmf.md#extensions.

All other metadata and block fields without a CMF form are stored in the slot ``custom``,
under the name of this library: the *note*, which makes reading it back lossless.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError
from pydantic_core import to_json

from dragoman.adapter.losses import LossKind
from dragoman.adapter.notes import strip_note
from dragoman.canonical.blocks import ContentBlock, ToolResultBlock
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.message_labels import labels_of_messages, with_message_labels
from dragoman.canonical.guard import Count
from dragoman.canonical.message import Message, MessageMetadata, Role, StopReason, read_message
from dragoman.canonical.message_view.parts import CalledTool, called_tools
from dragoman.canonical.usage import Usage
from dragoman.formats import verbatim
from dragoman.formats.cmf.models import (
    KNOWN,
    PART,
    CmfMessage,
    CmfModel,
    ToolCall,
    ToolResult,
    block_of,
    message_of,
    part_of,
)
from dragoman.formats.document import kind_of, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.tool_calls import ToolIdReader, split_results
from dragoman.formats.results import Conversion, LossCollector, add_labels, as_history, describe_unknown_role

Fields = dict[str, Any]
NOTE = "dragoman"

STOP_REASONS = {
    StopReason.END_TURN: "end",
    StopReason.TOOL_USE: "call",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.STOP_SEQUENCE: "stop_sequence",
}
"""The other stop reasons have no CMF word."""

_READ_STOP_REASONS = {word: reason for reason, word in STOP_REASONS.items()} | {"return": StopReason.END_TURN}


class _Tokens(CmfModel):
    input_tokens: Count
    output_tokens: Count
    total_tokens: Count


class _Completion(CmfModel):
    stop_reason: str | None = None
    tokens: _Tokens | None = None
    model: str | None = None
    created_at: str | None = None
    latency_ms: Count | None = None


class _Llm(CmfModel):
    model_id: str | None = None
    provider: str | None = None


class _Provenance(CmfModel):
    message_id: str | None = None


class _Agent(CmfModel):
    session_id: str | None = None


class _Security(CmfModel):
    labels: list[str] = Field(default_factory=list)


class BlockNote(CmfModel):
    """The origin of one block: a part, with ``more`` fields than the part has, or ``more`` alone."""

    part: Count | None = None
    more: dict[str, Any] = Field(default_factory=dict)


class Note(CmfModel):
    """``of`` is the digest of the CMF message that ``content`` belongs to. If the message was changed, it is not
    restored.
    """

    of: str
    fields: dict[str, Any]
    content: list[BlockNote] | None = None


class _Custom(CmfModel):
    note: Note | None = Field(default=None, alias=NOTE)


class Slots(CmfModel):
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
    usage, is_reply = metadata.usage, message.role is Role.ASSISTANT
    completion = _drop_none(
        stop_reason=STOP_REASONS.get(metadata.stop_reason) if metadata.stop_reason else None,
        tokens=usage
        and {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
        },
        model=_model_name(metadata.model) if is_reply else None,
        created_at=message.created_at.isoformat() if is_reply else None,
        latency_ms=usage.latency_ms if usage else None,
    )
    own_slots: Fields = {
        "agent": {"session_id": message.session_id} if message.session_id else {},
        "completion": completion,
        "llm": _drop_none(model_id=_model_name(metadata.model), provider=metadata.provider),
        "provenance": {"message_id": message.id} if message.id else {},
    }
    slots = add_labels(
        {name: slot for name, slot in own_slots.items() if slot} | dict(extensions or {}), metadata.labels
    )
    custom = slots.get("custom")
    return slots | {"custom": {**(custom if isinstance(custom, dict) else {}), NOTE: note}}


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


def _model_name(model: str | None) -> str | None:
    """Return the provider's own name of a model."""
    return model.partition(":")[2] or model if model else None


def _drop_none(**fields: Any) -> Fields:
    return {name: value for name, value in fields.items() if value is not None}


FORMAT = "cmf"
ExtensionsLike = Extensions | Mapping[str, Any]
"""Extensions as a model or as JSON."""


def called_tools_in_cmf(messages: Iterable[Message]) -> dict[str, CalledTool]:
    """Return the tools of the calls and results in messages from `from_cmf`, by call id.

    Pass them as ``calls`` to `Message.iter_views`, a `Pipeline` or `to_cmf`. Call this before you change the content of
    messages: a changed message no longer has its document's entry.
    """
    history = list(messages)
    found = called_tools(history)
    for start, message in enumerate(history):
        if (entry := verbatim.noted_entry(message, FORMAT)) is None:
            continue
        native, count = entry
        group = history[start : start + count]
        tools = _tools_in_entry(native.get("message", native))
        native_ids = verbatim.tool_ids(group, FORMAT)
        used = [use.id for each in group for use in each.tool_uses]
        used += [result.tool_use_id for each in group for result in each.tool_results]
        for call_id in used:
            tool = tools.get(native_ids.get(call_id, call_id))
            if tool is None or (call_id in found and found[call_id].name != tool.name):
                continue
            known = found.get(call_id)
            found[call_id] = CalledTool(tool.name, tool.namespace or (known.namespace if known else None))
    return found


def _tools_in_entry(raw: Any) -> dict[str, CalledTool]:
    """Return the tools in an entry, by its own ids; a call takes precedence over its result."""
    try:
        message = CmfMessage.model_validate(raw)
    except ValidationError:
        return {}
    tools: dict[str, CalledTool] = {}
    for part in message.content:
        inner = getattr(part, "content", None)
        if isinstance(inner, ToolCall):
            tools[inner.tool_call_id] = CalledTool(inner.name, inner.namespace)
        elif isinstance(inner, ToolResult) and inner.tool_name:
            tools.setdefault(inner.tool_call_id, CalledTool(inner.tool_name))
    return tools


def to_cmf(
    messages: Sequence[Message],
    *,
    extensions: Sequence[ExtensionsLike | None] | None = None,
    calls: Mapping[str, CalledTool] | None = None,
) -> Conversion[list[Fields]]:
    """Write a history as CMF.

    ``extensions`` has one item or None for each message. They are written in full, secret headers and claims
    included, so pass what the readers may see (`dragoman.policy.filter_extensions`). ``calls`` maps call ids to
    tools, for the namespaces; messages from a CMF document remember theirs.

    A loss of severity info is a field of a block that other readers will not see; a warning is a whole block.
    Raises ValueError if the number of extensions and messages differs.
    """
    history = as_history(messages)
    slots_by_message = [_as_slots(each) for each in extensions] if extensions is not None else [None] * len(history)
    if len(slots_by_message) != len(history):
        raise ValueError(
            f"there are {len(history)} messages but {len(slots_by_message)} extensions: pass one for each message"
        )
    losses = LossCollector(FORMAT)
    writer = _Writer(history, losses, {**called_tools_in_cmf(history), **(calls or {})})
    written: list[Fields] = []
    for index, count, native in verbatim.iter_entries(history, FORMAT):
        slots = slots_by_message[index]
        if native is None:
            written.append(writer.entry(history[index], slots))
        elif slots:
            labelled = add_labels(slots, labels_of_messages(history[index : index + count]))
            written.append({"message": native.get("message", native), "extensions": labelled})
        else:
            written.append(native)
    return Conversion(written, losses.report(history))


def from_cmf(document: Any) -> list[Message]:
    """Read the messages of a document, from its JSON text or from Python lists and dicts.

    A message with several tool results, or with results among other parts, becomes several. `to_cmf` restores
    extensions that are not part of the conversation, unless the message was changed; `read_cmf_extensions` reads them.
    Raises FormatError, with a path.
    """
    return [message for group, _ in _read(document) for message in group]


def read_cmf_extensions(document: Any) -> list[Fields | None]:
    """Return the extensions of each message of `from_cmf`, without this library's own note. Raises FormatError."""
    return [_policy_extensions(native) for group, native in _read(document) for _ in group]


def _as_slots(extensions: ExtensionsLike | None) -> Mapping[str, Any] | None:
    if isinstance(extensions, Extensions):
        slots: Fields = extensions.model_dump(mode="json", exclude_none=True)
        return slots
    if extensions is None or isinstance(extensions, Mapping):
        return extensions
    raise TypeError(f"pass extensions as Extensions or a dict for each message, not a {type(extensions).__name__}")


class _Writer:
    def __init__(
        self, history: Sequence[Message], losses: LossCollector, tools: Mapping[str, CalledTool] | None = None
    ) -> None:
        self._tools = called_tools(history) if tools is None else tools
        self._ids = verbatim.tool_ids(history, FORMAT)
        self._losses = losses

    def entry(self, message: Message, slots: Mapping[str, Any] | None) -> Fields:
        """Return a message with its extensions."""
        written = message_of(message.role, message.channel, message.content, self._tools)
        for part in written["content"]:
            if part["content_type"] in ("tool_call", "tool_result"):
                inner = part["content"]
                inner["tool_call_id"] = self._ids.get(inner["tool_call_id"], inner["tool_call_id"])
        fields = message.model_dump(mode="json", exclude_none=True, exclude={"content"})
        fields = {name: value for name, value in fields.items() if name not in KNOWN or value not in KNOWN[name]}
        fields["metadata"].pop("labels", None)  # they are in security.labels, where other programs may add to them
        fields["metadata"] = strip_note(fields["metadata"], FORMAT)
        note: Fields = {"of": digest(CmfMessage.model_validate(written)), "fields": fields}
        if (noted := self._note_blocks(message)) is not None:
            note["content"] = noted
        if not message.role.is_known:
            self._losses.add_info(message, -1, f"{describe_unknown_role(message)}, and kept in custom", LossKind.ROLE)
        return {"message": written, "extensions": write_extensions(message, note, slots)}

    def _note_blocks(self, message: Message) -> list[Fields] | None:
        """Return the notes on the blocks; None if each part reads back as its block, in order."""
        noted: list[Fields] = []
        parts = 0
        for index, block in enumerate(message.content):
            part, whole = part_of(block, self._tools), as_json(block)
            read = None if part is None else as_json(block_of(PART.validate_python(part), str, str))
            if read is None or not read.keys() <= whole.keys():
                noted.append({"more": whole})
            else:
                more = {name: value for name, value in whole.items() if name not in read or read[name] != value}
                noted.append({"part": parts, "more": more} if more else {"part": parts})
            parts += part is not None
            if "part" not in noted[-1]:
                self._losses.add(message, index, f"CMF has no form for this {block.type} block: kept only in custom")
            elif "more" in noted[-1]:
                what = ", ".join(sorted(noted[-1]["more"]))
                reason = f"CMF has no form for all of this {block.type} block ({what}): kept in custom"
                self._losses.add_info(message, index, reason)
            if isinstance(block, ToolResultBlock) and block.tool_use_id not in self._tools:
                self._losses.add_info(
                    message, index, "the result answers no call, so its tool has no name", LossKind.ORPHAN_RESULT
                )
        return noted if noted != [{"part": index} for index in range(len(message.content))] else None


def _read(document: Any) -> list[tuple[list[Message], Fields]]:
    """Return the messages of each entry, with the entry. Messages that would be written
    differently keep their entry.
    """

    def writer(history: list[Message], _: object) -> Callable[[Message], list[Fields]]:
        written = _Writer(history, LossCollector(FORMAT))
        return lambda message: [written.entry(message, None)]

    return verbatim.read_entries(document, FORMAT, "CMF", _entry, writer)


def _entry(native: Fields, path: str, ids: ToolIdReader) -> tuple[list[Message], dict[str, str]]:
    """Return the messages of an entry, and its own tool ids by ours."""
    raw, slots, at = native, Slots(), path
    if "message" in native or "extensions" in native:
        at = f"{path}.message"
        raw = native.get("message", {})
        if not isinstance(raw, dict):
            raise FormatError(f"a message of CMF must be an object, not {kind_of(raw)}", path=at)
        if unknown := native.keys() - {"message", "extensions", "hook"}:
            raise FormatError("only extensions can accompany a message", path=f"{path}.{min(unknown)}")
        native_extensions = native.get("extensions")
        with validating(native_extensions, f"{path}.extensions"):
            slots = Slots.model_validate(native_extensions or {})
    with validating(raw, at):
        message = CmfMessage.model_validate(raw)
    ids.start_turn(Role(message.role), has_results=any(part.content_type == "tool_result" for part in message.content))
    if (note := slots.note) is not None:
        restored = _restore(message, note, f"{path}.extensions.custom.{NOTE}")
        restored = with_message_labels(restored, slots.labels or frozenset())
        ids.reserve(restored.tool_uses)
        return [restored], {}
    with validating(native, path):
        blocks = [block_of(part, ids.call_id, ids.result_id) for part in message.content]
        fields = {**metadata_fields(slots, message.role), "channel": message.channel}
        return split_results(Role(message.role), blocks, fields), ids.pop_native_ids()


def _restore(message: CmfMessage, note: Note, path: str) -> Message:
    """Restore the message from its note. If it was changed since, its blocks are not restored."""
    fields = dict(note.fields)
    read = [as_json(block_of(part, str, str)) for part in message.content]
    same = note.of == digest(message)
    content = read
    if not same and isinstance(fields.get("metadata"), dict):
        fields["metadata"] = {name: value for name, value in fields["metadata"].items() if name != "provider_raw"}
    if same and note.content is not None:
        content = []
        for index, noted in enumerate(note.content):
            if noted.part is not None and noted.part >= len(read):
                raise FormatError(f"there is no part {noted.part}", path=f"{path}.content[{index}].part")
            content.append({**(read[noted.part] if noted.part is not None else {}), **noted.more})
    raw = {**fields, "role": message.role, "channel": message.channel, "content": content}
    if same:  # a note cannot change a word that other readers know
        raw |= {name: note.fields[name] for name in KNOWN.keys() & note.fields if note.fields[name] not in KNOWN[name]}
    with validating(raw, path):
        try:
            return read_message(raw)
        except ValueError as error:
            if isinstance(error, FormatError) or hasattr(error, "errors"):
                raise
            raise FormatError(str(error)[:200], path=path) from None


def _policy_extensions(native: Fields) -> Fields | None:
    native_extensions = native.get("extensions") if "message" in native else None
    if not isinstance(native_extensions, dict):
        return None
    custom = native_extensions.get("custom")
    if not isinstance(custom, dict) or NOTE not in custom:
        return native_extensions
    rest = {name: value for name, value in custom.items() if name != NOTE}
    return {name: slot for name, slot in native_extensions.items() if name != "custom"} | (
        {"custom": rest} if rest else {}
    )
