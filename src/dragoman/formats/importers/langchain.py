"""LangChain messages as `dumpd`, `dumps`, `messages_to_dict` or `model_dump` write them; nothing is instantiated.

A chunk counts as a message. A `RemoveMessage` is applied.
"""

from collections.abc import Iterator
from typing import Any

from dragoman.canonical.blocks import (
    ContentBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.canonical.usage import Usage
from dragoman.formats.document import iter_entries, parse, read_list, validating
from dragoman.formats.importers.langchain_blocks import LIBRARY, BlockReader, LangChainMessage, constructor, fields_of
from dragoman.formats.reading.blocks import (
    build_messages,
    build_usage,
    model_fields_of,
    read_model,
    result_call_id,
    signature_notes,
    text_blocks,
    to_text,
    tool_call,
)
from dragoman.formats.reading.fields import is_empty, list_inside, source_losses
from dragoman.formats.reading.tool_calls import ToolIdReader, pair_groups
from dragoman.formats.reading.turns import STOP_WORDS, put_results_first, stop_after

_ROLES = {"system": Role.SYSTEM, "human": Role.USER, "ai": Role.ASSISTANT}
_CHAT_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.DEVELOPER,
    "assistant": Role.ASSISTANT,
    "ai": Role.ASSISTANT,
}
"""Roles of messages of the type chat, whose role is any word; all others become users."""

_STOP_REASONS = {
    **STOP_WORDS,
    "completed": StopReason.END_TURN,
    "STOP": StopReason.END_TURN,
    "function_call": StopReason.TOOL_USE,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "SAFETY": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
}
_STOP_FIELDS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
_REMOVE_ALL = "__remove_all__"
_SIGNATURES = "__gemini_function_call_thought_signatures__"
_KNOWN_KWARGS = frozenset(
    {
        "tool_calls", "function_call", "refusal", "reasoning_content", "reasoning", "tool_outputs", "__openai_role__",
        "__openai_function_call_ids__", _SIGNATURES, "parsed", "thinking",
    }
)  # fmt: skip
_KNOWN_METADATA = frozenset(
    {
        "model_name", "model", "model_id", "model_provider", "finish_reason", "stop_reason", "stopReason",
        "done_reason", "status", "id", "created_at", "object", "service_tier", "system_fingerprint", "token_usage",
        "usage", "container", "diagnostics", "stop_details", "stop_sequence", "output_version", "ls_provider",
        "ls_model_name", "created", "done", "total_duration", "load_duration", "prompt_eval_count",
        "prompt_eval_duration", "eval_count", "eval_duration", "prompt_feedback", "block_reason", "is_blocked",
        "user", "incomplete_details", "ResponseMetadata", "metrics",
    }
)  # fmt: skip
"""What is read elsewhere, or describes the request and not the conversation."""


def from_langchain(document: Any) -> list[Message]:
    """Read a list of messages, an object with one as ``messages``, or a single message, from JSON or Python values.

    Raises FormatError, with a path.
    """
    native_messages, at = _find_messages(parse(document, format_name=LIBRARY))
    ids = ToolIdReader()
    read: list[tuple[str | None, str, list[Message]]] = []
    for path, native in iter_entries(native_messages, format_name=LIBRARY):
        where = at + path.removeprefix("$")
        fields, inner = fields_of(native, where)
        message = read_model(LangChainMessage, fields, inner, LIBRARY)
        # What a program or a provider stored next to the fields of all messages has no place.
        for place, known in (("additional_kwargs", _KNOWN_KWARGS), ("response_metadata", _KNOWN_METADATA)):
            for name, value in getattr(message, place).items():
                if name not in known and not is_empty(value):
                    source_losses().add_field(f"{inner}.{place}", name, LIBRARY)
        if message.name and message.type not in ("tool", "function"):
            source_losses().add(f"{inner}.name", "a message has no name of its speaker: left out")
        if message.type == "remove":
            read = [] if message.id == _REMOVE_ALL else [group for group in read if group[0] != message.id]
            continue
        with validating(native, inner):
            read.append((message.id, inner, _messages(message, f"{inner}.content", ids)))
    paired = pair_groups([group for *_, group in read], [path for _, path, _ in read])
    return put_results_first([message for group in paired for message in group])


def _find_messages(document: Any) -> tuple[Any, str]:
    """Return the list of messages in a document, and its path."""
    constructed = constructor(document)
    if isinstance(document, dict) and "lc" not in document and isinstance(document.get("messages"), list):
        return list_inside(document, "messages", LIBRARY)
    if constructed is not None and isinstance(constructed[1].get("messages"), list):
        return constructed[1]["messages"], "$.kwargs.messages"
    if constructed is not None and isinstance(constructed[1].get("message"), dict):
        return constructed[1]["message"], "$.kwargs.message"
    return document, "$"


