"""Traces with OpenTelemetry's conventions for generative AI: spans and log records that hold whole messages.

Spans are read as the Python SDK prints them, and as OTLP sends them in JSON. A request that continues an earlier one of
its trace replaces it. Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans.
"""

from collections.abc import Iterator
from typing import Any

from pydantic_core import to_json

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import ContentBlock, MediaSource, ThinkingBlock
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.canonical.usage import Usage
from dragoman.formats.document import copy_json_at, kind_of, parse, parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.blocks import (
    build_usage,
    count_of,
    media_block,
    media_from_url,
    model_fields_of,
    provider_block,
    text_blocks,
    to_text,
)
from dragoman.formats.reading.fields import ROLES, Fields, typed_errors
from dragoman.formats.reading.losses import is_empty, source_losses
from dragoman.formats.reading.spans import attributes_of, iter_spans, report_span
from dragoman.formats.reading.turns import STOP_WORDS, Turns, read_time, stop_after
from dragoman.formats.results import Conversation

FORMAT = "otel"
INPUT, OUTPUT, SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"
ALL = "pydantic_ai.all_messages"

_STOP_REASONS = {**STOP_WORDS, "tool_call": StopReason.TOOL_USE, "error": StopReason.ERROR}


@typed_errors
def from_otel(document: Any) -> list[Conversation]:
    """Return the conversations in spans or log records. Raises FormatError, with a path, if there are none."""
    data = parse_json_or_lines(document, format_name=FORMAT)
    if isinstance(data, list) and data and all(isinstance(item, dict) and "parts" in item for item in data):
        data = {"attributes": {INPUT: data}}  # the messages alone
    records = list(_find_records(data))
    chosen: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    keys: dict[str, list[list[bytes]]] = {}
    for path, record in records:
        name = to_text(record.get("gen_ai.conversation.id") or record.get(_TRACE)) or "1"
        messages = _messages(record, ALL, path) or [*_messages(record, INPUT, path), *_messages(record, OUTPUT, path)]
        lines = [to_json({"role": each.get("role"), "parts": each.get("parts")}) for each, _ in messages]
        known, kept = keys.setdefault(name, []), chosen.setdefault(name, [])
        for index, before in enumerate(known):
            if lines[: len(before)] == before or before[: len(lines)] == lines:
                if len(lines) > len(before):
                    known[index], kept[index] = lines, (path, record)
                break
        else:
            known.append(lines)
            kept.append((path, record))
    found = [
        Conversation(name if len(kept) == 1 else f"{name}-{number}", _read(record, path))
        for name, kept in chosen.items()
        for number, (path, record) in enumerate(kept, 1)
    ]
    if not found:
        raise FormatError(f"no span or log record has messages: they are in {INPUT}, if a program records content")
    return found


_TRACE = "trace"
"""Where the id of the trace is kept among the attributes; no attribute has this name without a dot."""


