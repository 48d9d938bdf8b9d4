"""Events as UMF envelopes, for programs that read its ``events.jsonl``. Source: docs/reference/umf.md#events.

UMF defines the payload of three events: messages, tool calls and tool results, which come from a history. Events of the
bus become ``system_signal`` or ``error``, which have no defined payload: theirs is the event itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dragoman.adapter.errors import EventError
from dragoman.canonical.blocks import ContentBlock, ImageBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.log import get_logger, one_line
from dragoman.canonical.message import Message, Role
from dragoman.events.event import Event

logger = get_logger("dragoman.events")

_ERRORS = frozenset({"llm.call_failed", "tool.failed"})
_ANY = "application/octet-stream"
_LAST_SEQUENCE = 2**32 - 1
_Fields = dict[str, Any]


def signal_to_umf(event: Event, sequence: int, *, project_hash: str | None = None) -> _Fields:
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
            yield envelope("tool_call", f"evt_{call.id}", message, {
                "message_event_id": f"evt_{message.id}",
                "tool_call": {"id": call.id, "name": call.name, "arguments": _arguments(call)},
                "status": _status(results.get(call.id)),
            })  # fmt: skip
        for result in message.tool_results:
            content = _text(result.content, message)
            result_fields: _Fields = {
                "tool_call_id": result.tool_use_id,
                "content": content,
                "is_error": result.is_error,
            }
            fields = {"tool_call_event_id": f"evt_{result.tool_use_id}", "result": result_fields}
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
        provider = message.metadata.provider
        event_fields["model_info"] = {"model_name": message.metadata.model} | (
            {"provider": provider} if provider else {}
        )
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


def _status(result: ToolResultBlock | None) -> str:
    if result is None:
        return "pending"
    return "failed" if result.is_error else "completed"
