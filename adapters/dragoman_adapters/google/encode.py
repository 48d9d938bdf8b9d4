"""Encodes the body of a generateContent request (docs/reference/wires/google.md)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.notes import own_notes
from dragoman.adapter.requests.block_fields import ACTIONS_NOTE, BlockField
from dragoman.adapter.requests.call_translators import ActionCalls, restore_action
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import SYNTHETIC, Turn
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.google import encode_blocks
from dragoman_adapters.google.encode_blocks import Note, apply_note
from dragoman_adapters.google.options import encode_options
from dragoman_adapters.google.values.spelling import camel_case_name

CONTINUE_TEXT = "Continue."
_UNSUPPORTED_RESULT_FIELDS: tuple[BlockField, ...] = ("resolution", "title", "note", "order")
_RESOLUTIONS = ("low", "medium", "high", "ultra_high")
UNSUPPORTED_FIELDS: tuple[BlockField, ...] = ("citations", "inferred_types", "text_boundaries", "text_documents")
"""Fields of other providers' blocks that the wire does not support."""

CapabilitiesOf = Callable[[str], AdapterCapabilities]
"""Returns the capabilities of a model of the same provider."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call as its result must name it. ``id`` is None if its issuer gave it none."""

    name: str
    id: str | None
    position: int
    action: ToolUseBlock | None = None
    """The provider's own call, if it is an action on a computer."""


@dataclass(slots=True)
class _Content:
    role: str
    native_parts: list[dict[str, Any]] = field(default_factory=list)
    note: Note = field(default_factory=dict)
    deferred: list[dict[str, Any]] = field(default_factory=list)
    """Media of tool results that a result cannot hold on this wire."""
    answers: list[tuple[int, _Call]] = field(default_factory=list)
    """The parts that answer calls without an id: their order tells which call each one answers."""

    def flush_deferred(self) -> None:
        """Add the deferred media. All results of the step are there, and other content follows."""
        self.native_parts += self.deferred
        self.deferred.clear()

    def to_native(self) -> dict[str, Any]:
        self.flush_deferred()
        # Results for calls of the same name go in the order of their calls.
        for name in {call.name for _, call in self.answers}:
            same = [(index, call) for index, call in self.answers if call.name == name]
            ordered = [self.native_parts[index] for index, _ in sorted(same, key=lambda each: each[1].position)]
            for (index, _), part in zip(same, ordered, strict=True):
                self.native_parts[index] = part
        if not self.note:
            return {"role": self.role, "parts": self.native_parts}
        order = self.note.get("order", ())
        ordered_parts = self.native_parts
        if len(order) == len(self.native_parts):
            ordered_parts = [{}] * len(order)
            for position, part in zip(order, self.native_parts, strict=True):
                ordered_parts[position] = part
        found = apply_diff({"role": self.role, "parts": ordered_parts}, self.note.get("content"))
        if self.note.get("single") and len(self.native_parts) == 1:
            found["parts"] = self.native_parts[0]
        return found


