"""LangChain's messages, as `dumpd`, `dumps`, `messages_to_dict` or `model_dump` write them; nothing is instantiated.

A chunk counts as the message that it is a part of. A `RemoveMessage` is obeyed.
"""

from collections.abc import Iterator
from typing import Any

from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.canonical.usage import Usage
from dragoman.formats.calls import ReadIds
from dragoman.formats.document import entries, parse, validating
from dragoman.formats.importers.langchain_blocks import LIBRARY, BlockReader
from dragoman.formats.importers.langchain_model import LangChainMessage, constructor, fields_of
from dragoman.formats.importers.pieces import answered_id, as_text, call, counted, messages, read_model_name, texts

_ROLES = {"system": Role.SYSTEM, "human": Role.USER, "ai": Role.ASSISTANT}
_SPEAKERS = {
    "system": Role.SYSTEM,
    "developer": Role.DEVELOPER,
    "assistant": Role.ASSISTANT,
    "ai": Role.ASSISTANT,
}
"""Who speaks in a message of the type chat, whose role is any word; all others are users."""

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
    """The messages of a list, of an object with one as ``messages``, or one message alone, from JSON or Python's own.

    Raises FormatError, with a path.
    """
    listed, at = _listed(parse(document, shape=LIBRARY))
    ids = ReadIds()
    read: list[tuple[str | None, list[Message]]] = []
    for path, native in entries(listed, shape=LIBRARY):
        where = at + path.removeprefix("$")
        fields, inner = fields_of(native, where)
        with validating(fields, inner):
            message = LangChainMessage.model_validate(fields)
        if message.type == "remove":
            read = [] if message.id == _REMOVE_ALL else [said for said in read if said[0] != message.id]
            continue
        with validating(native, inner):
            read.append((message.id, _messages(message, f"{inner}.content", ids)))
    return [message for _, said in read for message in said]


def _listed(document: Any) -> tuple[Any, str]:
    """The list of messages in a document, and where it is."""
    made = constructor(document)
    if made is not None and isinstance(made[1].get("messages"), list):
        return made[1]["messages"], "$.kwargs.messages"
    if made is not None and isinstance(made[1].get("message"), dict):
        return made[1]["message"], "$.kwargs.message"
    if isinstance(document, dict) and isinstance(document.get("messages"), list) and "lc" not in document:
        return document["messages"], "$.messages"
    return document, "$"


def _messages(message: LangChainMessage, path: str, ids: ReadIds) -> list[Message]:
    if message.type in ("tool", "function"):
        return _answer(message, path, ids)
    role = _ROLES.get(message.type) or _SPEAKERS.get((message.role or "").lower(), Role.USER)
    if role is Role.SYSTEM and message.additional_kwargs.get("__openai_role__") == "developer":
        role = Role.DEVELOPER
    named = _model(message) if role is Role.ASSISTANT else {}
    reader = BlockReader(ids, path, named.get("provider"), {each.id: each for each in message.tool_calls if each.id})
    ids.turn(role, answers=_answers(message))
    blocks = reader.blocks(message.content)
    if role is not Role.ASSISTANT:
        return messages(role, blocks)
    blocks = [*_thought(message, blocks), *blocks, *_refused(message, blocks), *_calls(message, reader, ids)]
    stop = next((_STOP_REASONS[word] for word in _stop_words(message) if word in _STOP_REASONS), None)
    if stop is StopReason.END_TURN and any(isinstance(block, ToolUseBlock) for block in blocks):
        stop = StopReason.TOOL_USE
    return messages(role, blocks, metadata={**named, "usage": _usage(message), "stop_reason": stop})


def _answer(message: LangChainMessage, path: str, ids: ReadIds) -> list[Message]:
    content = BlockReader(ids, path).blocks(message.content)
    result = ToolResultBlock(
        tool_use_id=answered_id(ids, message.tool_call_id, message.name),
        content=tuple(content),
        is_error=message.status == "error",
    )
    return messages(Role.TOOL, [result])


def _answers(message: LangChainMessage) -> bool:
    return any(isinstance(item, dict) and item.get("type") == "tool_result" for item in message.content)


def _calls(message: LangChainMessage, reader: BlockReader, ids: ReadIds) -> Iterator[ContentBlock]:
    """The calls that stand beside the content, and not in it as well."""
    for each in message.tool_calls:
        if each.id is None or each.id not in reader.spoken_for:
            yield call(ids, each.id, each.name, each.args)
    for broken in message.invalid_tool_calls:
        if broken.id is None or broken.id not in reader.spoken_for:
            yield call(ids, broken.id, broken.name or "", broken.args)
    if message.tool_calls or message.invalid_tool_calls or reader.spoken_for:
        return
    older = message.additional_kwargs.get("tool_calls")
    natives = [(each.get("id"), each.get("function")) for each in older if isinstance(each, dict)] if older else []
    for native, function in [*natives, (None, message.additional_kwargs.get("function_call"))]:
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            known = native if isinstance(native, str) else None
            yield call(ids, known, function["name"], function.get("arguments"))


def _thought(message: LangChainMessage, blocks: list[ContentBlock]) -> Iterator[ContentBlock]:
    """Thinking that stands beside the content, where there is none in it."""
    thought = message.additional_kwargs.get("reasoning_content")
    if isinstance(thought, str) and thought and not any(isinstance(block, ThinkingBlock) for block in blocks):
        yield ThinkingBlock(text=thought)


def _refused(message: LangChainMessage, blocks: list[ContentBlock]) -> Iterator[ContentBlock]:
    refusal = message.additional_kwargs.get("refusal")
    if isinstance(refusal, str) and not any(isinstance(block, TextBlock) for block in blocks):
        yield from texts(refusal)


def _model(message: LangChainMessage) -> dict[str, Any]:
    told = message.response_metadata
    named = (told.get(name) for name in ("model_name", "model", "model_id"))
    name = next((each for each in named if isinstance(each, str) and each), None)
    provider = told.get("model_provider")
    return read_model_name(LIBRARY, provider if isinstance(provider, str) else None, name)


def _stop_words(message: LangChainMessage) -> Iterator[str]:
    for name in ("finish_reason", "stop_reason", "stopReason", "done_reason", "status"):
        yield as_text(message.response_metadata.get(name))


def _usage(message: LangChainMessage) -> Usage | None:
    told = message.usage_metadata
    if told is None:
        return None
    given, made = told.input_token_details, told.output_token_details
    return counted(
        told.input_tokens,
        told.output_tokens,
        cached=_count(given.get("cache_read")),
        written=_count(given.get("cache_creation")),
        reasoning_tokens=_count(made.get("reasoning")),
        audio_input_tokens=_count(given.get("audio")),
        audio_output_tokens=_count(made.get("audio")),
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
