"""UMF events as JSON lines: envelopes, their payloads, and the conversation in them.

Source: docs/reference/umf.md#events.

UMF defines the payload of three events: messages, tool calls and tool results, which come from a history. Events of the
bus become ``system_signal`` or ``error``, which have no defined payload: theirs is the event itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field

from dragoman.adapter.errors import EventError
from dragoman.canonical.blocks import ContentBlock, ImageBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.guard import Count
from dragoman.canonical.log import get_logger, one_line
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.formats.document import copy_json_at, iter_entries, parse_json_or_lines, validating
from dragoman.formats.reading.blocks import to_text
from dragoman.formats.reading.fields import source_losses
from dragoman.formats.reading.tool_calls import ToolIdReader
from dragoman.formats.umf.convert import read_entry
from dragoman.formats.umf.models import InternalMessage, UmfModel

if TYPE_CHECKING:  # a bus hands its events over: formats stand without one
    from dragoman.events.event import Event

logger = get_logger("dragoman.events")  # the name that programs filter by

_Fields = dict[str, Any]
_LAST_TIME = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_ERRORS = frozenset({"llm.call_failed", "tool.failed"})
_ANY = "application/octet-stream"
_LAST_SEQUENCE = 2**32 - 1


class ModelInfo(UmfModel):
    model_name: str
    provider: str | None = None


class MessageEvent(UmfModel):
    event_id: str
    message: InternalMessage
    token_count: Count | None = None
    model_info: ModelInfo | None = None


class EventCall(UmfModel):
    id: str
    name: str
    arguments: Any = None


class McpContext(UmfModel):
    """The MCP server of a tool, and how it is reached."""

    server_name: str
    server_url: str | None = None
    transport: str | None = None


class ToolCallEvent(UmfModel):
    event_id: str
    message_event_id: str
    tool_call: EventCall
    status: Literal["pending", "executing", "completed", "failed", "cancelled"] = "pending"
    mcp_context: McpContext | None = None


class EventResult(UmfModel):
    tool_call_id: str
    content: Any = None
    is_error: bool = False


class ToolResultEvent(UmfModel):
    event_id: str
    tool_call_event_id: str
    result: EventResult
    duration_ms: Count | None = None
    error: str | None = None


_EVENTS: Mapping[str, type[MessageEvent | ToolCallEvent | ToolResultEvent]] = {
    "message": MessageEvent,
    "tool_call": ToolCallEvent,
    "tool_result": ToolResultEvent,
}


class Envelope(UmfModel):
    """One line of ``events.jsonl``. The payload is the whole event, which repeats the fields around it."""

    event_id: str
    event_type: Literal["message", "tool_call", "tool_result", "system_signal", "error"]
    session_id: str
    project_hash: str | None = None
    timestamp_ms: int = Field(ge=0, le=_LAST_TIME)
    sequence: int = Field(ge=0, lt=2**32)
    payload: dict[str, Any]

    def event(self, path: str = "$") -> MessageEvent | ToolCallEvent | ToolResultEvent | None:
        """Return the payload; None for kinds without a defined payload. Raises FormatError."""
        kind = _EVENTS.get(self.event_type)
        if kind is None:
            return None
        _report_unknown(kind, self.payload, f"{path}.payload")
        with validating(self.payload, f"{path}.payload"):
            return kind.model_validate(self.payload)


def from_umf_events(document: Any) -> list[Message]:
    """Read the conversation of a log. Calls and results that are in no message are added at their place in the log.

    Raises FormatError, with a path.
    """
    builder = _HistoryBuilder()
    data = parse_json_or_lines(document, format_name="UMF")
    data = [data] if isinstance(data, dict) else data  # a log of one line
    for path, fields in iter_entries(data, format_name="UMF"):
        _report_unknown(Envelope, fields, path)
        with validating(fields, path):
            envelope = Envelope.model_validate(fields)
        event = envelope.event(path)
        if isinstance(event, MessageEvent):
            builder.message(envelope, event, f"{path}.payload.message")
        elif isinstance(event, ToolCallEvent):
            builder.call(envelope, event)
        elif isinstance(event, ToolResultEvent):
            builder.result(envelope, event)
    return builder.messages


def _report_unknown(model: type[UmfModel], native: Any, path: str) -> None:
    """Report the fields that an event does not have. Those of a message are its reader's."""
    for name, value in native.items() if isinstance(native, dict) else ():
        info = model.model_fields.get(name)
        if info is None:
            source_losses().add_field(path, name, "umf-events")
            continue
        for inner in (info.annotation, *get_args(info.annotation)):
            if isinstance(inner, type) and issubclass(inner, UmfModel) and inner is not InternalMessage:
                _report_unknown(inner, value, f"{path}.{name}")


