"""Decodes replies, and requests in the format of Chat Completions (docs/reference/wires/openai-chat.md)."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from dragoman.adapter.replies.drift import known_names
from dragoman.adapter.replies.reply_builder import ReplyBuilder, ReplyCounts, UsageReader
from dragoman.adapter.wire_diff import diff_objects
from dragoman.adapter.wirejson import lookup_path
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    replace_fields,
    text_block,
)
from dragoman.canonical.guard import copy_json
from dragoman.canonical.message import Alternative, Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import CustomTool, ToolDefinition
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.openai_chat import decode_blocks, encode, thinking_details
from dragoman_adapters.openai_chat.dialect import Dialect, first_filled
from dragoman_adapters.openai_chat.encode import Piece

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader

STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "model_length": StopReason.CONTEXT_OVERFLOW,
    "model_context_window_exceeded": StopReason.CONTEXT_OVERFLOW,
    "sensitive": StopReason.REFUSAL,
    "error": StopReason.ERROR,
    "insufficient_system_resource": StopReason.ERROR,
    "network_error": StopReason.ERROR,
}

_COVERED_REPLY_FIELDS = {"model", "choices", "usage", "object"}
_COVERED_CHOICE_FIELDS = {"index", "message", "delta"}
_COVERED_MESSAGE_FIELDS = frozenset({
    "role", "content", "refusal", "audio", "tool_calls", "function_call", "annotations", thinking_details.DETAILS_FIELD,
})  # fmt: skip
_PLAIN_FIELDS = {"role", "content"}
_RESULT_FIELDS = {"role", "tool_call_id", "content"}

DiffFunction = Callable[[Piece, Piece], dict[str, Any]]


def decode_message(
    native: dict[str, Any],
    reply: ReplyBuilder,
    dialect: Dialect,
    status: MessageStatus = MessageStatus.COMPLETE,
    *,
    pieces: Sequence[Piece] | None = None,
    cut: Collection[int] = (),
) -> Message:
    """Decode a whole reply, or the one that a stream has accumulated. The first choice becomes the message, the
    others are its alternatives.

    A stream passes the pieces in order of arrival, and the positions of truncated calls.
    """
    choice = first_choice(native)
    native_message = _native_message(choice)
    finish = choice.get("finish_reason")
    sources = lookup_path(native, dialect.source_list) if dialect.source_list else None
    content, notes, stop_reason = _decode_choice(choice, reply.call_id, reply, dialect, pieces, cut, sources or ())
    raw: dict[str, Any] = {
        "reply": _uncovered_values(native, _COVERED_REPLY_FIELDS),
        "choice": _uncovered_values(choice, _COVERED_CHOICE_FIELDS),
        "choices": [other for other in native["choices"] if other is not choice],
        "message": _uncovered_values(native_message, _covered_message_fields(dialect, native_message)),
        "blocks": notes,
        "list": isinstance(native_message.get("content"), list),
    }
    if finish and finish not in STOP_REASONS:
        reply.note_drift("stop_reason", [finish])
    alternatives: list[Alternative] = []
    for other in sorted(raw["choices"], key=lambda each: each.get("index") or 0):

        def call_id(position: int, native_id: str | None, index: object = other.get("index")) -> str:
            return reply.call_id((index, position), native_id)

        answer, _, reason = _decode_choice(other, call_id, reply, dialect)
        alternatives.append(Alternative(content=tuple(answer), stop_reason=reason))
    return reply.build(
        content,
        model=native.get("model") or None,
        stop_reason=stop_reason,
        usage=decode_usage(native, dialect),
        raw={key: value for key, value in raw.items() if value},
        status=status,
        alternatives=alternatives,
        known=known_names("dragoman_adapters.openai_chat"),
    )


def decode_counts(native: dict[str, Any], dialect: Dialect) -> ReplyCounts:
    """Decode the counts of a whole reply. Raises as `decode_message` does if it is not a reply."""
    dict(_native_message(first_choice(native)))
    return ReplyCounts(native.get("model") or None, decode_usage(native, dialect))


def _decode_choice(
    choice: Mapping[str, Any],
    call_id: Callable[[int, str | None], str],
    reply: ReplyBuilder,
    dialect: Dialect,
    pieces: Sequence[Piece] | None = None,
    cut: Collection[int] = (),
    sources: Iterable[Any] = (),
) -> tuple[list[ContentBlock], dict[str, Any], StopReason]:
    """Return the blocks of a choice, the notes on them, and its stop reason."""
    native, finish = _native_message(choice), choice.get("finish_reason")
    if pieces is None:
        pieces = decode_blocks.split_message(native, dialect)
    cut = {*cut, *truncated_calls(pieces, finish)}
    content, notes = _decode_blocks(pieces, call_id, reply.provider, dialect, decode_blocks.diff_reply_piece, cut)
    content = _attach_citations(content, [*(native.get("annotations") or ()), *sources])
    reason = STOP_REASONS.get(finish or "stop", StopReason.END_TURN)
    # Many servers say "stop", or nothing, for calls and refusals as well, so the blocks decide.
    if reason is StopReason.END_TURN and any(isinstance(block, ToolUseBlock) for block in content):
        reason = StopReason.TOOL_USE
    elif reason is StopReason.END_TURN and any(field == "refusal" for field, _ in pieces):
        reason = StopReason.REFUSAL
    return content, notes, reason


def first_choice(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choice with index 0, or without index."""
    choices: list[dict[str, Any]] = native["choices"]
    first = choices[0]
    return next((choice for choice in choices if not choice.get("index")), first) if first.get("index") else first


