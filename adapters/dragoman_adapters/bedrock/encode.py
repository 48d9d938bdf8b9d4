"""Encodes the body of a Converse request (docs.aws.amazon.com/bedrock/latest/APIReference, Converse).

The notes of a message that was read from this wire, kept in provider_raw, are ``apart`` if it was not one with its
neighbour of the same role, ``ahead`` for the cache markers before its first block, and ``blocks`` for the notes of its
blocks. Besides ``set`` and ``drop``, which `apply_diff` applies, the note of a block may have ``inner`` for the
difference of the object under the block's only key, ``behind`` for the markers after it, and ``parts`` for the notes of
a result's parts. A tool has ``native`` if it is kept whole, or else ``residue`` for the difference of its specification
and ``outer`` for the fields beside that; and ``behind``.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.notes import own_notes
from dragoman.adapter.package_data import read_toml
from dragoman.adapter.requests.block_fields import BlockField
from dragoman.adapter.requests.request_builder import HAS_MARKER, RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    DocumentBlock,
    MediaBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.bedrock.body_formats import PROVIDER
from dragoman_adapters.bedrock.options import cache_point, encode_options

_DEFAULT_FORMATS = {"image": "png", "document": "pdf", "video": "mp4", "audio": "mp3"}

_DEFAULT_NAME = "document"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_MAX_NAME_LENGTH = 200
_ROOM_FOR_COUNT = 8

_UNSUPPORTED_FIELDS: tuple[BlockField, ...] = ("citations", "resolution", "inferred_types")
"""Fields of other providers' blocks that the wire does not support."""
_OPENING_TEXT = "Continue."
_DOCUMENT_TEXT = "Attached:"
_EMPTY_TEXT = "(empty)"
_NO_CACHE_POINT_AFTER = {"document", "video"}
"""Blocks that no marker may directly follow: the wire's names, and ours."""
_NEVER_MARKED = {*_NO_CACHE_POINT_AFTER, "thinking", "redacted_thinking"}
_ROLES = {role: role.value for role in Role} | {Role.TOOL: "user", Role.DEVELOPER: "system"}

Native = dict[str, Any]
Note = Mapping[str, Any]
ToolId = Callable[[str], str]
NameFactory = Callable[[str | None], str]


def media_types() -> Mapping[str, Mapping[str, str]]:
    """Return the media types by kind of block and format."""
    return read_toml("dragoman_adapters.bedrock", "media_types.toml")


def encode_media(content: MediaBlock, name: NameFactory, *, takes_text: bool) -> Native:
    """Encode a media block. ``name`` names documents; ``takes_text`` allows text as the source of a document."""
    kind = content.type
    source = content.source
    is_text = source.kind == "text"
    media_type = content.media_type or ("text/plain" if is_text else "")
    formats = {media: format_name for format_name, media in media_types()[kind].items()}
    encoded: Native = {"format": formats.get(media_type, _DEFAULT_FORMATS[kind])}
    if source.kind == "file_id":
        encoded["source"] = {"s3Location": {"uri": source.data}}
    elif is_text and takes_text:
        encoded["source"] = {"text": source.data}
    else:
        data = base64.b64encode(source.data.encode()).decode() if is_text else source.data
        encoded["source"] = {"bytes": data}
    if isinstance(content, DocumentBlock):
        encoded["name"] = name(content.title)
        if content.context is not None:
            encoded["context"] = content.context
        if content.citations is not None:
            encoded["citations"] = {"enabled": content.citations}
    return {kind: encoded}