def _find_records(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the attributes of all spans and records that hold messages, in order."""
    for value, path in iter_spans(document, "$"):
        attributes = attributes_of(value["attributes"])
        if not (INPUT in attributes or OUTPUT in attributes or ALL in attributes):
            continue
        report_span(value, path, FORMAT)
        for name, given in attributes.items():
            if not name.startswith(_PREFIXES) and name not in _OTHER_ATTRIBUTES and not is_empty(given):
                source_losses().add_field(f"{path}.attributes", name, FORMAT)
        context = value.get("context")
        trace = context.get("trace_id") if isinstance(context, dict) else None
        times = (value.get(name) for name in ("start_time", "startTimeUnixNano", "observed_timestamp"))
        started = next((time for time in times if time is not None), None)
        yield f"{path}.attributes", {
            **attributes, _TRACE: trace or value.get("trace_id") or value.get("traceId"), _STARTED: started,
        }  # fmt: skip


_STARTED = "started"
_PREFIXES = (
    "gen_ai.",
    "server.",
    "logfire.",
    "operation.",
    "pydantic_ai.",
    "openai.",
    "error.",
    "http.",
    "aws.",
    "azure.",
)
_OTHER_ATTRIBUTES = frozenset({"model_request_parameters", "model_name", "agent_name", "final_result"})


def _messages(record: dict[str, Any], name: str, path: str) -> list[tuple[dict[str, Any], str]]:
    value = record.get(name)
    at = f"{path}['{name}']"
    if value is None:
        return []
    try:
        value = copy_json_at(parse(value, format_name=FORMAT), at)
    except FormatError as error:
        raise FormatError(error.reason, path=at) from None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise FormatError(f"messages must be a list of objects, not {kind_of(value)}", path=at)
    return [(item, f"{at}[{index}]") for index, item in enumerate(value)]


def _read(record: dict[str, Any], path: str) -> list[Message]:
    turns = Turns()
    time = read_time(record.get(_STARTED))
    named = model_fields_of(
        FORMAT,
        _text(record, "gen_ai.provider.name") or _text(record, "gen_ai.system"),
        _text(record, "gen_ai.response.model") or _text(record, "gen_ai.request.model") or _text(record, "model_name"),
    )
    listed = _messages(record, ALL, path)
    outputs = [] if listed else _messages(record, OUTPUT, path)
    listed = listed or _messages(record, INPUT, path)
    system = _messages(record, SYSTEM, path)
    if system and not any(message.get("role") == "system" for message, _ in listed):
        parts = [Fields(part, at, FORMAT) for part, at in system]
        blocks = [block for part in parts for block in _part(part, turns)]
        for part in parts:
            part.close()
        turns.add(Role.SYSTEM, blocks, f"{path}['{SYSTEM}']", created_at=time)
    if len(outputs) > 1:
        reason = "a conversation has one continuation: the other answers are left out"
        source_losses().add(f"{path}['{OUTPUT}']", reason, kind=LossKind.EMPTY_MESSAGE)
    last = [(*each, True) for each in outputs[:1]]
    for native, at, is_reply in [*((message, at, False) for message, at in listed), *last]:
        message = Fields(native, at, FORMAT)
        role = message.role(ROLES)
        stop = _STOP_REASONS.get(message.text("finish_reason") or "")
        parts = message.objects("parts")
        turns.start(role, has_results=any(part.look("type") == "tool_call_response" for part in parts))
        blocks = [block for part in parts for block in _part(part, turns)]
        usage = _usage(record) if is_reply else None
        metadata = {**named, "usage": usage, "stop_reason": stop_after(blocks, stop)}
        turns.add(role, blocks, message.path, metadata=metadata if role is Role.ASSISTANT else None)
        message.close()
    return turns.messages


def _part(part: Fields, turns: Turns) -> list[ContentBlock]:
    kind = part.text("type") or ""
    match kind:
        case "text":
            return text_blocks(part.take("content"))
        case "reasoning" | "thinking":
            return [ThinkingBlock(text=to_text(part.take("content")))]
        case "tool_call" | "tool_call_response" if part.look("builtin") is True:
            return [provider_block(FORMAT, part.text("name") or kind, part.whole())]
        case "tool_call":
            name = part.required_text("name")
            return [turns.call(part.text("id"), name, part.take("arguments"))]
        case "tool_call_response":
            content = text_blocks(part.take("response", "result"))
            return [turns.result(part.text("id"), part.text("name"), content)]
        case "blob" | "binary":
            data = part.required_text("content", "data")
            return [media_block(MediaSource(kind="base64", data=data), _media_type(part), kind=_modality(part))]
        case "uri":
            return [media_from_url(part.required_text("uri"), _media_type(part), kind=_modality(part))]
        case "image-url" | "audio-url" | "video-url" | "document-url":
            return [media_from_url(part.required_text("url"), _media_type(part), kind=kind.removesuffix("-url"))]
        case "file":
            source = MediaSource(kind="file_id", data=part.required_text("file_id"))
            return [media_block(source, _media_type(part), kind=_modality(part))]
        case _:
            return [provider_block(FORMAT, kind, part.whole())]


def _media_type(part: Fields) -> str | None:
    return part.text("mime_type", "media_type")


def _modality(part: Fields) -> str | None:
    modality = part.text("modality")
    return modality if modality in ("image", "audio", "video") else None


def _usage(record: dict[str, Any]) -> Usage | None:
    def count(*names: str) -> int | None:
        return count_of(record, *(f"gen_ai.usage.{name}" for name in names))

    return build_usage(
        count("input_tokens", "prompt_tokens"),
        count("output_tokens", "completion_tokens"),
        cached=count("cache_read.input_tokens", "details.cache_read_input_tokens"),
        written=count("cache_creation.input_tokens", "details.cache_creation_input_tokens"),
        reasoning_tokens=count("reasoning.output_tokens", "details.reasoning_tokens"),
    )


def _text(record: dict[str, Any], name: str) -> str | None:
    value = record.get(name)
    return value if isinstance(value, str) and value else None