class _ContentsEncoder:
    """Encodes turns as contents."""

    def __init__(self, request: RequestBuilder, capabilities_of: CapabilitiesOf) -> None:
        self._capabilities_of = capabilities_of
        self._request = request
        self._facts = request.target.capabilities.wire
        self._contents: list[_Content] = []
        self._calls: dict[str, _Call] = {}

    def encode(self, turns: Sequence[Turn]) -> list[dict[str, Any]]:
        """Return the contents, with a user's turn at the start if the wire needs one."""
        for turn in turns:
            self._add(turn)
        self._fill_empty()
        # A content that was read without parts goes back without parts; an empty reply is not repeated.
        sent = [content for content in self._contents if content.native_parts or "joined" in content.note]
        if self._request.at_list_start and (not sent or sent[0].role == "model"):
            reason = "a conversation begins with the user: a user's turn is added in front"
            self._request.record_loss(LossKind.ROLE, reason, Severity.INFO)
            sent.insert(0, _Content("user", [{"text": CONTINUE_TEXT}]))
        return [content.to_native() for content in sent]

    def _add(self, turn: Turn) -> None:
        """Add a turn, in a new content or at the end of the last one if that has the same role."""
        role = "model" if turn.role is Role.ASSISTANT else "user"
        if text := turn.plain_text(self._request.provider):
            content = self._content(role, {})
            if content.deferred:
                content.flush_deferred()
            content.native_parts.append({"text": text})
            return
        turn_note = turn_notes(turn, self._request.provider)
        content = self._content(role, turn_note)
        if turn.role is Role.TOOL:
            self._encode_tool_results(turn, content, turn_note)
            return
        content.flush_deferred()
        if turn.role is Role.ASSISTANT:
            content.native_parts += self._encode_assistant(turn, turn_note)
        else:
            content.native_parts += encode_parts(self._request, turn)

    def _content(self, role: str, turn_note: Note) -> _Content:
        last = self._contents[-1] if self._contents else None
        joins = turn_note.get("joined", True) if turn_note else True
        if last is not None and last.role == role and joins:
            return last
        self._fill_empty()
        self._contents.append(_Content(role, note=turn_note))
        return self._contents[-1]

    def _fill_empty(self) -> None:
        """Put a text into an empty content of the user, which the provider would refuse."""
        last = self._contents[-1] if self._contents else None
        if last is not None and last.role == "user" and not last.native_parts and "joined" not in last.note:
            reason = "the user's message is empty: a word is put in its place"
            self._request.record_loss(LossKind.EMPTY_MESSAGE, reason, Severity.INFO)
            last.native_parts.append({"text": CONTINUE_TEXT})

    def _encode_assistant(self, turn: Turn, turn_note: Note) -> list[dict[str, Any]]:
        """Encode an assistant's turn, and remember its calls for their results."""
        found: list[dict[str, Any]] = []
        is_simple = turn.is_simple(self._request.provider)
        unsigned = bool(self._facts["signature"])
        issuer, _, model = (turn.message.metadata.model or "").partition(":")
        if unsigned and turn_note and issuer == self._request.provider:
            # What a model of this provider has written has what needs a signature, if the model signs its calls.
            unsigned = not self._capabilities_of(model).wire["signature"]
        for index, block in enumerate(turn.blocks):
            if isinstance(block, ToolUseBlock):
                is_action = block.id in turn_note.get(ACTIONS_NOTE, ())
                block = restore_action(block) if is_action else block
                call = _Call(
                    block.name, self._wire_id(turn, index, turn_note), len(self._calls), block if is_action else None
                )
                self._calls[block.id] = call
                self._request.record_field_losses(turn, index, "arguments")
                encoded = encode_blocks.encode_block(block, call.id)
                if turn_note:
                    encoded = encode_blocks.apply_note(encoded, _block_note(turn_note, turn, index))
                if unsigned and "thoughtSignature" not in encoded and "thought_signature" not in encoded:
                    encoded["thoughtSignature"] = self._facts["signature"]
                    reason = (
                        f"{self._request.target.model} wants a signature on the call: its own word for none is sent"
                    )
                    self._request.record_block_loss(turn, index, LossKind.THINKING, reason, Severity.INFO)
                unsigned = False  # one signature for each step is enough
                found.append(encoded)
            elif is_simple:
                found.append(encode_blocks.encode_block(block))
            else:
                found += _encode_parts(self._request, turn, index, turn_note)
        return found

    def _wire_id(self, turn: Turn, index: int, turn_note: Note) -> str | None:
        """Return the id of a call on the wire; None if this provider issued the call without one."""
        block, origin = turn.blocks[index], turn.origins[index]
        assert isinstance(block, ToolUseBlock)
        if turn_note:
            canonical = turn.message.content[origin] if origin != SYNTHETIC else block
            if isinstance(canonical, ToolUseBlock) and canonical.id not in turn_note.get("tool_ids", {}):
                return None
        return self._request.tool_id(block.id)

    def _encode_tool_results(self, turn: Turn, content: _Content, turn_note: Note) -> None:
        for index, block in enumerate(turn.blocks):
            if not isinstance(block, ToolResultBlock):
                content.native_parts += _encode_parts(self._request, turn, index, turn_note)
                continue
            note = _block_note(turn_note, turn, index)
            call = self._calls.get(block.tool_use_id) or _Call(note.get("name", "unknown"), None, len(self._calls))
            if not note:
                self._request.record_field_losses(turn, index, *UNSUPPORTED_FIELDS, *_UNSUPPORTED_RESULT_FIELDS)
                if call.action is None and not turn.portable:
                    block = self._split_result_media(turn, index, block, content)
            if call.id is None:
                if any(other.name == call.name and other.position > call.position for _, other in content.answers):
                    self._record_loss(turn, index, "answers to calls of one name go in the order of the calls")
                content.answers.append((len(content.native_parts), call))
            encoded = encode_blocks.encode_tool_result(block, call.name, call.id, call.action)
            content.native_parts.append(encode_blocks.apply_note(encoded, note) if note else encoded)

    def _split_result_media(self, turn: Turn, index: int, block: ToolResultBlock, content: _Content) -> ToolResultBlock:
        """Return the result with plain-text documents as text, and without media that results cannot hold.

        Such media follows all results of its step.
        """
        kept_blocks: list[ContentBlock] = []
        for each in block.content:
            if isinstance(each, DocumentBlock) and each.source.kind == "text":
                kept_blocks.append(TextBlock(text=each.source.data))
                continue
            if isinstance(each, MEDIA_BLOCKS):
                encoded = encode_blocks.encode_media(each)
                data: dict[str, Any] = encoded.get("inlineData") or encoded["fileData"]
                if data.get("mimeType") not in self._facts["result_media"]:
                    content.deferred.append(encoded)
                    self._record_loss(turn, index, f"the tool's {each.type} follows its answer")
                    continue
            kept_blocks.append(each)
        return (
            block if tuple(kept_blocks) == block.content else block.model_copy(update={"content": tuple(kept_blocks)})
        )

    def _record_loss(self, turn: Turn, index: int, reason: str) -> None:
        self._request.record_block_loss(turn, index, LossKind.FLATTENED, reason, Severity.INFO)


