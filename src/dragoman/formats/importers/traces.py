"""Traces of programs: spans and log records with the conventions of OpenTelemetry or of OpenInference.

Traces with OpenTelemetry's conventions for generative AI: spans and log records that hold whole messages.

Spans are read as the Python SDK prints them, and as OTLP sends them in JSON. A request that continues an earlier one of
its trace replaces it. Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans.

Spans with the conventions of OpenInference: the calls of a model.

A span repeats the messages in flat attributes, and has the request and the reply as they were sent. The latter say
more and are read if a known API or LangChain wrote them. A span that continues an earlier one replaces it.
Source: https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md.
"""

from collections.abc import Iterator
from typing import Any

from pydantic_core import to_json

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import ContentBlock, ThinkingBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.document import (
    copy_json_at,
    dig,
    kind_of,
    nested_objects_in,
    objects_in,
    parse,
    parse_json_or_lines,
    parse_or_none,
    text_in,
)
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.langchain import from_langchain
from dragoman.formats.native import read_reply, read_request
from dragoman.formats.reading.blocks import (
    build_usage,
    count_of,
    media_block,
    media_from_url,
    model_fields_of,
    provider_block,
    text_blocks,
    to_text,
)
from dragoman.formats.reading.fields import Fields, is_empty, source_losses, typed_errors, words_of
from dragoman.formats.reading.turns import Turns, read_time, stop_after
from dragoman.formats.results import Conversation

FORMAT = "otel"
INPUT, OUTPUT, SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"
ALL = "pydantic_ai.all_messages"


@typed_errors
def from_otel(document: Any) -> list[Conversation]:
    """Return the conversations in spans or log records. Raises FormatError, with a path, if there are none."""
    data = parse_json_or_lines(document, format_name=FORMAT)
    if isinstance(data, list) and data and all(isinstance(item, dict) and "parts" in item for item in data):
        data = {"attributes": {INPUT: data}}  # the messages alone
    chosen: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    keys: dict[str, list[list[bytes]]] = {}
    for path, record in list(_find_records(data)):
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


_TRACE, _STARTED = "trace", "started"
"""Where the id of the trace and its time are kept among the attributes, whose own names have a dot."""