class _HistoryBuilder:
    """The messages so far, and the calls and results that they already have."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._ids = ToolIdReader()
        self._calls: dict[tuple[str, str], str] = {}
        self._replies: dict[str, int] = {}
        self._results: dict[str, int] = {}
        self._early_results: set[str] = set()

    def message(self, envelope: Envelope, event: MessageEvent, path: str) -> None:
        native = envelope.payload["message"]
        call_id = event.message.tool_call_id
        if event.message.role == "tool" and call_id in self._early_results:
            self._early_results.discard(call_id)
            return
        read, _ = read_entry(native, path, self._ids)
        # The session, the time and the model are those that the event names.
        located: list[Message] = []
        for each in read:
            updates: dict[str, Any] = {"session_id": envelope.session_id, "created_at": _time(envelope)}
            if not located:
                updates["id"] = event.message.metadata.get("message_id") or envelope.event_id.removeprefix("evt_")
            if (info := event.model_info) is not None and each.role is Role.ASSISTANT:
                model = info.model_name  # UMF has two fields, and the provider is optional
                if info.provider is not None and not model.startswith(f"{info.provider}:"):
                    model = f"{info.provider}:{model}"
                named = {"model": model, "provider": info.provider}
                updates["metadata"] = each.metadata.model_copy(update=named)
            located.append(each.model_copy(update=updates))
        start = len(self.messages)
        self.messages += located
        for index, message in enumerate(located, start):
            if message.role is Role.ASSISTANT:
                self._replies[event.event_id] = index
        uses = [block.id for block in event.message.blocks() if block.type == "tool_use"]
        own_ids = [call.id for message in located for call in message.tool_uses]
        self._calls |= {(event.event_id, native_id): own_id for native_id, own_id in zip(uses, own_ids, strict=True)}
        if event.message.role == "tool" and call_id is not None:
            self._results[call_id] = start

    def call(self, envelope: Envelope, event: ToolCallEvent) -> None:
        key = (event.message_event_id, event.tool_call.id)
        if key in self._calls:
            return
        arguments = copy_json_at(event.tool_call.arguments)
        is_object = isinstance(arguments, dict)
        block = ToolUseBlock(
            id=self._ids.call_id(event.tool_call.id),
            name=event.tool_call.name,
            input=arguments if is_object else {},
            raw_input=None if is_object or arguments is None else to_text(arguments),
        )
        self._calls[key] = block.id
        index = self._replies.get(event.message_event_id)
        if index is None:
            self._replies[event.message_event_id] = len(self.messages)
            self.messages.append(_message(envelope, Role.ASSISTANT, block))
            return
        message = self.messages[index]
        self.messages[index] = message.model_copy(update={"content": (*message.content, block)})

    def result(self, envelope: Envelope, event: ToolResultEvent) -> None:
        native = event.result.tool_call_id
        if (index := self._results.pop(native, None)) is not None:
            message = self.messages[index]
            failed = [block.model_copy(update={"is_error": True}) for block in message.tool_results]
            if event.result.is_error:
                self.messages[index] = message.model_copy(update={"content": tuple(failed)})
            return
        self._early_results.add(native)
        text = to_text(event.result.content)
        block = ToolResultBlock(
            tool_use_id=self._ids.result_id(native),
            content=(TextBlock(text=text),) if text else (),
            is_error=event.result.is_error,
        )
        self.messages.append(_message(envelope, Role.TOOL, block))


def _message(envelope: Envelope, role: Role, block: ToolUseBlock | ToolResultBlock) -> Message:
    parent = block.tool_use_id if isinstance(block, ToolResultBlock) else None
    return Message(
        role=role,
        content=(block,),
        session_id=envelope.session_id,
        created_at=_time(envelope),
        metadata=MessageMetadata(parent_tool_use_id=parent),
    )


def _time(envelope: Envelope) -> datetime:
    return datetime.fromtimestamp(envelope.timestamp_ms / 1000, UTC)


def signal_to_umf(event: "Event", sequence: int, *, project_hash: str | None = None) -> _Fields:
    """Return an event of the bus as an envelope. ``sequence`` is its position in the session, from 0."""
    common = _common(event.id, event.session_id, int(event.timestamp.timestamp() * 1000), sequence, project_hash)
    kind = "error" if event.type in _ERRORS else "system_signal"
    return _envelope(kind, common, event.as_dict())


def history_to_umf(messages: Sequence[Message], *, project_hash: str | None = None) -> Iterator[_Fields]:
    """Yield a history as envelopes: each message, followed by its calls, or by the result.

    Content without a UMF form (thinking, media other than images, channels) is left out with a log record at WARNING.
    """
    results = {result.tool_use_id: result for message in messages for result in message.tool_results}
    names: dict[str, str] = {}
    sequence = -1

    def envelope(kind: str, event_id: str, message: Message, fields: _Fields) -> _Fields:
        nonlocal sequence
        sequence += 1
        at = int(message.created_at.timestamp() * 1000)
        return _envelope(kind, _common(event_id, message.session_id, at, sequence, project_hash), fields)

    for message in messages:
        if message.channel is not None:
            logger.warning("UMF has no channels: message %s loses its %s", one_line(message.id), message.channel)
        yield envelope("message", f"evt_{message.id}", message, _message_fields(message, names))
        for call in message.tool_uses:
            names[call.id] = call.name
            answer = results.get(call.id)
            status = "pending" if answer is None else "failed" if answer.is_error else "completed"
            yield envelope("tool_call", f"evt_{call.id}", message, {
                "message_event_id": f"evt_{message.id}",
                "tool_call": {"id": call.id, "name": call.name, "arguments": _arguments(call)},
                "status": status,
            })  # fmt: skip
        for result in message.tool_results:
            content = _text(result.content, message)
            answer_fields = {"tool_call_id": result.tool_use_id, "content": content, "is_error": result.is_error}
            fields: _Fields = {"tool_call_event_id": f"evt_{result.tool_use_id}", "result": answer_fields}
            if result.is_error:
                fields["error"] = content
            yield envelope("tool_result", f"evt_{result.tool_use_id}_result", message, fields)


def _common(event_id: str, session_id: str, at: int, sequence: int, project_hash: str | None) -> _Fields:
    if not 0 <= sequence <= _LAST_SEQUENCE:
        raise EventError("a sequence of UMF must be a 32-bit number from 0")
    common: _Fields = {"event_id": event_id, "session_id": session_id}
    if project_hash is not None:
        common["project_hash"] = project_hash
    return common | {"timestamp_ms": max(at, 0), "sequence": sequence}


def _envelope(kind: str, common: _Fields, fields: _Fields) -> _Fields:
    """Build an envelope. UMF repeats the common fields: in the envelope, and in the event that is its payload."""
    return {"event_id": common["event_id"], "event_type": kind, **common, "payload": {**common, **fields}}


def _message_fields(message: Message, names: dict[str, str]) -> _Fields:
    role = "system" if message.role is Role.DEVELOPER else str(message.role)
    if not message.role.is_known:
        logger.warning("UMF has no role %s: message %s is the user's", one_line(role), one_line(message.id))
        role = "user"
    message_fields: _Fields = {"role": role, "content": _content(message), "metadata": {"message_id": message.id}}
    if message.role is Role.TOOL and message.tool_results:
        (result, *_) = message.tool_results
        message_fields["tool_call_id"] = result.tool_use_id
        if result.tool_use_id in names:
            message_fields["name"] = names[result.tool_use_id]
    event_fields: _Fields = {"message": message_fields}
    if message.usage is not None:
        event_fields["token_count"] = message.usage.output_tokens
    if message.metadata.model is not None:
        event_fields["model_info"] = {"model_name": message.metadata.model}
        if message.metadata.provider:
            event_fields["model_info"]["provider"] = message.metadata.provider
    return event_fields


def _content(message: Message) -> str | list[_Fields]:
    """Return the text of a message that is one text, otherwise its blocks."""
    if message.role is Role.TOOL:
        return "".join(_text(result.content, message) for result in message.tool_results)
    blocks = [block for block in message.content if not isinstance(block, ToolResultBlock)]
    if all(isinstance(block, TextBlock) for block in blocks):
        return message.text
    return [converted for block in blocks if (converted := _block_fields(block, message)) is not None]


def _block_fields(block: ContentBlock, message: Message) -> _Fields | None:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ToolUseBlock):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": _arguments(block)}
    if isinstance(block, ImageBlock) and block.source.kind == "base64":
        source = {"type": "base64", "media_type": block.media_type or _ANY, "data": block.source.data}
        return {"type": "image", "source": source}
    if isinstance(block, ImageBlock) and block.source.kind == "url":
        return {"type": "image", "source": {"type": "url", "url": block.source.data}}
    _log_left_out(block, message)
    return None


def _arguments(call: ToolUseBlock) -> Any:
    """Return the arguments of a call, or the raw text if they are not a JSON object."""
    return call.input if call.raw_input is None else call.raw_input


def _text(blocks: Iterable[ContentBlock], message: Message) -> str:
    """Return a result as the one text that UMF allows."""
    parts = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append(block.text)
        else:
            _log_left_out(block, message)
    return "".join(parts)


def _log_left_out(block: ContentBlock, message: Message) -> None:
    logger.warning("UMF has no form for the %s block of message %s: it is left out", block.type, message.id)
