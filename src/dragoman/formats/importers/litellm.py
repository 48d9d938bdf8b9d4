"""LiteLLM message lists: Chat Completions, plus the thinking of other providers next to the content.

The adapter of Chat Completions reads what they share. A reply as `model_dump` writes it can be read too, alone or as
``response`` next to the ``messages`` that it answers.
"""

from collections.abc import Iterator
from typing import Any

from dragoman.adapter.wirejson import parse_arguments
from dragoman.canonical.blocks import (
    ContentBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.formats.document import (
    copy_json_at,
    dig,
    iter_entries,
    kind_of,
    nested_objects_in,
    objects_in,
    parse,
    text_in,
    validating,
)
from dragoman.formats.errors import FormatError
from dragoman.formats.native import from_native
from dragoman.formats.reading.blocks import (
    build_usage,
    media_from_url,
    model_fields_of,
    read_citation,
    signature_notes,
    text_blocks,
    to_text,
)
from dragoman.formats.reading.fields import Fields, is_empty, moved_losses, source_losses, take_counts, words_of

LIBRARY = "litellm"
_WIRE = "openai-chat"
_ANTHROPIC = "anthropic"

_EXTRA_FIELDS = ("thinking_blocks", "reasoning_content", "provider_specific_fields", "images")
_SIGNATURE_MARK = "__thought__"
"""Separates a call's id from Gemini's signature, which LiteLLM appends to it."""
_CALL_ADDITIONS = ("index", "provider_specific_fields", "caller")


def from_litellm(document: Any, *, model: str | None = None) -> list[Message]:
    """Read a list of messages, an object with one as ``messages``, or a reply, from JSON or Python values.

    ``model`` is LiteLLM's name of the model that wrote the messages, such as ``anthropic/claude-sonnet-4-6``. The list
    does not name it, and signed thinking is sent back to that model only. Raises FormatError, with a path.
    """
    data = parse(document, format_name=LIBRARY)
    if isinstance(data, dict) and "role" not in data:
        model = model or text_in(data.get("model"))
        if "messages" not in data:
            return _append_reply([], None, copy_json_at(data), "$", model)
        read = _read_list(data["messages"], "$.messages", model)
        answer = data.get("response")
        if isinstance(answer, dict):
            return _append_reply(read, data["messages"], copy_json_at(answer, "$.response"), "$.response", model)
        return read
    return _read_list(data, "$", model)


def _read_list(data: Any, at: str, model: str | None) -> list[Message]:
    natives = [(at + path.removeprefix("$"), native) for path, native in iter_entries(data, format_name=LIBRARY)]
    thinking = [_read_extra(native, path) for path, native in natives]
    plain = [_drop_extra(native) for _, native in natives]
    try:
        with moved_losses(lambda path: at + path.removeprefix("$.messages")):
            read = from_native(_WIRE, plain, model=_model_fields(model)["model"])
    except FormatError as error:
        inner = error.path.removeprefix("$.messages")
        raise FormatError(error.reason, path=(at if isinstance(data, (list, tuple)) else "$") + inner) from None
    return [
        _relabel(message, native, blocks, model, path)
        for message, (path, native), blocks in zip(read, natives, thinking, strict=True)
    ]


def _read_extra(native: dict[str, Any], path: str) -> list[ContentBlock]:
    """Return the thinking next to the content, in Anthropic's form or as a text; report what has no place."""
    extra = Fields({name: native[name] for name in _EXTRA_FIELDS if name in native}, path, LIBRARY)
    thinking: list[ContentBlock] = []
    with validating(native, path):
        for item in extra.objects("thinking_blocks"):
            kind, data = item.required_text("type"), item.text("data")
            text, signature = item.text("thinking") or "", item.text("signature") or None
            is_sealed = kind == "redacted_thinking" and data is not None
            thinking.append(
                RedactedThinkingBlock(data=data or "") if is_sealed else ThinkingBlock(text=text, signature=signature)
            )
            item.ignore("cache_control")
        if (text := extra.text("reasoning_content") or "") and not thinking:
            thinking.append(ThinkingBlock(text=text))
    for image in extra.objects("images"):
        image.whole()
    specific = extra.inner("provider_specific_fields")
    specific.skip("specific")
    if (copied := specific.look("thinking_blocks")) and copied != native.get("thinking_blocks"):
        reason = "thinking_blocks of provider_specific_fields differ from those of the message, which are read"
        source_losses().add(f"{specific.path}.thinking_blocks", reason)
    extra.close()
    return thinking


def _drop_extra(native: dict[str, Any]) -> dict[str, Any]:
    """Return the message of Chat Completions: without LiteLLM's additions, and without empty fields."""
    plain = {
        name: value
        for name, value in native.items()
        if name not in _EXTRA_FIELDS and (value is not None or name == "content") and (value or name != "annotations")
    }
    calls = plain.get("tool_calls")
    if isinstance(calls, list):
        server = _server_results(native)
        plain["tool_calls"] = [
            {name: value for name, value in tool_call.items() if name not in _CALL_ADDITIONS}
            if isinstance(tool_call, dict)
            else tool_call
            for tool_call in calls
            if not (isinstance(tool_call, dict) and to_text(tool_call.get("id")) in server)
        ]
        if not plain["tool_calls"]:
            del plain["tool_calls"]
    named = [(call, "id") for call in objects_in(plain.get("tool_calls"))]
    for fields, name in [*named, (plain, "tool_call_id")]:
        if isinstance(fields.get(name), str):
            fields[name] = fields[name].partition(_SIGNATURE_MARK)[0]
    return plain


def _server_results(native: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the results of Anthropic's own tools, by the id of their call."""
    found: dict[str, list[dict[str, Any]]] = {}
    for result in objects_in(dig(native, "provider_specific_fields", "web_search_results")):
        if isinstance(result.get("tool_use_id"), str):
            found.setdefault(result["tool_use_id"], []).append(result)
    return found


def _server_blocks(native: dict[str, Any]) -> Iterator[ContentBlock]:
    """Yield the calls and results of Anthropic's own tools as Anthropic has them."""
    server = _server_results(native)
    for call in objects_in(native.get("tool_calls")):
        if to_text(call.get("id")) not in server:
            continue
        arguments, _ = parse_arguments(to_text(dig(call, "function", "arguments")))
        data = {"type": "server_tool_use", "id": call["id"], "name": to_text(dig(call, "function", "name")),
                "input": arguments or {}}  # fmt: skip
        yield ProviderBlock(provider=_ANTHROPIC, kind="server_tool_use", data=data)
        for result in server[call["id"]]:
            kind = to_text(result.get("type")) or "web_search_tool_result"
            yield ProviderBlock(provider=_ANTHROPIC, kind=kind, data=result)


def _report_unknown(native: dict[str, Any], path: str) -> None:
    """Report the fields of a message, and of its calls, that are not kept if its content changes."""
    losses = source_losses()
    for name, value in native.items():
        if name not in _MESSAGE_FIELDS and not is_empty(value):
            losses.add_field(path, name, LIBRARY)
    for index, call in enumerate(objects_in(native.get("tool_calls"))):
        at = f"{path}.tool_calls[{index}]"
        for name in sorted(call.keys() - _CALL_FIELDS):
            losses.add_field(at, name, LIBRARY)
        for function in objects_in([call.get("function")]):
            for name in sorted(function.keys() - {"name", "arguments"}):
                losses.add_field(f"{at}.function", name, LIBRARY)


_MESSAGE_FIELDS = frozenset(
    {"role", "content", "tool_calls", "function_call", "refusal", "annotations", "audio", *_EXTRA_FIELDS}
)
_CALL_FIELDS = frozenset({"id", "type", "function", "index", "caller", "provider_specific_fields"})


def _relabel(
    message: Message, native: dict[str, Any], thinking: list[ContentBlock], model: str | None, path: str
) -> Message:
    """Return the message with its model, and with what LiteLLM stores next to the content: the thinking first."""
    if message.role is not Role.ASSISTANT:
        return message
    named = _model_fields(model)
    specific = native.get("provider_specific_fields") or {}
    natives = nested_objects_in(specific.get("citations"))
    content = list(message.content)
    index = next((index for index, block in enumerate(content) if isinstance(block, TextBlock)), None)
    if natives and index is not None:
        text = content[index]
        assert isinstance(text, TextBlock)
        cited = tuple(map(read_citation, natives))
        content[index] = text.model_copy(update={"citations": (*text.citations, *cited)})
    content = [*thinking, *_server_blocks(native), *content]
    refusal = specific.get("refusal")
    if isinstance(refusal, str) and not message.text:
        content += text_blocks(refusal)
    for image in native.get("images") or ():
        address = image.get("image_url")
        url = address.get("url") if isinstance(address, dict) else address
        if isinstance(url, str):
            content.append(media_from_url(url, kind="image"))
    calls = (index for index, block in enumerate(content) if isinstance(block, ToolUseBlock))
    signed: dict[int, str] = {}
    for index, call in zip(calls, objects_in(native.get("tool_calls")), strict=False):  # with Gemini's signatures
        signature = dig(call, "provider_specific_fields", "thought_signature")
        signature = signature or to_text(call.get("id")).partition(_SIGNATURE_MARK)[2]
        if isinstance(signature, str) and signature:
            signed[index] = signature
    if (note := signature_notes(named["provider"], signed)) is not None:
        named |= {"provider_raw": note}
    if content != list(message.content):
        _report_unknown(native, path)  # what the adapter noted about the message no longer fits
    metadata = message.metadata.model_copy(update=named)
    return message.model_copy(update={"metadata": metadata, "content": content})


def _append_reply(
    read: list[Message], native_messages: Any, native: dict[str, Any], at: str, model: str | None
) -> list[Message]:
    """Return the messages and the reply to them; its calls get their ids together with the rest."""
    reply = Fields(native, at, LIBRARY)
    reply.skip("reply")
    choices = reply.objects("choices")
    if not choices:
        raise reply.fault("choices", "has no choice")
    first = choices[0]
    for choice in choices[1:]:
        choice.whole()
        source_losses().add(choice.path, "a conversation has one continuation: the other choices are left out")
    first.ignore("index", "logprobs")
    first.inner("provider_specific_fields").ignore("native_finish_reason")
    word, named = first.text("finish_reason") or "", reply.text("model")
    usage = build_usage(**take_counts(reply.inner("usage")))
    if (answer := first.object("message")) is None:
        raise first.fault("message", "is missing")
    native_reply = {"role": "assistant", **answer.whole()}
    reply.close()
    if not read and isinstance(native_messages, (list, tuple)) and native_messages:
        raise FormatError(f"the messages must be a list, not {kind_of(native_messages)}", path="$.messages")
    (message,) = _read_list([native_reply], answer.path, model or named)
    is_refused = word == "content_filter"
    stop = StopReason.REFUSAL if is_refused else words_of(LIBRARY).stops.get(word)
    if not message.content or (
        not is_refused and not message.text and all(isinstance(block, TextBlock) for block in message.content)
    ):
        return read
    metadata = message.metadata.model_copy(update={"stop_reason": stop, **({"usage": usage} if usage else {})})
    return [*read, message.model_copy(update={"metadata": metadata})]


def _model_fields(model: str | None) -> dict[str, Any]:
    """Split LiteLLM's ``provider/model``. A name without a provider is OpenAI's, or of an unknown provider."""
    provider, slash, name = (model or "").partition("/")
    return model_fields_of(LIBRARY, provider if slash else None, name if slash else model)