def turn_notes(turn: Turn, provider: str) -> Note:
    """Return the adapter's notes on the turn's message.

    Empty for a synthetic turn, and for one with another role than its message: the notes are not about it.
    """
    notes = turn.raw(provider)
    if not notes or turn.role is not turn.message.role:
        return {}
    is_synthetic = bool(turn.blocks) and all(origin == SYNTHETIC for origin in turn.origins)
    return {} if is_synthetic else notes


def encode_parts(request: RequestBuilder, turn: Turn) -> Iterator[dict[str, Any]]:
    """Encode a turn without calls and results."""
    turn_note = turn_notes(turn, request.provider)
    for index in range(len(turn.blocks)):
        yield from _encode_parts(request, turn, index, turn_note)


def _encode_parts(request: RequestBuilder, turn: Turn, index: int, turn_note: Note) -> Iterator[dict[str, Any]]:
    """Encode a block: several parts for a text that arrived so, or if `split_document` splits it."""
    block = turn.blocks[index]
    if turn_note:
        request.record_field_losses(turn, index, "citations")
        note = _block_note(turn_note, turn, index)
        part = encode_blocks.apply_note(encode_blocks.encode_block(block), note)
        yield from encode_blocks.cut_text(part, note[encode_blocks.CUTS]) if encode_blocks.CUTS in note else (part,)
        return
    detail = block.detail if isinstance(block, ImageBlock) else None
    takes_detail = detail in _RESOLUTIONS and request.target.capabilities.wire["media_resolution"]
    resolution = detail if takes_detail else None
    request.record_field_losses(turn, index, *UNSUPPORTED_FIELDS, *(() if resolution else ("resolution",)))
    for each in split_document(request, turn, index):
        encoded = encode_blocks.encode_block(each)
        if resolution:
            encoded["mediaResolution"] = {"level": f"MEDIA_RESOLUTION_{resolution.upper()}"}
        yield encoded