class DocumentNames:
    """Names the documents of a request: with legal characters, and each new name only once."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def reserve(self, title: str | None) -> str:
        """Reserve the name that a document had before."""
        name = title or _DEFAULT_NAME
        self._used.add(name)
        return name

    def __call__(self, title: str | None) -> str:
        base = _NOT_IN_NAMES.sub(" ", title or "").strip()[:_MAX_NAME_LENGTH] or _DEFAULT_NAME
        name, count = base, 1
        while name in self._used:
            count += 1
            name = f"{base[: _MAX_NAME_LENGTH - _ROOM_FOR_COUNT].rstrip()} ({count})"  # two blanks in a row are refused
        self._used.add(name)
        return name


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> Native:
    """Encode the whole body, with keys in the provider's documented order.

    The history comes first: it notes the tools that it calls, which `_encode_tool_config` needs.
    """
    system, turns = request.split_instructions()
    encoded: Native = {"messages": request.encode_history(turns, partial(_encode_messages, request))}
    if system:
        names = DocumentNames()
        encoded["system"] = [native for turn in system for native in _encode_blocks(request, turn, names)]
    usable = request.fit_tools(tools)
    encoded |= encode_options(request, tools=bool(usable))
    config = _encode_tool_config(request, usable, encoded.pop("toolConfig", {}))
    if config:
        encoded["toolConfig"] = config
    if request.options.prompt_cache and request.target.capabilities.supports_prompt_caching:
        _add_cache_points(encoded, cache_point(request.options.prompt_cache))
    return encoded


def _encode_messages(request: RequestBuilder, turns: Sequence[Turn]) -> list[Native]:
    """Encode the messages. Roles alternate, so neighbours of one role share a message; the first is the user's."""
    encoded: list[Native] = []
    # Both hold for the whole request, of which these turns may be a part. The names of the tools are in order.
    names: DocumentNames = request.encoder_state.setdefault("names", DocumentNames())
    called_tools: dict[str, None] = request.encoder_state.setdefault("called", {})
    for turn in turns:
        role, raw = _ROLES[turn.role], turn.raw_in_role(PROVIDER)
        joins_message = encoded and encoded[-1]["role"] == role and not raw.get("apart")
        if not joins_message:
            encoded.append({"role": role, "content": []})
        content = encoded[-1]["content"]
        # Most turns are a plain text or simple, which leaves nothing to record: only others take the long way below.
        if (text := turn.plain_text(PROVIDER)) is not None:
            content.append({"text": text})
            continue
        for call in turn.blocks:
            if isinstance(call, ToolUseBlock):
                called_tools[call.name] = None
        if turn.is_simple(PROVIDER):  # without documents, so ``takes_text`` does not matter
            content += [encode_block(block, request.tool_id, names, takes_text=True) for block in turn.blocks]
            continue
        encoded[-1] |= request.message_fields(turn)
        blocks = list(_encode_blocks(request, turn, names))
        position = next((place for place, native in enumerate(blocks) if "document" in native), None)
        # Converse refuses a document whose message has no text. Later content of the message does not count, so that
        # the request stays the same when it is added. The provider's own messages go back unchanged.
        if position is not None and not (raw or any("text" in native for native in (*content, *blocks))):
            blocks.insert(position, {"text": _DOCUMENT_TEXT})
            index = next(index for index, block in enumerate(turn.blocks) if _is_document(block))
            reason = "a document wants a text beside it: one is put in front"
            request.record_block_loss(turn, index, LossKind.MEDIA, reason, Severity.INFO)
        content += blocks
    if request.at_list_start and encoded and encoded[0]["role"] == "assistant":
        request.record_loss(LossKind.ROLE, "the first message is not the user's: one is added before it", Severity.INFO)
        encoded.insert(0, {"role": "user", "content": [{"text": _OPENING_TEXT}]})
    return encoded


def _encode_blocks(request: RequestBuilder, turn: Turn, names: DocumentNames) -> Iterator[Native]:
    """Encode the blocks of a turn, with the markers around them."""
    if (text := turn.plain_text(PROVIDER)) is not None:
        yield {"text": text}
        return
    raw = turn.raw_in_role(PROVIDER)
    notes = raw.get("blocks", {})
    name = names.reserve if turn.raw(PROVIDER) else names  # a document of its own message keeps its name
    takes_text = request.target.capabilities.wire["document_text"]
    yield from raw.get("ahead", ())
    marked = _find_marked_blocks(request, turn) if turn.message.metadata.cache_breakpoints else ()
    unsupported: tuple[BlockField, ...] = ("arguments",) if raw else ("arguments", *_UNSUPPORTED_FIELDS)
    for index, (content, origin) in enumerate(turn.iter_blocks()):
        request.record_field_losses(turn, index, *unsupported)
        if _is_cited(content) and not raw:
            content = content.model_copy(update={"citations": ()})
        note = notes.get(str(origin), {})
        encoded = apply_note(encode_block(content, request.tool_id, name, note, takes_text=takes_text), note)
        if not turn.ordinary:
            _record_form_losses(request, turn, index, encoded)
        yield encoded
        yield from note.get("behind", ())
        if index in marked:
            yield cache_point(request.options.prompt_cache or "5m")


def _find_marked_blocks(request: RequestBuilder, turn: Turn) -> set[int]:
    """Return the indexes of the blocks up to which the prompt is to be cached."""
    if not request.target.marks_cache:
        return set()  # the projection has recorded the loss
    notes = turn.raw_in_role(PROVIDER).get("blocks", {})

    def problem(block: ContentBlock, origin: int) -> str | None:
        if notes.get(str(origin), {}).get("behind"):
            return HAS_MARKER
        return f"no marker follows a {block.type}" if block.type in _NEVER_MARKED else None

    return request.place_breakpoints(turn, (problem(block, origin) for block, origin in turn.iter_blocks()))


def _record_form_losses(request: RequestBuilder, turn: Turn, index: int, encoded: Native) -> None:
    """Record documents that are sent under another name or as bytes, and results that get a text."""

    def lose(kind: LossKind, reason: str) -> None:
        request.record_block_loss(turn, index, kind, reason, Severity.INFO)

    content = turn.blocks[index]
    sent, originals = [encoded], [content]
    if isinstance(content, ToolResultBlock):
        sent, originals = encoded["toolResult"]["content"], list(content.content)
        texts = [part.text for part in originals if isinstance(part, TextBlock)]
        if not originals or any(not text.strip() for text in texts):
            lose(LossKind.EMPTY_TEXT, "Converse takes no answer without words")
    documents = [part for part in originals if _is_document(part)]
    for native, document in zip((part["document"] for part in sent if "document" in part), documents, strict=True):
        if not isinstance(document, DocumentBlock):
            continue
        if native["name"] != document.title:
            lose(LossKind.MEDIA, f"a document goes by the name {native['name']!r}")
        if document.source.kind == "text" and "bytes" in native["source"]:
            lose(LossKind.FLATTENED, "a document of plain text is sent as bytes")


