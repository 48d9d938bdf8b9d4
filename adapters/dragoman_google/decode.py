"""Wire to canonical: replies, and requests in Google's format (wire reference 6)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dragoman.adapter import structured, wirejson
from dragoman.adapter.assembly import Reply
from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext, ToolChoice
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.residue import residue
from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.message import Message, MessageStatus
from dragoman_google import finish, grounding, parts, usage
from dragoman_google.parameters import JSON, MERGED, SETTINGS, parameters
from dragoman_google.schema import json_schema
from dragoman_google.spelling import camel

if TYPE_CHECKING:
    from dragoman_google.adapter import GoogleAdapter

_SPOKEN_FOR = {"candidates", "modelVersion", "usageMetadata"}


def reply_object(body: bytes) -> dict[str, Any]:
    return wirejson.loads_object(body)


def message(
    native: dict[str, Any],
    reply: Reply,
    facts: Mapping[str, Any],
    status: MessageStatus = MessageStatus.COMPLETE,
) -> Message:
    """A whole reply object, or the one that a stream has gathered. The first candidate is the message."""
    top = _camelled(native)
    candidates = native.get("candidates") or []
    blocked = "blockReason" in (top.get("promptFeedback") or {})
    if not candidates and not blocked and status is MessageStatus.COMPLETE:
        raise ValueError("there is neither a candidate nor a reason why the prompt was blocked")
    chosen = candidates[0] if candidates else {}
    candidate = _camelled(chosen, without=("content",))
    content, notes = _content(chosen.get("content") or {}, reply)
    content = grounding.cited(content, candidate)
    reason = finish.word(candidate.get("finishReason"), facts)
    counted = usage.usage(top.get("usageMetadata"), grounding.searches(candidate, facts["search_unit"]))
    spoken_for = _SPOKEN_FOR if counted else _SPOKEN_FOR - {"usageMetadata"}
    raw: dict[str, Any] = {key: value for key, value in top.items() if key not in spoken_for}
    raw |= {"candidate": candidate} if candidate else {}
    raw |= {"candidates": candidates[1:]} if candidates[1:] else {}
    raw |= {"blocks": notes} if notes else {}
    called = any(block.type == "tool_use" for block in content)
    return reply.message(
        content,
        model=top.get("modelVersion"),
        stop_reason=finish.stop_reason(reason, status, called=called, blocked=blocked and not candidates),
        usage=counted,
        raw=raw,
        status=status,
    )


def _camelled(native: Mapping[str, Any], without: Iterable[str] = ("candidates",)) -> dict[str, Any]:
    """An object's fields in camelCase, but for those that parts lie in."""
    found: dict[str, Any] = camel({key: value for key, value in native.items() if key not in without})[0]
    return found


def _content(native: Mapping[str, Any], reply: Reply) -> tuple[list[ContentBlock], dict[str, Any]]:
    blocks: list[ContentBlock] = []
    notes: dict[str, Any] = {}
    for index, part in enumerate(native.get("parts") or ()):
        call = _call(part)
        wire_id = call.get("id") if call else None
        block = parts.block(part, reply.call_id(index, wire_id) if call else "", reply.provider)
        blocks.append(block)
        if call and parts.RAW_INPUT in call:
            part = {**part, "functionCall": {key: call[key] for key in call if key != parts.RAW_INPUT}}
        if noted := parts.note(part, parts.part(block, wire_id)):
            notes[str(index)] = noted
    return blocks, notes


def _call(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    call = part.get("functionCall") or part.get("function_call")
    return call if isinstance(call, dict) else None


def tool_choice(config: Mapping[str, Any]) -> ToolChoice | None:
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


def options(
    native: Mapping[str, Any], adapter: "GoogleAdapter", context: RequestContext, conversation: Iterable[str]
) -> AdapterOptions:
    """The options of a request; what our own encoder would write otherwise is kept as the provider's own field.

    ``conversation`` names the fields that the messages and tools speak for. Whether to stream stands in the path.
    """
    body = _camelled(native, without=conversation)
    config = body.get("generationConfig") or {}
    offers = bool(native.get("tools"))
    thinking = config.get("thinkingConfig") or {}
    level = thinking.get("thinkingLevel")
    named: dict[str, Any] = {ours: config.get(theirs) for ours, theirs in SETTINGS.items()}
    read = AdapterOptions(
        **named,
        stop_sequences=tuple(config.get("stopSequences") or ()),
        tool_choice=tool_choice((body.get("toolConfig") or {}).get("functionCallingConfig") or {}),
        output_schema=_output_schema(config) if structured.is_native(adapter.capabilities, tools=offers) else None,
        effort=level.lower() if isinstance(level, str) else None,
        thinking=True if thinking.get("includeThoughts") is True else None,
        thinking_budget=thinking.get("thinkingBudget"),
        context=context,
    )
    written = parameters(Outgoing(adapter, read, context, (), []), tools=offers)
    spoken_for = set(conversation)
    extra = _leftover({key: value for key, value in native.items() if key not in spoken_for}, written)
    return replace(read, extra={adapter.provider: extra} if extra else {})


def _output_schema(config: Mapping[str, Any]) -> dict[str, Any] | None:
    if config.get("responseMimeType") != JSON:
        return None
    if isinstance(config.get("responseJsonSchema"), dict):
        found: dict[str, Any] = config["responseJsonSchema"]
        return found
    return json_schema(config["responseSchema"]) if isinstance(config.get("responseSchema"), dict) else None


def _leftover(native: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """What must be laid over what we would write to get the request as it was; ``...`` leaves a field out."""
    found: dict[str, Any] = {}
    for key, theirs in native.items():
        ours = written.get(key)
        if key in MERGED and isinstance(theirs, dict):
            if (inner := _leftover(theirs, ours or {})) or key not in written:
                found[key] = inner
        elif residue({key: theirs}, {key: ours} if key in written else {}):
            found[key] = theirs
    return found | {key: ... for key in written if key not in native}