def split_document(request: RequestBuilder, turn: Turn, index: int) -> Iterator[ContentBlock]:
    """Yield the blocks to send for a block of another provider, which is nearly always itself: a text with the title in
    front of a document, and a text in place of one that is a plain text. An empty text is left out."""
    block = turn.blocks[index]
    if isinstance(block, TextBlock) and not block.text:
        request.record_block_loss(turn, index, LossKind.EMPTY_TEXT, "an empty text is not sent", Severity.INFO)
        return
    if isinstance(block, DocumentBlock):
        if text := "\n".join(filter(None, (block.title, block.context))):
            reason = "title and note go in front as text"
            request.record_block_loss(turn, index, LossKind.FLATTENED, reason, Severity.INFO)
            yield TextBlock(text=text)
        if block.source.kind == "text":
            block = TextBlock(text=block.source.data)
    yield block


def _block_note(turn_note: Note, turn: Turn, index: int) -> Note:
    origin = turn.origins[index]
    note: Mapping[str, Any] = turn_note.get("blocks", {}).get(str(origin), {}) if origin != SYNTHETIC else {}
    return note


DECLARATIONS_FIELD = "functionDeclarations"


def encode_body(
    request: RequestBuilder, definitions: Sequence[ToolDefinition], capabilities_of: CapabilitiesOf
) -> dict[str, Any]:
    """Encode the whole body. The path holds the model and says whether to stream."""
    system, turns = request.split_instructions()
    encoded: dict[str, Any] = _encode_system(request, system)
    encoded["contents"] = request.encode_history(
        turns, lambda stretch: _ContentsEncoder(request, capabilities_of).encode(stretch)
    )
    if usable := request.fit_tools(definitions):
        encoded["tools"] = encode_tools(usable, request.provider)
        by_name = {definition.name: definition for definition in usable if definition.extra}
        for entry in encoded["tools"] if by_name else ():
            for function in entry.get(DECLARATIONS_FIELD, ()):
                if (definition := by_name.get(function.get("name"))) is not None:
                    function |= request.finish_function(definition, function)
        if (computer := request.context.native_calls.get("functionCall")) is not None:
            names = {tool.name for tool in usable if "native" not in (tool.provider_raw or {})}
            request.context.action_calls = ActionCalls(computer, names)
    return encoded | encode_options(request, tools=bool(usable))


def _encode_system(request: RequestBuilder, turns: Sequence[Turn]) -> dict[str, Any]:
    """Encode the instructions as one content, whose role is optional."""
    if not turns:
        return {}
    if len(turns) == 1 and (text := turns[0].plain_text(request.provider)) is not None:
        return {"systemInstruction": {"parts": [{"text": text}]}}  # as most system prompts are
    notes = turns[0].raw(request.provider)
    parts = [encoded for turn in turns for encoded in encode_parts(request, turn)]
    if not parts and not notes:
        return {}
    content: Any = apply_diff({"parts": parts}, notes.get("content"))
    if notes.get("single") and len(parts) == 1:
        content["parts"] = parts[0]
    if notes.get("string") and len(parts) == 1:
        content = parts[0]["text"]
    return {notes.get("named", "systemInstruction"): content}


def encode_tools(definitions: Sequence[ToolDefinition], provider: str) -> list[dict[str, Any]]:
    """Encode the tools. Functions share one entry; entries of a decoded request stay as they were, server tools
    included.
    """
    entries: list[dict[str, Any]] = []
    notes: list[Note] = []
    for definition in definitions:
        own = own_notes(definition, provider)
        native = own.get("native")
        joins = (
            own["joined"] if "joined" in own else bool(native is None and entries and DECLARATIONS_FIELD in entries[-1])
        )
        if not joins or not entries:
            entries.append({})
            notes.append(own.get("entry", {}))
        if native is not None:
            entries[-1] |= native
        else:
            entries[-1].setdefault(DECLARATIONS_FIELD, []).append(encode_function(definition, own))
    return [apply_note(entry, note) for entry, note in zip(entries, notes, strict=True)]


def encode_function(definition: ToolDefinition, own: Note) -> dict[str, Any]:
    """Encode a function with its parameters as JSON Schema."""
    encoded: dict[str, Any] = {"name": definition.name}
    if definition.description:
        encoded["description"] = definition.description
    encoded["parametersJsonSchema"] = definition.input_schema
    spelling = {camel_case_name(name): name for name in own.get("spelling", ())}
    return apply_diff({spelling.get(key, key): value for key, value in encoded.items()}, own.get("residue"))
