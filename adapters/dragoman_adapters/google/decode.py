"""Wire to canonical: replies, and requests in Google's format (wire reference 6)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext, ToolChoice
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.requests import structured_output
from dragoman.adapter.requests.projection import Target
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.wire_diff import diff_objects
from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.message import Message, MessageStatus
from dragoman_adapters.google import decode_citations, encode_blocks, finish, usage
from dragoman_adapters.google.decode_schema import decode_schema
from dragoman_adapters.google.options import JSON_TYPE, MERGED_FIELDS, OPTION_FIELDS, encode_options
from dragoman_adapters.google.spelling import to_camel_case

_COVERED_FIELDS = {"candidates", "modelVersion", "usageMetadata"}


def parse_reply(body: bytes) -> dict[str, Any]:
    return wirejson.loads_object(body)


def decode_message(
    native: dict[str, Any],
    reply: ReplyBuilder,
    facts: Mapping[str, Any],
    status: MessageStatus = MessageStatus.COMPLETE,
) -> Message:
    """A whole reply object, or the one that a stream has gathered. The first candidate is the message."""
    top = _to_camel_case(native)
    candidates = native.get("candidates") or []
    is_blocked = "blockReason" in (top.get("promptFeedback") or {})
    if not candidates and not is_blocked and status is MessageStatus.COMPLETE:
        raise ValueError("there is neither a candidate nor a reason why the prompt was blocked")
    chosen = candidates[0] if candidates else {}
    candidate = _to_camel_case(chosen, without=("content",))
    content, notes = _decode_content(chosen.get("content") or {}, reply)
    content = decode_citations.attach_citations(content, candidate)
    reason = finish.finish_reason_name(candidate.get("finishReason"), facts)
    usage_counts = usage.usage(
        top.get("usageMetadata"), decode_citations.count_searches(candidate, facts["search_unit"])
    )
    covered = _COVERED_FIELDS if usage_counts else _COVERED_FIELDS - {"usageMetadata"}
    raw: dict[str, Any] = {key: value for key, value in top.items() if key not in covered}
    raw |= {"candidate": candidate} if candidate else {}
    raw |= {"candidates": candidates[1:]} if candidates[1:] else {}
    raw |= {"blocks": notes} if notes else {}
    has_calls = any(block.type == "tool_use" for block in content)
    return reply.build(
        content,
        model=top.get("modelVersion"),
        stop_reason=finish.stop_reason(reason, status, has_calls=has_calls, is_blocked=is_blocked and not candidates),
        usage=usage_counts,
        raw=raw,
        status=status,
    )


def _to_camel_case(native: Mapping[str, Any], without: Iterable[str] = ("candidates",)) -> dict[str, Any]:
    """An object's fields in camelCase, but for those that parts lie in."""
    found: dict[str, Any] = to_camel_case({key: value for key, value in native.items() if key not in without})[0]
    return found


def _decode_content(native: Mapping[str, Any], reply: ReplyBuilder) -> tuple[list[ContentBlock], dict[str, Any]]:
    blocks: list[ContentBlock] = []
    notes: dict[str, Any] = {}
    for index, part in enumerate(native.get("parts") or ()):
        call = _function_call(part)
        wire_id = call.get("id") if call else None
        block = encode_blocks.decode_block(part, reply.call_id(index, wire_id) if call else "", reply.provider)
        blocks.append(block)
        if call and encode_blocks.RAW_INPUT in call:
            part = {**part, "functionCall": {key: call[key] for key in call if key != encode_blocks.RAW_INPUT}}
        if note := encode_blocks.note_part(part, encode_blocks.encode_block(block, wire_id)):
            notes[str(index)] = note
    return blocks, notes


def _function_call(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    call = part.get("functionCall") or part.get("function_call")
    return call if isinstance(call, dict) else None


def decode_tool_choice(config: Mapping[str, Any]) -> ToolChoice | None:
    """The mode, with the one function that is allowed as a tool by name; anything more stays Google's own."""
    names: list[str] = config.get("allowedFunctionNames") or []
    match str(config.get("mode") or "").upper():
        case "ANY" if len(names) == 1:
            return NamedTool(names[0])
        case "ANY" if not names:
            return "required"
        case "AUTO" if not names:
            return "auto"
        case "NONE" if not names:
            return "none"
        case _:
            return None


def decode_options(
    native: Mapping[str, Any], target: Target, context: RequestContext, covered_names: Iterable[str]
) -> AdapterOptions:
    """The options of a request; what our own encoder would write otherwise is kept as the provider's own field.

    ``conversation`` names the fields that the messages and tools speak for. Whether to stream stands in the path.
    """
    body = _to_camel_case(native, without=covered_names)
    config = body.get("generationConfig") or {}
    has_tools = bool(native.get("tools"))
    thinking = config.get("thinkingConfig") or {}
    level = thinking.get("thinkingLevel")
    values: dict[str, Any] = {ours: config.get(theirs) for ours, theirs in OPTION_FIELDS.items()}
    options = AdapterOptions(
        **values,
        stop_sequences=tuple(config.get("stopSequences") or ()),
        tool_choice=decode_tool_choice((body.get("toolConfig") or {}).get("functionCallingConfig") or {}),
        output_schema=_decode_output_schema(config)
        if structured_output.supports_native_schema(target.capabilities, tools=has_tools)
        else None,
        effort=level.lower() if isinstance(level, str) else None,
        thinking=True if thinking.get("includeThoughts") is True else None,
        thinking_budget=thinking.get("thinkingBudget"),
        context=context,
    )
    encoded = encode_options(RequestBuilder(target, options, context, (), []), tools=has_tools)
    covered = set(covered_names)
    extra = _extra_fields({key: value for key, value in native.items() if key not in covered}, encoded)
    return replace(options, extra={target.provider: extra} if extra else {})


def _decode_output_schema(config: Mapping[str, Any]) -> dict[str, Any] | None:
    if config.get("responseMimeType") != JSON_TYPE:
        return None
    if isinstance(config.get("responseJsonSchema"), dict):
        found: dict[str, Any] = config["responseJsonSchema"]
        return found
    return decode_schema(config["responseSchema"]) if isinstance(config.get("responseSchema"), dict) else None


def _extra_fields(native: Mapping[str, Any], encoded: Mapping[str, Any]) -> dict[str, Any]:
    """What must be laid over what we would write to get the request as it was; ``...`` leaves a field out."""
    found: dict[str, Any] = {}
    for key, theirs in native.items():
        ours = encoded.get(key)
        if key in MERGED_FIELDS and isinstance(theirs, dict):
            if (inner := _extra_fields(theirs, ours or {})) or key not in encoded:
                found[key] = inner
        elif diff_objects({key: theirs}, {key: ours} if key in encoded else {}):
            found[key] = theirs
    return found | {key: ... for key in encoded if key not in native}
