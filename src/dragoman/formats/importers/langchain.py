"""LangChain messages as `dumpd`, `dumps`, `messages_to_dict` or `model_dump` write them; nothing is instantiated.

A chunk counts as a message. A `RemoveMessage` is applied.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from dragoman.canonical.blocks import (
    ContentBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.document import iter_entries, objects_in, parse, read_list, text_in, validating
from dragoman.formats.importers.langchain_blocks import LIBRARY, BlockReader, constructor, fields_of, read_call
from dragoman.formats.reading.blocks import (
    build_messages,
    build_usage,
    model_fields_of,
    result_call_id,
    signature_notes,
    text_blocks,
    to_text,
    tool_call,
)
from dragoman.formats.reading.fields import Fields, list_inside, source_losses, take_counts, words_of
from dragoman.formats.reading.tool_calls import ToolIdReader, pair_repeated
from dragoman.formats.reading.turns import put_results_first, stop_after

_CHAT_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.DEVELOPER,
    "assistant": Role.ASSISTANT,
    "ai": Role.ASSISTANT,
}
"""Roles of messages of the type chat, whose role is any word; all others become users."""

_STOP_FIELDS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
_REMOVE_ALL = "__remove_all__"
_SIGNATURES = "__gemini_function_call_thought_signatures__"


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
        message = Fields(fields, inner, LIBRARY)
        own_id, name = message.text("id"), message.text("name")
        if name and fields["type"] not in ("tool", "function"):
            source_losses().add(f"{inner}.name", "a message has no name of its speaker: left out")
        if fields["type"] == "remove":
            read = [] if own_id == _REMOVE_ALL else [group for group in read if group[0] != own_id]
            message.ignore("content")
        else:
            with validating(native, inner):
                read.append((own_id, inner, _messages(message, name, ids)))
        message.skip("message")
        message.close()
    paths = [path for _, path, group in read for _ in group]
    return put_results_first(pair_repeated([message for *_, group in read for message in group], paths))


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


def _messages(message: Fields, name: str | None, ids: ToolIdReader) -> list[Message]:
    kwargs, reported = message.inner("additional_kwargs"), message.inner("response_metadata")
    # What a program or a provider stored next to the fields of all messages has no place.
    kwargs.skip("kwargs")
    reported.skip("metadata")
    kind, path, content = message.look("type"), f"{message.path}.content", message.take("content")
    call_id, status = message.text("tool_call_id"), message.text("status")
    calls = [read_call(each) for each in message.objects("tool_calls")]
    broken = [read_call(each, is_named=False) for each in message.objects("invalid_tool_calls")]
    usage = _usage(message.object("usage_metadata"), reported)
    role_word = message.text("role")
    if kind in ("tool", "function"):
        result = ToolResultBlock(
            tool_use_id=result_call_id(ids, call_id, name),
            content=tuple(BlockReader(ids, path).blocks(content)),
            is_error=status == "error",
        )
        return build_messages(Role.TOOL, [result])
    role = words_of(LIBRARY).roles.get(to_text(kind)) or _CHAT_ROLES.get((role_word or "").lower(), Role.USER)
    if role is Role.SYSTEM and kwargs.look("__openai_role__") == "developer":
        role = Role.DEVELOPER
    named: dict[str, Any] = {}
    if role is Role.ASSISTANT:
        model = text_in(*(reported.look(each) for each in ("model_name", "model", "model_id")))
        named = model_fields_of(LIBRARY, text_in(reported.look("model_provider")), model)
    reader = BlockReader(ids, path, named.get("provider"), {each: args for each, _, args in calls if each})
    ids.start_turn(role, has_results=any(item.get("type") == "tool_result" for item in objects_in(content)))
    blocks = reader.blocks(content)
    if role is not Role.ASSISTANT:
        return build_messages(role, blocks)
    thinking = list(_outer_thinking(kwargs, blocks))
    refusal, has_text = kwargs.look("refusal"), any(isinstance(each, TextBlock) for each in blocks)
    # The items of the provider's own tools, in the older form of Responses.
    server_items = objects_in(kwargs.look("tool_outputs"))
    owner = named.get("provider") or LIBRARY
    blocks = [
        *thinking,
        *blocks,
        *(text_blocks(refusal) if isinstance(refusal, str) and not has_text else ()),
        *(ProviderBlock(provider=owner, kind=to_text(item.get("type")) or "item", data=item) for item in server_items),
        *_outer_calls(kwargs, [*calls, *broken], reader, ids),
    ]
    signatures = {len(thinking) + index: signature for index, signature in reader.signatures.items()}
    if isinstance(signed := kwargs.look(_SIGNATURES), dict):  # Gemini's, on calls
        positions = [index for index, block in enumerate(blocks) if isinstance(block, ToolUseBlock)]
        pairs = zip(positions, [each for each, *_ in calls], strict=False)
        signatures |= {index: signed[each] for index, each in pairs if isinstance(signed.get(each), str)}
    words = [to_text(reported.look(each)) for each in _STOP_FIELDS]
    stops = words_of(LIBRARY).stops
    stop = stop_after(blocks, next((stops[word] for word in words if word in stops), None))
    notes = signature_notes(named.get("provider"), signatures)
    return build_messages(role, blocks, metadata={**named, "usage": usage, "stop_reason": stop, "provider_raw": notes})


def _outer_calls(
    kwargs: Fields, calls: Sequence[tuple[str | None, str, Any]], reader: BlockReader, ids: ToolIdReader
) -> Iterator[ContentBlock]:
    """Yield the calls next to the content that are not in the content as well."""
    for call_id, name, arguments in calls:
        if call_id is None or call_id not in reader.seen_calls:
            yield tool_call(ids, call_id, name, arguments)
    legacy = kwargs.look("function_call")
    for name in sorted(legacy.keys() - {"name", "arguments"}) if isinstance(legacy, dict) else ():
        source_losses().add_field(f"{reader.path}.function_call", name, LIBRARY)
    if calls or reader.seen_calls:
        return
    entries = read_list(kwargs.look("tool_calls"), f"{kwargs.path}.tool_calls")
    for each in [*objects_in(entries), {"function": legacy}]:
        function = each.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            yield tool_call(ids, text_in(each.get("id")), function["name"], function.get("arguments"))


def _outer_thinking(kwargs: Fields, blocks: list[ContentBlock]) -> Iterator[ContentBlock]:
    """Yield the thinking next to the content, if there is none in the content."""
    if any(isinstance(block, ThinkingBlock) for block in blocks):
        return
    thinking, item = kwargs.look("reasoning_content"), kwargs.look("reasoning")
    if isinstance(thinking, str) and thinking:
        yield ThinkingBlock(text=thinking)
    if isinstance(item, dict):  # an item of Responses, in the older form
        parts = read_list(item.get("summary"), f"{kwargs.path}.reasoning.summary")
        summary = [each.get("text") for each in objects_in(parts)]
        text = "\n\n".join(each for each in summary if isinstance(each, str))
        yield ThinkingBlock(text=text, signature=text_in(item.get("encrypted_content")))


def _usage(usage: Fields | None, reported: Fields) -> Usage | None:
    if usage is None:
        return None
    natives = (reported.look(name) for name in ("usage", "token_usage"))
    counts = take_counts(usage)
    # The count of one lifetime stands for cache_creation, which is then 0.
    lifetimes = (counts.pop("written_5m") or 0) + (counts["cache_creation_1h_input_tokens"] or 0)
    counts["written"] = max(counts["written"] or 0, lifetimes)
    return build_usage(**counts, raw=next((native for native in natives if isinstance(native, dict)), None))