def _messages(message: LangChainMessage, path: str, ids: ToolIdReader) -> list[Message]:
    if message.type in ("tool", "function"):
        content = BlockReader(ids, path).blocks(message.content)
        result = ToolResultBlock(
            tool_use_id=result_call_id(ids, message.tool_call_id, message.name),
            content=tuple(content),
            is_error=message.status == "error",
        )
        return build_messages(Role.TOOL, [result])
    role = _ROLES.get(message.type) or _CHAT_ROLES.get((message.role or "").lower(), Role.USER)
    if role is Role.SYSTEM and message.additional_kwargs.get("__openai_role__") == "developer":
        role = Role.DEVELOPER
    named = _model_fields(message) if role is Role.ASSISTANT else {}
    reader = BlockReader(ids, path, named.get("provider"), {each.id: each for each in message.tool_calls if each.id})
    has_results = any(isinstance(item, dict) and item.get("type") == "tool_result" for item in message.content)
    ids.start_turn(role, has_results=has_results)
    blocks = reader.blocks(message.content)
    if role is not Role.ASSISTANT:
        return build_messages(role, blocks)
    thinking = list(_outer_thinking(message, blocks, reader))
    refusal, has_text = message.additional_kwargs.get("refusal"), any(isinstance(each, TextBlock) for each in blocks)
    blocks = [
        *thinking,
        *blocks,
        *(text_blocks(refusal) if isinstance(refusal, str) and not has_text else ()),
        *_server_tools(message, named.get("provider")),
        *_outer_calls(message, reader, ids),
    ]
    signatures = {len(thinking) + index: signature for index, signature in reader.signatures.items()}
    signatures |= _call_signatures(message, blocks)
    words = [to_text(message.response_metadata.get(name)) for name in _STOP_FIELDS]
    stop = stop_after(blocks, next((_STOP_REASONS[word] for word in words if word in _STOP_REASONS), None))
    metadata = {
        **named,
        "usage": _usage(message),
        "stop_reason": stop,
        "provider_raw": signature_notes(named.get("provider"), signatures),
    }
    return build_messages(role, blocks, metadata=metadata)


def _outer_calls(message: LangChainMessage, reader: BlockReader, ids: ToolIdReader) -> Iterator[ContentBlock]:
    """Yield the calls next to the content that are not in the content as well."""
    for each in message.tool_calls:
        if each.id is None or each.id not in reader.seen_calls:
            yield tool_call(ids, each.id, each.name, each.args)
    for broken in message.invalid_tool_calls:
        if broken.id is None or broken.id not in reader.seen_calls:
            yield tool_call(ids, broken.id, broken.name or "", broken.args)
    legacy = message.additional_kwargs.get("function_call")
    for name in sorted(legacy.keys() - {"name", "arguments"}) if isinstance(legacy, dict) else ():
        source_losses().add_field(f"{reader.path}.function_call", name, LIBRARY)
    if message.tool_calls or message.invalid_tool_calls or reader.seen_calls:
        return
    older = message.additional_kwargs.get("tool_calls")
    entries = read_list(older, f"{_kwargs_path(reader)}.tool_calls")
    natives = [(each.get("id"), each.get("function")) for each in entries if isinstance(each, dict)]
    for native, function in [*natives, (None, legacy)]:
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            known = native if isinstance(native, str) else None
            yield tool_call(ids, known, function["name"], function.get("arguments"))


def _kwargs_path(reader: BlockReader) -> str:
    return f"{reader.path.removesuffix('.content')}.additional_kwargs"


def _outer_thinking(
    message: LangChainMessage, blocks: list[ContentBlock], reader: BlockReader
) -> Iterator[ContentBlock]:
    """Yield the thinking next to the content, if there is none in the content."""
    if any(isinstance(block, ThinkingBlock) for block in blocks):
        return
    thinking = message.additional_kwargs.get("reasoning_content")
    if isinstance(thinking, str) and thinking:
        yield ThinkingBlock(text=thinking)
    item = message.additional_kwargs.get("reasoning")
    if isinstance(item, dict):  # an item of Responses, in the older form
        parts = read_list(item.get("summary"), f"{_kwargs_path(reader)}.reasoning.summary")
        summary = [each.get("text") for each in parts if isinstance(each, dict)]
        sealed = item.get("encrypted_content")
        text = "\n\n".join(each for each in summary if isinstance(each, str))
        yield ThinkingBlock(text=text, signature=sealed if isinstance(sealed, str) and sealed else None)


def _server_tools(message: LangChainMessage, provider: str | None) -> Iterator[ContentBlock]:
    """Yield the items of the provider's own tools, in the older form of Responses."""
    items = message.additional_kwargs.get("tool_outputs")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield ProviderBlock(provider=provider or LIBRARY, kind=to_text(item.get("type")) or "item", data=item)


def _call_signatures(message: LangChainMessage, blocks: list[ContentBlock]) -> dict[int, str]:
    """Return Gemini's signatures on calls, by block."""
    signed = message.additional_kwargs.get(_SIGNATURES)
    if not isinstance(signed, dict):
        return {}
    positions = [index for index, block in enumerate(blocks) if isinstance(block, ToolUseBlock)]
    calls = zip(positions, [call.id for call in message.tool_calls], strict=False)
    return {index: signed[call] for index, call in calls if isinstance(signed.get(call), str)}


def _model_fields(message: LangChainMessage) -> dict[str, Any]:
    metadata = message.response_metadata
    named = (metadata.get(name) for name in ("model_name", "model", "model_id"))
    name = next((each for each in named if isinstance(each, str) and each), None)
    provider = metadata.get("model_provider")
    return model_fields_of(LIBRARY, provider if isinstance(provider, str) else None, name)


def _usage(message: LangChainMessage) -> Usage | None:
    usage = message.usage_metadata
    if usage is None:
        return None
    natives = (message.response_metadata.get(name) for name in ("usage", "token_usage"))
    input_details, output_details = usage.input_token_details, usage.output_token_details
    # The count of one lifetime stands for cache_creation, which is then 0.
    five_minutes = _count(input_details.ephemeral_5m_input_tokens)
    hour = _count(input_details.ephemeral_1h_input_tokens)
    return build_usage(
        usage.input_tokens,
        usage.output_tokens,
        cached=_count(input_details.cache_read),
        written=max(_count(input_details.cache_creation), five_minutes + hour),
        cache_creation_1h_input_tokens=hour,
        reasoning_tokens=_count(output_details.reasoning),
        raw=next((native for native in natives if isinstance(native, dict)), None),
        audio_input_tokens=_count(input_details.audio),
        audio_output_tokens=_count(output_details.audio),
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
