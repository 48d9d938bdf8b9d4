"""UMF events as JSON lines: envelopes, their payloads, and the conversation in them. Source:
docs/reference/umf.md#events.

`dragoman.events.umf` writes the events of a history; they are read here.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from pydantic import Field
from pydantic_core import to_json

from dragoman.canonical.blocks import TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.guard import Count
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.formats.document import copy_json_at, iter_entries, parse_json_or_lines, validating
from dragoman.formats.reading.losses import source_losses
from dragoman.formats.tool_calls import ToolIdReader
from dragoman.formats.umf.convert import read_entry
from dragoman.formats.umf.models import InternalMessage, UmfModel

_LAST_TIME = 253_402_300_799_999
"""The last millisecond of the year 9999."""


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


class Envelope(UmfModel):
    """One line of ``events.jsonl``. The payload is the whole event, which repeats the fields around it."""

    event_id: str
    event_type: Literal["message", "tool_call", "tool_result", "system_signal", "error"]
    session_id: str
    project_hash: str | None = None
    timestamp_ms: int = Field(ge=0, le=_LAST_TIME)
    sequence: int = Field(ge=0, lt=2**32)
    payload: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True) | {"payload": self.payload}

    def event(self, path: str = "$") -> MessageEvent | ToolCallEvent | ToolResultEvent | None:
        """Return the payload; None for kinds without a defined payload. Raises FormatError."""
        kinds: dict[str, type[MessageEvent | ToolCallEvent | ToolResultEvent]] = {
            "message": MessageEvent,
            "tool_call": ToolCallEvent,
            "tool_result": ToolResultEvent,
        }
        kind = kinds.get(self.event_type)
        if kind is None:
            return None
        _report_unknown(kind, self.payload, f"{path}.payload")
        with validating(self.payload, f"{path}.payload"):
            return kind.model_validate(self.payload)


def read_envelopes(document: Any) -> list[Envelope]:
    """Read the envelopes of a document: JSON lines, or a list of objects. Raises FormatError, with the line in its
    path.
    """
    return [envelope for _, envelope in _envelopes(document)]


def write_lines(envelopes: Iterable[Envelope]) -> str:
    """Return one line for each envelope, each with a line break."""
    return "".join(to_json(envelope.as_dict()).decode() + "\n" for envelope in envelopes)


def from_umf_events(document: Any) -> list[Message]:
    """Read the conversation of a log. Calls and results that are in no message are added at their place in the log.

    Raises FormatError, with a path.
    """
    builder = _HistoryBuilder()
    for path, envelope in _envelopes(document):
        event = envelope.event(path)
        if isinstance(event, MessageEvent):
            builder.message(envelope, event, f"{path}.payload.message")
        elif isinstance(event, ToolCallEvent):
            builder.call(envelope, event)
        elif isinstance(event, ToolResultEvent):
            builder.result(envelope, event)
    return builder.messages


def _envelopes(document: Any) -> Iterator[tuple[str, Envelope]]:
    document_json = parse_json_or_lines(document, format_name="UMF")
    document_json = [document_json] if isinstance(document_json, dict) else document_json  # a log of one line
    for path, fields in iter_entries(document_json, format_name="UMF"):
        _report_unknown(Envelope, fields, path)
        with validating(fields, path):
            yield path, Envelope.model_validate(fields)


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
        located = [_locate(message, envelope, event, first=index == 0) for index, message in enumerate(read)]
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
            raw_input=None if is_object or arguments is None else _text(arguments),
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
        text = _text(event.result.content)
        block = ToolResultBlock(
            tool_use_id=self._ids.result_id(native),
            content=(TextBlock(text=text),) if text else (),
            is_error=event.result.is_error,
        )
        self.messages.append(_message(envelope, Role.TOOL, block))


def _locate(message: Message, envelope: Envelope, event: MessageEvent, *, first: bool) -> Message:
    """Return the message with the session and model that the event names."""
    updates: dict[str, Any] = {"session_id": envelope.session_id, "created_at": _time(envelope)}
    if first:
        updates["id"] = event.message.metadata.get("message_id") or envelope.event_id.removeprefix("evt_")
    info = event.model_info
    if info is not None and message.role is Role.ASSISTANT:
        model_fields = {"model": _model_id(info), "provider": info.provider}
        updates["metadata"] = message.metadata.model_copy(update=model_fields)
    return message.model_copy(update=updates)


def _model_id(info: ModelInfo) -> str:
    """Return the id with its provider. UMF has two fields, and the provider is optional."""
    if info.provider is None or info.model_name.startswith(f"{info.provider}:"):
        return info.model_name
    return f"{info.provider}:{info.model_name}"


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


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value).decode()
