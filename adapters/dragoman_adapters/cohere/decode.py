"""Decodes replies, and requests in Cohere's format (docs.cohere.com/reference/chat)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dragoman.adapter import wirejson
from dragoman.adapter.replies.drift import known_names
from dragoman.adapter.replies.reply_builder import ReplyBuilder, UsageReader
from dragoman.adapter.wire_diff import diff_objects
from dragoman.adapter.wirejson import lookup_path
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    text_block,
)
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.cohere import encode
from dragoman_adapters.cohere.encode import PROVIDER, Piece

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader

STOP_REASONS = {
    "COMPLETE": StopReason.END_TURN,
    "STOP_SEQUENCE": StopReason.STOP_SEQUENCE,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "TOOL_CALL": StopReason.TOOL_USE,
    "ERROR": StopReason.ERROR,
    "TIMEOUT": StopReason.ERROR,
    "ERROR_TOXIC": StopReason.REFUSAL,
    "ERROR_LIMIT": StopReason.CONTEXT_OVERFLOW,
    "USER_CANCEL": StopReason.CANCELLED,
}

_COVERED_REPLY_FIELDS = {"message", "usage"}
_PLAIN_FIELDS = {"type", "text"}
_COVERED_MESSAGE_FIELDS = {"role", "content", "tool_plan", "tool_calls", "citations"}


def decode_message(
    native: dict[str, Any],
    reply: ReplyBuilder,
    status: MessageStatus = MessageStatus.COMPLETE,
    *,
    pieces: Sequence[Piece] | None = None,
    cut: Collection[int] = (),
) -> Message:
    """Decode a whole reply, or the one that a stream has accumulated.

    A stream passes the pieces in order of arrival, and the positions of truncated calls.
    """
    native_message = native["message"]
    if pieces is None:
        pieces = split_message(native_message)
    finish = native.get("finish_reason")
    # The limit may cut the last call before its arguments; other cuts show in parsing.
    last_field, last = pieces[-1] if pieces else ("", None)
    if finish == "MAX_TOKENS" and last_field == "tool_calls" and not lookup_path(last, "function.arguments"):
        cut = {*cut, len(pieces) - 1}
    content, notes = _decode_blocks(pieces, reply.call_id, cut)
    content, unattached = _attach_citations(content, pieces, native_message.get("citations"))
    raw: dict[str, Any] = {key: value for key, value in native.items() if key not in _COVERED_REPLY_FIELDS}
    raw |= {"blocks": notes, "list": isinstance(native_message.get("content"), list), "citations": unattached}
    extra = {key: value for key, value in native_message.items() if key not in _COVERED_MESSAGE_FIELDS}
    if extra:
        raw["residue"] = {"set": extra}
        reply.note_drift("field", [f"message.{name}" for name in extra])
    known = known_names("dragoman_adapters.cohere")
    reply.note_unknown("field", native.keys(), known.reply)
    if finish is not None and finish not in STOP_REASONS:
        reply.note_drift("stop_reason", [finish])
    stop_reason = None if finish is None else STOP_REASONS.get(finish, StopReason.END_TURN)
    if stop_reason is StopReason.END_TURN and any(isinstance(block, ToolUseBlock) for block in content):
        stop_reason = StopReason.TOOL_USE
    return reply.build(
        content,
        model=None,
        stop_reason=stop_reason,
        usage=decode_usage(native.get("usage")),
        raw={key: value for key, value in raw.items() if value not in (None, {}, [], False)},
        status=status,
        known=known,
    )


def decode_usage(native: Any) -> TokenUsage | None:
    """Decode the usage: the billed units, or the tokens if there are no units.

    The tokens include Cohere's own prompt around ours, which is not billed. Tokens from a cache cost as much as others.
    ``raw`` keeps both numbers. genai-prices bills by the units as well.
    """
    if (count := UsageReader.of(native)) is None:
        return None
    units, tokens = (f"{group}.input_tokens" for group in ("billed_units", "tokens"))
    searches = count("billed_units.search_units")
    known: dict[str, Any] = {
        "reasoning_tokens": count.optional("tokens.reasoning_tokens"),
        "image_input_tokens": count.optional("tokens.image_tokens"),
        "server_tools": {"search": searches} if searches else {},
    }
    if (prompt := count.optional(units)) is not None:
        output, cached = count("billed_units.output_tokens"), 0
    elif (prompt := count.optional(tokens)) is not None:
        output, cached = count("tokens.output_tokens"), count("cached_tokens")
    else:
        return None
    return count.usage(
        input_tokens=count.uncached(prompt, cached),
        cached_input_tokens=cached,
        output_tokens=output,
        **known,
    )


def split_message(native: Mapping[str, Any]) -> list[Piece]:
    """Split a message into pieces: its content, the plan of its calls, the calls. Empty texts are dropped."""
    content = native.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    parts = list(content or ())
    if all(part == {"type": "text", "text": ""} for part in parts):
        parts = []
    pieces: list[Piece] = [("content", part) for part in parts]
    if plan := native.get("tool_plan"):
        pieces.append(("tool_plan", plan))
    return pieces + [("tool_calls", call) for call in native.get("tool_calls") or ()]


def _decode_blocks(
    pieces: Sequence[Piece], call_id: Callable[[int, str | None], str], cut: Collection[int] = ()
) -> tuple[list[ContentBlock], dict[str, Any]]:
    """Decode the pieces to blocks, and note by position what our encoder would not write."""
    content: list[ContentBlock] = []
    notes: dict[str, Any] = {}
    for position, (field, value) in enumerate(pieces):
        native_id = value.get("id") if field == "tool_calls" else None
        tool_use_id = call_id(position, native_id) if field == "tool_calls" else ""
        if field == "content" and type(value) is dict and value.keys() == _PLAIN_FIELDS and value["type"] == "text":
            content.append(text_block(value["text"]))  # as below: a plain text leaves nothing to note
            continue
        block = _decode_block(field, value, tool_use_id, cut=position in cut)
        note: dict[str, Any] = {} if field == "content" or isinstance(block, ToolUseBlock) else {"field": field}
        _, ours = encode.encode_block(block, lambda _, native_id=native_id: native_id or "", note)  # type: ignore[misc]
        if isinstance(value, dict):
            note |= diff_objects(value, ours) or {}
        content.append(block)
        if note:
            notes[str(position)] = note
    return content, notes


def _decode_block(field: str, value: Any, tool_use_id: str, *, cut: bool = False) -> ContentBlock:
    """Decode a piece; unknown pieces are kept whole."""
    if field == "tool_plan":
        return ThinkingBlock(text=value)
    if field == "tool_calls" and isinstance(function := value.get("function"), dict):
        text = function.get("arguments") or ""
        arguments, raw_input = ({}, text) if cut else wirejson.parse_arguments(text)
        return ToolUseBlock(id=tool_use_id, name=function["name"], input=arguments, raw_input=raw_input)
    if field == "tool_calls":
        return ProviderBlock(provider=PROVIDER, kind=value["type"], data=value)
    match value["type"]:
        case "text":
            return text_block(value["text"])
        case "thinking":
            return ThinkingBlock(text=value["thinking"])
        case "image_url":
            image = value["image_url"]
            image = {"url": image} if isinstance(image, str) else image
            source, media_type = MediaSource(kind="url", data=image["url"]), None
            head, comma, data = image["url"].partition(",")
            if comma and head.startswith("data:") and head.endswith(";base64"):
                source, media_type = MediaSource(kind="base64", data=data), head[5:-7] or None
            return ImageBlock(source=source, media_type=media_type, detail=image.get("detail"))
        case "document":
            data = value["document"]["data"]
            return text_block(data if isinstance(data, str) else wirejson.dumps_text(data))
        case kind:
            return ProviderBlock(provider=PROVIDER, kind=kind, data=value)


def _attach_citations(
    content: list[ContentBlock], pieces: Sequence[Piece], citations: Sequence[dict[str, Any]] | None
) -> tuple[list[ContentBlock], list[dict[str, Any]]]:
    """Attach the sources of a message to its texts: to the part that they name, or to the first text. The sources of a
    plan or of thinking have no place in the canonical form, so they are returned.
    """
    parts = [position for position, (field, _) in enumerate(pieces) if field == "content"]
    texts = [position for position in parts if isinstance(content[position], TextBlock)]
    unattached: list[dict[str, Any]] = []
    citations_by_text: dict[int, list[Citation]] = {}
    for native in citations or ():
        index = native.get("content_index")
        text_position = parts[index] if index is not None and 0 <= index < len(parts) else next(iter(texts), -1)
        if native.get("type", "TEXT_CONTENT") == "TEXT_CONTENT" and text_position in texts:
            citations_by_text.setdefault(text_position, []).append(_decode_citation(native))
        else:
            unattached.append(native)
    for text_position, text_citations in citations_by_text.items():
        content[text_position] = content[text_position].model_copy(update={"citations": tuple(text_citations)})
    return content, unattached


def _decode_citation(native: dict[str, Any]) -> Citation:
    """Decode a citation. ``start`` and ``end`` count characters; the first source has title, address and quotation."""
    first: dict[str, Any] = next(iter(native.get("sources") or ()), {})
    source = first.get("document") or first.get("tool_output") or {}
    texts = {name: value for name, value in source.items() if isinstance(value, str)}
    return Citation(
        kind=native.get("type") or "TEXT_CONTENT",
        title=texts.get("title"),
        url=texts.get("url"),
        cited_text=texts.get("text"),
        start=native.get("start"),
        end=native.get("end"),
        data=native,
    )


def decode_history(native: dict[str, Any], reader: "HistoryReader") -> tuple[str, ...]:
    """Add the messages of a request. Returns the names of the fields that they cover."""
    for item in native["messages"]:
        role = Role(item["role"])
        if role is Role.TOOL:
            _add_tool_result(reader, item)
            continue
        pieces = split_message(item)
        content, notes = _decode_blocks(pieces, lambda _, native_id: reader.call_id(native_id))
        content, unattached = _attach_citations(content, pieces, item.get("citations"))
        raw: dict[str, Any] = {"list": True} if isinstance(item.get("content"), list) else {}
        raw |= {name: value for name, value in (("blocks", notes), ("citations", unattached)) if value}
        covered = {"role", *(field for field, _ in pieces), *(("citations",) if item.get("citations") else ())}
        ours = encode.encode_message(item["role"], [], raw)
        extra = diff_objects(_uncovered_fields(item, covered), _uncovered_fields(ours, covered))
        reader.add(role, content, {**raw, **({"residue": extra} if extra else {})})
    return "model", "messages"


def _uncovered_fields(fields: Mapping[str, Any], covered: Collection[str]) -> dict[str, Any]:
    return {field: value for field, value in fields.items() if field not in covered}


def _add_tool_result(reader: "HistoryReader", native: dict[str, Any]) -> None:
    pieces = split_message({"content": native.get("content")})
    content, notes = _decode_blocks(pieces, lambda *_: "")
    answer = ToolResultBlock(tool_use_id=reader.result_id(native.get("tool_call_id")), content=tuple(content))
    note: dict[str, Any] = {"list": True} if isinstance(native.get("content"), list) else {}
    if notes:
        note["parts"] = notes
    ours = encode.encode_tool_result(answer, lambda _: native.get("tool_call_id", ""), note)
    covered = {"content"} if pieces else set()
    note |= diff_objects(_uncovered_fields(native, covered), _uncovered_fields(ours, covered)) or {}
    reader.add(Role.TOOL, (answer,), {"blocks": {"0": note}} if note else {})


def decode_tools(native: dict[str, Any], provider: str) -> list[ToolDefinition]:
    """Decode the tools of a request. One that is not a function is kept whole, under its type."""
    found: list[ToolDefinition] = []
    for item in native.get("tools") or ():
        function = item.get("function")
        if not isinstance(function, dict):
            found.append(ToolDefinition(name=item["type"], provider_raw={"by": provider, "native": item}))
            continue
        schema = function.get("parameters")
        schema_field = {"input_schema": schema} if isinstance(schema, dict) else {}
        definition = ToolDefinition(
            name=function["name"], description=function.get("description") or "", **schema_field
        )
        ours = encode.encode_tool(definition, provider)
        raw = {"function": diff_objects(function, ours["function"])}
        raw["residue"] = diff_objects({**item, "function": ours["function"]}, ours)
        if any(raw.values()):
            definition = definition.model_copy(update={"provider_raw": {"by": provider, **raw}})
        found.append(definition)
    return found