def _native_message(choice: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message of a choice. Azure's filter may leave none."""
    is_filtered = choice.get("message") is None and choice.get("finish_reason") == "content_filter"
    message: dict[str, Any] = {} if is_filtered else choice["message"]
    return message


def truncated_calls(pieces: Sequence[Piece], finish: str | None) -> list[int]:
    """Return the position of a last call that the limit cut before its arguments; other cuts show in parsing."""
    if finish != "length" or not pieces or not decode_blocks.is_call(pieces[-1]):
        return []
    field, value = pieces[-1]
    function = value if field == "function_call" else value.get("function")
    return [len(pieces) - 1] if isinstance(function, dict) and not function.get("arguments") else []


def _covered_message_fields(dialect: Dialect, native: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields of a message that its blocks hold."""
    fields = _COVERED_MESSAGE_FIELDS.union(dialect.reasoning_fields)
    has_images = encode.IMAGES_FIELD in native and decode_blocks.generated_images(native)
    return fields | {encode.IMAGES_FIELD} if has_images else fields


def _uncovered_values(native: Mapping[str, Any], covered: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in native.items() if key not in covered and value not in (None, "", [], {})}


def _decode_blocks(
    pieces: Iterable[Piece],
    call_id: Callable[[int, str | None], str],
    provider: str,
    dialect: Dialect,
    difference: DiffFunction,
    cut: Collection[int] = (),
) -> tuple[list[ContentBlock], dict[str, Any]]:
    """Decode the pieces to blocks, and note by position what our encoder would not write."""
    content: list[ContentBlock] = []
    notes: dict[str, Any] = {}
    for position, piece in enumerate(pieces):
        if decode_blocks.is_plain_text(piece):
            content.append(text_block(piece[1]["text"]))
            continue
        tool_use_id = call_id(position, decode_blocks.native_id(piece)) if decode_blocks.is_call(piece) else ""
        block, note = decode_blocks.decode_block(piece, tool_use_id, provider, cut=position in cut)
        content.append(block)
        if piece[0] != "audio":  # audio of the model goes back as its transcript
            own_id = decode_blocks.native_id(piece) or ""
            ours = encode.encode_block(block, note, lambda _, own_id=own_id: own_id, dialect)  # type: ignore[misc]
            note |= difference(piece, ours)
        if note:
            notes[str(position)] = note
    return content, notes


def _attach_citations(content: list[ContentBlock], annotations: Any) -> list[ContentBlock]:
    """Attach the citations of a message to its first text, whose characters they count."""
    if not annotations:
        return content
    citations = tuple(_decode_citation(item) for item in annotations)
    text_index = next((index for index, block in enumerate(content) if isinstance(block, TextBlock)), None)
    if text_index is not None:
        content[text_index] = content[text_index].model_copy(update={"citations": citations})
    return content


def _decode_citation(native: dict[str, Any] | str) -> Citation:
    if isinstance(native, str):
        return Citation(kind="url", url=native)
    kind = native.get("type") or "url_citation"
    inner = native.get(kind)
    fields = inner if isinstance(inner, dict) else native
    return Citation(
        kind=kind,
        title=fields.get("title"),
        url=fields.get("url"),
        start=fields.get("start_index"),
        end=fields.get("end_index"),
        data=native,
    )


def decode_history(native: dict[str, Any], reader: "HistoryReader", dialect: Dialect) -> list[str]:
    """Decode the messages of a request. A result in the older form has no call id: it answers the latest call without
    one. Return the fields that they, and functions in the older form, cover."""
    items = native["messages"]
    start, call_without_id = reader.resume(items)
    for count, item in enumerate(islice(items, start, None), start):
        reader.mark(count, call_without_id)
        if item["role"] in ("tool", "function"):
            answered = reader.result_id(item["tool_call_id"]) if item.get("tool_call_id") else None
            _add_tool_result(reader, item, answered or call_without_id or reader.result_id(None), dialect)
            continue
        if item.keys() == _PLAIN_FIELDS and (text := item["content"]) and type(text) is str:
            call_without_id = None
            role = reader.role(item["role"])
            reader.add(role, (text_block(text),))  # as below: one text leaves nothing to note
            continue
        pieces = decode_blocks.split_message(item, dialect)
        content, notes = _decode_blocks(
            pieces, lambda _, native_id: reader.call_id(native_id), reader.provider, dialect, decode_blocks.diff_piece
        )
        unnamed = (index for index, piece in enumerate(pieces) if decode_blocks.native_id(piece) is None)
        calls = (block for index in unnamed if isinstance(block := content[index], ToolUseBlock))
        call_without_id = next((call.id for call in calls), None)
        raw = {"list": isinstance(item.get("content"), list), "blocks": notes}
        noted = [(block, notes.get(str(index), {})) for index, block in enumerate(content)]
        ours = encode.encode_message(item["role"], encode.encode_pieces(noted, str, dialect), raw, dialect)
        covered = {"role", *(field for field, _ in pieces)}
        raw["residue"] = diff_objects(_uncovered_fields(item, covered), _uncovered_fields(ours, covered))
        content = _attach_citations(content, item.get("annotations"))
        reader.add(Role(item["role"]), content, {key: value for key, value in raw.items() if value})
    reader.mark(len(items), call_without_id)
    return ["model", "messages", *(("functions",) if native.get("functions") else ())]


def _uncovered_fields(fields: Mapping[str, Any], covered: Collection[str]) -> dict[str, Any]:
    return {field: value for field, value in fields.items() if field not in covered}


def _add_tool_result(reader: "HistoryReader", native: dict[str, Any], tool_use_id: str, dialect: Dialect) -> None:
    text = native.get("content")
    if text and type(text) is str and native["role"] == "tool" and native.keys() == _RESULT_FIELDS:
        # As below: one text leaves nothing to note.
        reader.add(Role.TOOL, (ToolResultBlock(tool_use_id=tool_use_id, content=(text_block(text),)),))
        return
    pieces = decode_blocks.split_message({"content": native.get("content")}, dialect)
    content, notes = _decode_blocks(pieces, lambda *_: "", reader.provider, dialect, decode_blocks.diff_piece)
    answer = ToolResultBlock(tool_use_id=tool_use_id, content=tuple(content))
    note: dict[str, Any] = {"list": True} if isinstance(native.get("content"), list) else {}
    if notes:
        note["parts"] = notes
    ours = encode.encode_tool_result(answer, note, lambda _: native.get("tool_call_id", ""), dialect)
    covered = {field for field, _ in pieces}
    note |= diff_objects(_uncovered_fields(native, covered), _uncovered_fields(ours, covered)) or {}
    reader.add(Role.TOOL, (answer,), {"blocks": {"0": note}} if note else {})


def decode_tools(native: dict[str, Any], provider: str) -> list[ToolDefinition]:
    """Decode the tools of a request, or the functions of the older form. A tool that is not a function is kept whole;
    one with free text as its input means the same elsewhere."""
    found: list[ToolDefinition] = []
    for item in native.get("tools") or ():
        if isinstance(item.get("function"), dict):
            found.append(_decode_tool(item["function"], item, provider, {}))
        elif item["type"] == "custom" and isinstance(item.get("custom"), dict):
            custom, grammar = item["custom"], lookup_path(item["custom"], "format.grammar") or {}
            limits = {"grammar": grammar["definition"], "syntax": grammar.get("syntax", "lark")} if grammar else {}
            found.append(
                CustomTool(
                    name=custom["name"],
                    description=custom.get("description") or "",
                    required=False,
                    provider_raw={"by": provider, "native": item},
                    **limits,
                )
            )
        else:
            inner = item.get(item["type"])
            name = (inner.get("name") if isinstance(inner, dict) else None) or item.get("name") or item["type"]
            found.append(ToolDefinition(name=name, provider_raw={"by": provider, "native": item}))
    found += [_decode_tool(item, item, provider, {"legacy": True}) for item in native.get("functions") or ()]
    return found


def _decode_tool(
    function: dict[str, Any], native: dict[str, Any], provider: str, raw: dict[str, Any]
) -> ToolDefinition:
    schema = function.get("parameters")
    schema_field = {"input_schema": schema} if isinstance(schema, dict) else {}
    definition = ToolDefinition(name=function["name"], description=function.get("description") or "", **schema_field)
    marked = replace_fields(definition, {"provider_raw": {"by": provider, **raw}})
    if note := decode_blocks.diff_piece(("tools", native), ("tools", encode.encode_tool(marked, provider))):
        marked = replace_fields(marked, {"provider_raw": {"by": provider, **raw, "residue": copy_json(note)}})
    return marked


def decode_usage(native: Mapping[str, Any], dialect: Dialect) -> TokenUsage | None:
    """Decode the usage of a reply or a chunk into disjoint counts; None if it has none.

    prompt_tokens includes what was read from or written to a cache, completion_tokens includes reasoning.
    """
    count = UsageReader.of(first_filled(native, dialect.usage))
    if count is None or count.native.get("prompt_tokens") is None:
        return None
    counts = count.counts(_COUNTS, "output_tokens")
    prompt, output = counts["input_tokens"] or 0, counts["output_tokens"] or 0
    total, reasoning, audio = counts["reported_total"], counts["reasoning_tokens"], counts["audio_input_tokens"]
    unlisted = (total or 0) - prompt - output
    if not count.unread:
        if dialect.reasoning_beside or (dialect.reasoning_beside is None and reasoning and unlisted == reasoning):
            output += reasoning or 0
        elif unlisted > 0 and unlisted == audio:
            prompt += unlisted  # then the prompt excludes audio
        elif dialect.reasoning_beside is None and unlisted > 0 and reasoning is None:
            output += unlisted  # reasoning that only the total includes
    cached, cache_writes = count.optional(*dialect.cached_tokens) or 0, count.optional(*dialect.cache_write_tokens) or 0
    rest = count.uncached(prompt, cached, cache_writes)
    cached = min(cached, prompt)
    tier = native.get("service_tier")
    return count.usage(
        **counts | {"input_tokens": rest, "output_tokens": output},
        **count.counts(_MEDIA_COUNTS),
        cached_input_tokens=cached,
        cache_creation_input_tokens=min(cache_writes, prompt - cached),
        server_tools=_decode_server_tools(native, count, dialect),
        service_tier=tier if tier and isinstance(tier, str) else count.text("service_tier"),
        reported_cost_usd=count.dollars(dialect.cost, dialect.cost_unit) if dialect.cost else None,
    )


_COUNTS = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "reported_total": "total_tokens",
    "reasoning_tokens": "completion_tokens_details.reasoning_tokens",
    "audio_input_tokens": "prompt_tokens_details.audio_tokens",
}
_MEDIA_COUNTS = {
    "audio_output_tokens": "completion_tokens_details.audio_tokens",
    "image_input_tokens": "prompt_tokens_details.image_tokens",
    "image_output_tokens": "completion_tokens_details.image_tokens",
}


def _decode_server_tools(native: Mapping[str, Any], count: UsageReader, dialect: Dialect) -> dict[str, int]:
    """Count the calls of the provider's own tools: by the usage, else by the message."""
    if dialect.server_tools is None and dialect.server_tool_list is None:
        return {}
    found = count.counts_by_name(dialect.server_tools) if dialect.server_tools else {}
    if dialect.server_tool_list is not None:
        message = next(iter(native.get("choices") or [{}])).get("message") or {}
        calls = message.get(dialect.server_tool_list) or ()
        found |= Counter(call["type"] for call in calls if isinstance(call, dict) and isinstance(call.get("type"), str))
    return {name: calls for name, calls in found.items() if name not in dialect.uncounted_server_tools}
