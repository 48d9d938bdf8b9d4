"""LangChain messages as `dumpd`, `dumps`, `messages_to_dict` or `model_dump` write them; nothing is instantiated.

A chunk counts as a message. A `RemoveMessage` is applied.
"""

from collections.abc import Iterator
from typing import Any

from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.canonical.usage import Usage
from dragoman.formats.document import iter_entries, parse, validating
from dragoman.formats.importers.blocks import (
    build_messages,
    build_usage,
    model_fields_of,
    result_call_id,
    text_blocks,
    to_text,
    tool_call,
)
from dragoman.formats.importers.langchain_blocks import LIBRARY, BlockReader
from dragoman.formats.importers.langchain_models import LangChainMessage, constructor, fields_of
from dragoman.formats.tool_calls import ToolIdReader

_ROLES = {"system": Role.SYSTEM, "human": Role.USER, "ai": Role.ASSISTANT}
_CHAT_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.DEVELOPER,
    "assistant": Role.ASSISTANT,
    "ai": Role.ASSISTANT,
}
"""Roles of messages of the type chat, whose role is any word; all others become users."""

_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "completed": StopReason.END_TURN,
    "STOP": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "content_filter": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
    "SAFETY": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
}
_REMOVE_ALL = "__remove_all__"


def from_langchain(document: Any) -> list[Message]:
    """Read a list of messages, an object with one as ``messages``, or a single message, from JSON or Python values.

    Raises FormatError, with a path.
    """
    native_messages, at = _find_messages(parse(document, format_name=LIBRARY))
    ids = ToolIdReader()
    read: list[tuple[str | None, list[Message]]] = []
    for path, native in iter_entries(native_messages, format_name=LIBRARY):
        where = at + path.removeprefix("$")
        fields, inner = fields_of(native, where)
        with validating(fields, inner):
            message = LangChainMessage.model_validate(fields)
        if message.type == "remove":
            read = [] if message.id == _REMOVE_ALL else [group for group in read if group[0] != message.id]
            continue
        with validating(native, inner):
            read.append((message.id, _messages(message, f"{inner}.content", ids)))
    return [message for _, group in read for message in group]


def _find_messages(document: Any) -> tuple[Any, str]:
    """Return the list of messages in a document, and its path."""
    constructed = constructor(document)
    if constructed is not None and isinstance(constructed[1].get("messages"), list):
        return constructed[1]["messages"], "$.kwargs.messages"
    if constructed is not None and isinstance(constructed[1].get("message"), dict):
        return constructed[1]["message"], "$.kwargs.message"
    if isinstance(document, dict) and isinstance(document.get("messages"), list) and "lc" not in document:
        return document["messages"], "$.messages"
    return document, "$"


def _messages(message: LangChainMessage, path: str, ids: ToolIdReader) -> list[Message]:
    if message.type in ("tool", "function"):
        return _tool_message(message, path, ids)
    role = _ROLES.get(message.type) or _CHAT_ROLES.get((message.role or "").lower(), Role.USER)
    if role is Role.SYSTEM and message.additional_kwargs.get("__openai_role__") == "developer":
        role = Role.DEVELOPER
    named = _model_fields(message) if role is Role.ASSISTANT else {}
    reader = BlockReader(ids, path, named.get("provider"), {each.id: each for each in message.tool_calls if each.id})
    ids.start_turn(role, has_results=_has_results(message))
    blocks = reader.blocks(message.content)
    if role is not Role.ASSISTANT:
        return build_messages(role, blocks)
    blocks = [
        *_outer_thinking(message, blocks),
        *blocks,
        *_refusal(message, blocks),
        *_outer_calls(message, reader, ids),
    ]
    stop = next((_STOP_REASONS[word] for word in _stop_words(message) if word in _STOP_REASONS), None)
    if stop is StopReason.END_TURN and any(isinstance(block, ToolUseBlock) for block in blocks):
        stop = StopReason.TOOL_USE
    return build_messages(role, blocks, metadata={**named, "usage": _usage(message), "stop_reason": stop})


def _tool_message(message: LangChainMessage, path: str, ids: ToolIdReader) -> list[Message]:
    content = BlockReader(ids, path).blocks(message.content)
    result = ToolResultBlock(
        tool_use_id=result_call_id(ids, message.tool_call_id, message.name),
        content=tuple(content),
        is_error=message.status == "error",
    )
    return build_messages(Role.TOOL, [result])


def _has_results(message: LangChainMessage) -> bool:
    return any(isinstance(item, dict) and item.get("type") == "tool_result" for item in message.content)


def _outer_calls(message: LangChainMessage, reader: BlockReader, ids: ToolIdReader) -> Iterator[ContentBlock]:
    """Yield the calls next to the content that are not in the content as well."""
    for each in message.tool_calls:
        if each.id is None or each.id not in reader.seen_calls:
            yield tool_call(ids, each.id, each.name, each.args)
    for broken in message.invalid_tool_calls:
        if broken.id is None or broken.id not in reader.seen_calls:
            yield tool_call(ids, broken.id, broken.name or "", broken.args)
    if message.tool_calls or message.invalid_tool_calls or reader.seen_calls:
        return
    older = message.additional_kwargs.get("tool_calls")
    natives = [(each.get("id"), each.get("function")) for each in older if isinstance(each, dict)] if older else []
    for native, function in [*natives, (None, message.additional_kwargs.get("function_call"))]:
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            known = native if isinstance(native, str) else None
            yield tool_call(ids, known, function["name"], function.get("arguments"))


def _outer_thinking(message: LangChainMessage, blocks: list[ContentBlock]) -> Iterator[ContentBlock]:
    """Yield the thinking next to the content, if there is none in the content."""
    thinking = message.additional_kwargs.get("reasoning_content")
    if isinstance(thinking, str) and thinking and not any(isinstance(block, ThinkingBlock) for block in blocks):
        yield ThinkingBlock(text=thinking)


def _refusal(message: LangChainMessage, blocks: list[ContentBlock]) -> Iterator[ContentBlock]:
    refusal = message.additional_kwargs.get("refusal")
    if isinstance(refusal, str) and not any(isinstance(block, TextBlock) for block in blocks):
        yield from text_blocks(refusal)


def _model_fields(message: LangChainMessage) -> dict[str, Any]:
    metadata = message.response_metadata
    named = (metadata.get(name) for name in ("model_name", "model", "model_id"))
    name = next((each for each in named if isinstance(each, str) and each), None)
    provider = metadata.get("model_provider")
    return model_fields_of(LIBRARY, provider if isinstance(provider, str) else None, name)


def _stop_words(message: LangChainMessage) -> Iterator[str]:
    for name in ("finish_reason", "stop_reason", "stopReason", "done_reason", "status"):
        yield to_text(message.response_metadata.get(name))


def _usage(message: LangChainMessage) -> Usage | None:
    usage = message.usage_metadata
    if usage is None:
        return None
    input_details, output_details = usage.input_token_details, usage.output_token_details
    return build_usage(
        usage.input_tokens,
        usage.output_tokens,
        cached=_count(input_details.get("cache_read")),
        written=_count(input_details.get("cache_creation")),
        reasoning_tokens=_count(output_details.get("reasoning")),
        audio_input_tokens=_count(input_details.get("audio")),
        audio_output_tokens=_count(output_details.get("audio")),
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
