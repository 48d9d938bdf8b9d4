"""LiteLLM message lists: Chat Completions, plus the thinking of other providers next to the content.

The adapter of Chat Completions reads what they share. A reply as `model_dump` writes it can be read too, alone or as
``response`` next to the ``messages`` that it answers.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from dragoman.canonical.blocks import ContentBlock, RedactedThinkingBlock, TextBlock, ThinkingBlock
from dragoman.canonical.guard import Count
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.formats.document import copy_json_at, iter_entries, kind_of, parse, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.blocks import Fields, ImportedModel, build_usage, model_fields_of
from dragoman.formats.native import from_native

LIBRARY = "litellm"
_WIRE = "openai-chat"

_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "content_filter": StopReason.REFUSAL,
}
_EXTRA_FIELDS = ("thinking_blocks", "reasoning_content", "provider_specific_fields")


class ThinkingItem(ImportedModel):
    """An Anthropic block, which LiteLLM uses for every provider."""

    type: str
    thinking: str = ""
    signature: str | None = None
    data: str | None = None


class ExtraFields(ImportedModel):
    thinking_blocks: list[ThinkingItem] | None = None
    reasoning_content: str | None = None


class PromptDetails(ImportedModel):
    cached_tokens: Count | None = None
    cache_creation_tokens: Count | None = None
    audio_tokens: Count | None = None


class OutputDetails(ImportedModel):
    reasoning_tokens: Count | None = None
    audio_tokens: Count | None = None


class Tokens(ImportedModel):
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    cache_creation_input_tokens: Count | None = None


class Choice(ImportedModel):
    message: dict[str, Any]
    finish_reason: str | None = None


class Response(ImportedModel):
    choices: list[Choice] = Field(min_length=1)
    model: str | None = None
    usage: Tokens | None = None


def from_litellm(document: Any, *, model: str | None = None) -> list[Message]:
    """Read a list of messages, an object with one as ``messages``, or a reply, from JSON or Python values.

    ``model`` is LiteLLM's name of the model that wrote the messages, such as ``anthropic/claude-sonnet-4-6``. The list
    does not name it, and signed thinking is sent back to that model only. Raises FormatError, with a path.
    """
    data = parse(document, format_name=LIBRARY)
    if isinstance(data, dict) and "role" not in data:
        return _read_object(data, model)
    return _read_list(data, "$", model)


def _read_object(data: Mapping[str, Any], model: str | None) -> list[Message]:
    named = data.get("model")
    model = model or (named if isinstance(named, str) else None)
    read: list[Message] = []
    if "messages" in data:
        read = _read_list(data["messages"], "$.messages", model)
    answer = data.get("response") if "messages" in data else data
    if isinstance(answer, dict):
        at = "$.response" if "messages" in data else "$"
        return _append_reply(read, data.get("messages"), copy_json_at(answer, at), at, model)
    if not read and "messages" not in data:
        raise FormatError("a history of LiteLLM must be a list of messages, or an object with messages or a response")
    return read


def _read_list(data: Any, at: str, model: str | None) -> list[Message]:
    natives = [
        (at + path.removeprefix("$"), native, _read_extra(native, at + path.removeprefix("$")))
        for path, native in iter_entries(data, format_name=LIBRARY)
    ]
    plain = [_drop_extra(native) for _, native, _ in natives]
    try:
        read = from_native(_WIRE, plain, model=_model_fields(model)["model"])
    except FormatError as error:
        inner = error.path.removeprefix("$.messages")
        raise FormatError(error.reason, path=(at if isinstance(data, (list, tuple)) else "$") + inner) from None
    return [
        _relabel(message, extra, model)
        for message, (_, _, extra) in zip(read, natives, strict=True)
    ]  # fmt: skip


def _read_extra(native: Fields, path: str) -> ExtraFields:
    with validating(native, path):
        return ExtraFields.model_validate(native)


def _drop_extra(native: Fields) -> Fields:
    """Return the message of Chat Completions: without LiteLLM's additions, and without empty fields."""
    plain = {
        name: value
        for name, value in native.items()
        if name not in _EXTRA_FIELDS and (value is not None or name == "content") and (value or name != "annotations")
    }
    calls = plain.get("tool_calls")
    if isinstance(calls, list):
        plain["tool_calls"] = [
            {name: value for name, value in tool_call.items() if name not in ("index", "provider_specific_fields")}
            if isinstance(tool_call, dict)
            else tool_call
            for tool_call in calls
        ]
    return plain


def _relabel(message: Message, extra: ExtraFields, model: str | None) -> Message:
    """Return the message with its model, and with its thinking first."""
    if message.role is not Role.ASSISTANT:
        return message
    named = _model_fields(model)
    metadata = message.metadata.model_copy(update={"model": named["model"], "provider": named["provider"]})
    content = [*_thinking(extra), *message.content]
    return message.model_copy(update={"metadata": metadata, "content": content})


def _thinking(extra: ExtraFields) -> list[ContentBlock]:
    if extra.thinking_blocks:
        return [
            RedactedThinkingBlock(data=item.data)
            if item.type == "redacted_thinking" and item.data is not None
            else ThinkingBlock(text=item.thinking, signature=item.signature or None)
            for item in extra.thinking_blocks
        ]
    return [ThinkingBlock(text=extra.reasoning_content)] if extra.reasoning_content else []


def _append_reply(
    read: list[Message], native_messages: Any, native: Fields, at: str, model: str | None
) -> list[Message]:
    """Return the messages and the reply to them; its calls get their ids together with the rest."""
    with validating(native, at):
        reply = Response.model_validate(native)
    native_reply = {"role": "assistant", **reply.choices[0].message}
    earlier = list(native_messages) if isinstance(native_messages, (list, tuple)) else []
    if not read and earlier:
        raise FormatError(f"the messages must be a list, not {kind_of(native_messages)}", path="$.messages")
    (reply_message,) = _read_list([native_reply], f"{at}.choices[0].message", model or reply.model)
    stop = _STOP_REASONS.get(reply.choices[0].finish_reason or "")
    updates: dict[str, Any] = {"stop_reason": stop}
    if (tokens := reply.usage) is not None:
        input_details, output_details = (
            tokens.prompt_tokens_details or PromptDetails(),
            tokens.completion_tokens_details or OutputDetails(),
        )
        updates["usage"] = build_usage(
            tokens.prompt_tokens,
            tokens.completion_tokens,
            cached=input_details.cached_tokens,
            written=tokens.cache_creation_input_tokens or input_details.cache_creation_tokens,
            reasoning_tokens=output_details.reasoning_tokens,
            audio_input_tokens=input_details.audio_tokens,
            audio_output_tokens=output_details.audio_tokens,
        )
    if not reply_message.content or (
        not reply_message.text and all(isinstance(block, TextBlock) for block in reply_message.content)
    ):
        return read
    return [*read, reply_message.model_copy(update={"metadata": reply_message.metadata.model_copy(update=updates)})]


def _model_fields(model: str | None) -> Fields:
    """Split LiteLLM's ``provider/model``. A name without a provider is OpenAI's, or of an unknown provider."""
    provider, slash, name = (model or "").partition("/")
    return model_fields_of(LIBRARY, provider if slash else None, name if slash else model)