def _find_records(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the attributes of all spans and records that hold messages, in order."""
    for value, path in iter_spans(document, "$"):
        attributes = attributes_of(value["attributes"])
        if not (INPUT in attributes or OUTPUT in attributes or ALL in attributes):
            continue
        report_span(value, attributes, path, FORMAT)
        trace = dig(value, "context", "trace_id") or value.get("trace_id") or value.get("traceId")
        times = (value.get(name) for name in ("start_time", "startTimeUnixNano", "observed_timestamp"))
        started = next((time for time in times if time is not None), None)
        yield f"{path}.attributes", {**attributes, _TRACE: trace, _STARTED: started}


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
    models = (record.get(name) for name in ("gen_ai.response.model", "gen_ai.request.model", "model_name"))
    provider = text_in(record.get("gen_ai.provider.name"), record.get("gen_ai.system"))
    named = model_fields_of(FORMAT, provider, text_in(*models))
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
        role = message.role()
        stop = message.stop_reason("finish_reason")
        parts = message.objects("parts")
        turns.start(role, has_results=any(part.look("type") == "tool_call_response" for part in parts))
        blocks = [block for part in parts for block in _part(part, turns)]
        usage = _usage(record, "gen_ai.usage", FORMAT) if is_reply else None
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
            return [media_block("base64", data, _media_type(part), kind=_modality(part))]
        case "uri":
            return [media_from_url(part.required_text("uri"), _media_type(part), kind=_modality(part))]
        case "image-url" | "audio-url" | "video-url" | "document-url":
            return [media_from_url(part.required_text("url"), _media_type(part), kind=kind.removesuffix("-url"))]
        case "file":
            return [media_block("file_id", part.required_text("file_id"), _media_type(part), kind=_modality(part))]
        case _:
            return [provider_block(FORMAT, kind, part.whole())]


def _media_type(part: Fields) -> str | None:
    return part.text("mime_type", "media_type")


def _modality(part: Fields) -> str | None:
    modality = part.text("modality")
    return modality if modality in ("image", "audio", "video") else None


def _usage(record: dict[str, Any], prefix: str, format_name: str) -> Usage | None:
    counts = words_of(format_name).counts
    return build_usage(**{
        field: count_of(record, *(f"{prefix}.{name}" for name in names)) for field, names in counts.items()
    })  # fmt: skip


_OPENINFERENCE = "openinference"
KIND = "openinference.span.kind"

_REPLIES = {"chat.completion": "openai-chat", "response": "openai"}


@typed_errors
def from_openinference(document: Any) -> list[Conversation]:
    """Return the conversations in the spans of models. Raises FormatError, with a path, if there are none."""
    data = parse_json_or_lines(document, format_name=_OPENINFERENCE)
    found: dict[int, tuple[str, list[Message]]] = {}
    for span, path in iter_spans(data, "$"):
        attributes = attributes_of(span.get("attributes"))
        if attributes.get(KIND) not in ("LLM", None) or not any(
            name.startswith(("llm.input_messages.", "llm.output_messages.", "llm.model_name")) for name in attributes
        ):
            continue
        report_span(span, attributes, path, _OPENINFERENCE)
        raw = _read_raw(attributes, f"{path}.attributes")
        messages = raw if raw is not None else _Attributes(span, attributes, f"{path}.attributes").read()
        # A key for each beginning of the list, the empty one first.
        keys = [0]
        for message in messages:
            calls = tuple((call.name, to_text(call.input)) for call in message.tool_uses)
            keys.append(hash((keys[-1], str(message.role), message.text, calls)))
        # The longest beginning that is known is the span that this one continues.
        found.pop(next((key for key in reversed(keys) if key in found), keys[-1]), None)
        found[keys[-1]] = (to_text(attributes.get("session.id")) or str(len(found) + 1), messages)
    if not found:
        raise FormatError("no span is one of a model with messages")
    names: dict[str, int] = {}
    read = []
    for name, messages in found.values():
        names[name] = names.get(name, 0) + 1
        read.append(Conversation(name if names[name] == 1 else f"{name}-{names[name]}", messages))
    return read


def _read_raw(attributes: dict[str, Any], path: str) -> list[Message] | None:
    """Return the messages of a request with its reply; None if no known API and not LangChain wrote them."""
    values = (to_text(attributes.get(f"{side}.value")) for side in ("input", "output"))
    request, reply = (parse_or_none(value, format_name=_OPENINFERENCE) for value in values)
    if not isinstance(request, dict) or not isinstance(reply, dict):
        return None
    sent, generations = request.get("messages"), reply.get("generations")
    if isinstance(generations, list) and isinstance(sent, list):
        answers = objects_in([each.get("message") for each in nested_objects_in(generations)[:1]])
        return from_langchain([*nested_objects_in(sent), *answers])
    provider = _REPLIES.get(to_text(reply.get("object")))
    if provider is None and reply.get("type") == "message" and isinstance(reply.get("content"), list):
        provider = "anthropic"
    if provider is None or not isinstance(request.get("input" if provider == "openai" else "messages"), (list, str)):
        return None
    model = request.get("model")
    known = {"system", "instructions", "messages", "input", "model"}
    body = {name: value for name, value in request.items() if name in known}
    messages = read_request(provider, body, f"{path}['input.value']")
    return [*messages, read_reply(provider, {"model": model, **reply}, f"{path}['output.value']")]


class _Attributes:
    """Reads a span whose request is not stored: from its flat attributes."""

    def __init__(self, span: dict[str, Any], attributes: dict[str, Any], path: str) -> None:
        self._turns = Turns()
        self._attributes = attributes
        self._path = path
        self._time = read_time(span.get("start_time", span.get("startTimeUnixNano")))

    def read(self) -> list[Message]:
        llm = nest({name: value for name, value in self._attributes.items() if name.startswith("llm.")})
        for side in ("input_messages", "output_messages"):
            for number, each in enumerate(_listed(dig(llm, "llm", side))):
                at = f"{self._path}['llm.{side}.{number}']"
                native = dig(each, "message")
                if not isinstance(native, dict):
                    raise FormatError(f"a message must be an object, not {kind_of(native)}", path=at)
                fields = Fields(native, f"{at}.message", _OPENINFERENCE)
                self._message(fields, is_reply=side == "output_messages")
                fields.close()
        return self._turns.messages

    def _message(self, message: Fields, *, is_reply: bool) -> None:
        word = to_text(message.take("role")) or ("assistant" if is_reply else "user")
        role = words_of(_OPENINFERENCE).roles.get(word.lower())
        if role is None:
            raise FormatError(f"unknown role {word[:80]!r}", path=f"{message.path}.role")
        native_id, name = message.text("tool_call_id"), message.text("name")
        self._turns.start(role)
        blocks = [block for item in _listed(message.take("contents")) for block in self._content(item, message)]
        content = message.take("content")
        blocks = blocks or text_blocks(content)
        for item in _listed(message.take("tool_calls")):
            if isinstance(call := dig(item, "tool_call"), dict):
                fields = message.adopt(call, f"{message.path}.tool_calls")
                call_id, function = fields.text("id"), fields.object("function")
                if function is None:
                    raise fields.fault("function", "is missing")
                blocks.append(self._turns.call(call_id, function.required_text("name"), function.take("arguments")))
        if role is Role.TOOL:
            blocks = [self._turns.result(native_id, name, blocks)]
        metadata: dict[str, Any] | None = None
        if role is Role.ASSISTANT:
            provider = text_in(self._attributes.get("llm.provider"), self._attributes.get("llm.system"))
            named = model_fields_of(_OPENINFERENCE, provider, text_in(self._attributes.get("llm.model_name")))
            usage = _usage(self._attributes, "llm.token_count", _OPENINFERENCE) if is_reply else None
            metadata = {**named, "usage": usage}
        self._turns.add(role, blocks, message.path, metadata=metadata, created_at=self._time if is_reply else None)

    def _content(self, item: Any, message: Fields) -> list[ContentBlock]:
        native = dig(item, "message_content")
        if not isinstance(native, dict):
            return []  # a call, which is among the calls as well
        part = message.adopt(native, f"{message.path}.contents")
        match part.take("type"):
            case "text" | None:
                return text_blocks(part.take("text"))
            case "reasoning":
                return [ThinkingBlock(text=to_text(part.take("text", "reasoning")), signature=part.text("signature"))]
            case "image":
                url = dig(part.take("image"), "image", "url")
                return [media_from_url(url, kind="image")] if isinstance(url, str) else []
            case "audio":
                audio = dig(part.take("audio"), "audio")
                return [media_block("url", to_text(dig(audio, "url")), dig(audio, "mime_type"), kind="audio")]
            case "tool_use":
                part.whole()
                return []
            case other:
                return [provider_block(_OPENINFERENCE, to_text(other), part.whole())]


def _listed(value: Any) -> list[Any]:
    """Return the items of a list, or of an object whose keys are positions."""
    if isinstance(value, dict):
        return [value[key] for key in sorted(value, key=lambda key: (len(key), key)) if key.isdigit()]
    return value if isinstance(value, list) else []


_MAX_LEVELS = 8
"""Levels of an export between its root and its spans."""
_LISTS = ("resourceSpans", "scopeSpans", "spans", "resourceLogs", "scopeLogs", "logRecords", "logs")
_MAX_NESTING = 16


def iter_spans(value: Any, path: str, level: int = 0) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the spans and log records of an export, with their paths, in order."""
    if level > _MAX_LEVELS:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from iter_spans(item, f"{path}[{index}]", level + 1)
    elif isinstance(value, dict):
        if "attributes" in value:
            yield value, path
        for name in _LISTS:
            yield from iter_spans(value.get(name), f"{path}.{name}", level + 1)


def report_span(span: dict[str, Any], attributes: dict[str, Any], path: str, format_name: str) -> None:
    """Report what a span has that is not a field of all spans, and the attributes that are none of the conventions'."""
    losses, known = source_losses(), words_of("spans").skipped
    context = span.get("context")
    for name in context if isinstance(context, dict) else ():
        if name not in known["context"]:
            losses.add_field(f"{path}.context", name, format_name)
    for name, value in span.items():
        if name not in known["span"] and not is_empty(value):
            losses.add_field(path, name, format_name)
    prefixes = tuple(words_of(format_name).skipped["prefixes"])
    for name, value in attributes.items():
        if not name.startswith(prefixes) and not is_empty(value):
            losses.add_field(f"{path}.attributes", name, format_name)


def attributes_of(native: Any) -> dict[str, Any]:
    """Return attributes by name, from an object or from OTLP's list of keys and values."""
    if isinstance(native, dict):
        return native
    items = (item for item in objects_in(native) if isinstance(item.get("key"), str))
    return {item["key"]: _value(item.get("value")) for item in items}


def _value(native: Any) -> Any:
    if not isinstance(native, dict):
        return native
    if "arrayValue" in native:
        return [_value(each) for each in dig(native, "arrayValue", "values") or ()]
    if "kvlistValue" in native:
        return attributes_of(dig(native, "kvlistValue", "values"))
    if "intValue" in native:
        text = to_text(native["intValue"])
        return int(text) if text.lstrip("-").isdigit() and len(text) < 20 else text  # OTLP sends integers as texts
    return next(iter(native.values()), None)


def nest(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return flat attributes as objects: a dot in a name is a level."""
    root: dict[str, Any] = {}
    for name, value in attributes.items():
        *outer, last = name.split(".", _MAX_NESTING)
        level = root
        for step in outer:
            below = level.setdefault(step, {})
            if not isinstance(below, dict):
                break
            level = below
        else:
            level[last] = value
    return root