def _is_document(content: ContentBlock) -> bool:
    """Whether a block is a document on the wire, of a kind that the canonical form has or not."""
    return isinstance(content, DocumentBlock) or (isinstance(content, ProviderBlock) and "document" in content.data)


def apply_note(encoded: Native, note: Note) -> Native:
    """Apply the note of the provider's own block: ``inner`` to the object under its only key, the rest to the block."""
    if inner := note.get("inner"):
        encoded = {kind: apply_diff(value, inner) for kind, value in encoded.items()}
    return apply_diff(encoded, note)


def encode_block(
    content: ContentBlock, tool_id: ToolId, names: NameFactory, note: Note | None = None, *, takes_text: bool
) -> Native:
    """Encode one block. ``note`` holds the original layout of a tool's result."""
    match content:
        case TextBlock():
            cited = [citation.data for citation in content.citations if citation.data]
            if not cited:
                return {"text": content.text}
            return {"citationsContent": {"content": [{"text": content.text}], "citations": cited}}
        case ToolUseBlock():
            return {"toolUse": {"toolUseId": tool_id(content.id), "name": content.name, "input": content.input}}
        case ToolResultBlock():
            return _encode_tool_result(content, tool_id, names, note or {}, takes_text=takes_text)
        case ThinkingBlock():
            thought = {"text": content.text} | ({"signature": content.signature} if content.signature else {})
            return {"reasoningContent": {"reasoningText": thought}}
        case RedactedThinkingBlock():
            return {"reasoningContent": {"redactedContent": content.data}}
        case media if isinstance(media, MEDIA_BLOCKS):
            return encode_media(media, names, takes_text=takes_text)
        case ProviderBlock():
            return content.data
        case _:
            raise TypeError(f"the projection let a {content.type} block through")


def _is_cited(content: ContentBlock) -> bool:
    return isinstance(content, TextBlock) and bool(content.citations)


def _encode_tool_result(
    content: ToolResultBlock, tool_id: ToolId, names: NameFactory, note: Note, *, takes_text: bool
) -> Native:
    """Encode a tool result. Its texts cannot have citations here."""
    notes = note.get("parts", {})
    plain = (part.model_copy(update={"citations": ()}) if _is_cited(part) else part for part in content.content)
    parts = [
        apply_note(encode_block(part, tool_id, names, takes_text=takes_text), notes.get(str(index), {}))
        for index, part in enumerate(plain)
    ]
    kept = [part for part in parts if "text" not in part or part["text"].strip()]  # blank texts are refused
    encoded: Native = {"toolUseId": tool_id(content.tool_use_id), "content": kept or [{"text": _EMPTY_TEXT}]}
    if content.is_error:
        encoded["status"] = "error"
    return {"toolResult": encoded}


def encode_tool(definition: ToolDefinition) -> list[Native]:
    """Encode a tool with the markers after it; a server tool goes back unchanged."""
    own = own_notes(definition, PROVIDER)
    if "native" in own:
        return [dict(own["native"]), *own.get("behind", ())]
    spec: Native = {"name": definition.name}
    if definition.description:
        spec["description"] = definition.description
    spec["inputSchema"] = {"json": definition.input_schema}
    tool = apply_diff({"toolSpec": apply_diff(spec, own.get("residue"))}, own.get("outer"))
    return [tool, *own.get("behind", ())]


def _encode_tool_config(request: RequestBuilder, usable: Sequence[ToolDefinition], choice: Native) -> Native:
    """Encode the tools and the tool choice. A history with calls is refused without the tools that it calls."""
    called_tools: dict[str, None] = request.encoder_state.get("called", {})
    if request.options.tool_choice == "none" and usable:
        if not called_tools:
            return {}
        request.record_option_loss("tool_choice", "Converse cannot forbid calls where the history holds some")
    if usable:
        natives: list[Native] = []
        for definition in usable:
            tool, *markers = encode_tool(definition)
            natives += [request.finish_function(definition, tool), *markers]
        return {"tools": natives, **choice}
    if not called_tools:
        return {}
    reason = "no tools are offered, but the history calls some: they are named, or the request would be refused"
    request.record_loss(LossKind.TOOLS, reason, Severity.INFO)
    return {"tools": [native for name in called_tools for native in encode_tool(ToolDefinition(name=name))]}


def _add_cache_points(encoded: Native, marker: Native) -> None:
    """Request caching of the system prompt and of everything up to the last message."""
    if "system" in encoded and "cachePoint" not in encoded["system"][-1]:
        encoded["system"] = [*encoded["system"], marker]
    messages = encoded["messages"].new_items  # made for this request: what is cached is bytes
    content = messages[-1]["content"] if messages else []
    position = len(content)
    while position and content[position - 1].keys() & _NO_CACHE_POINT_AFTER:
        position -= 1
    if position and "cachePoint" not in content[position - 1]:
        content.insert(position, marker)
