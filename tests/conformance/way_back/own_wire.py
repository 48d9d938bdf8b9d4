"""The laws of the own wire: a reply is written as it was read, a stream says the same, an error stays the same."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman import DragomanError, Message, WireResponse
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.errors import ProviderError
from tests.conformance.outcomes import Difference, shorten
from tests.conformance.scope import wire_name
from tests.conformance.way_back.subjects import Recorded, own_side

OWN_WIRES = ("anthropic", "openai-chat", "openai-responses", "google", "google-vertex", "ollama")
"""The recorded providers whose wire is one that clients speak."""

_REPEATED = frozenset({
    "background", "completed_at", "created_at", "frequency_penalty", "instructions", "max_output_tokens",
    "max_tool_calls", "metadata", "output_text", "parallel_tool_calls", "presence_penalty", "prompt",
    "prompt_cache_key", "prompt_cache_retention", "reasoning", "safety_identifier", "store", "temperature", "text",
    "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
})  # fmt: skip
"""Fields of a response that repeat the request, times, and a text that clients make themselves."""


@dataclass(slots=True)
class OwnWire:
    """One recorded reply on its own wire. ``form`` is whole, stream or error."""

    recorded: Recorded
    form: str
    differences: list[Difference]


def compare(recorded: Recorded) -> Iterator[OwnWire]:
    """The law that applies to a recorded reply; none for the start of a background response."""
    if not recorded.exchange.is_genuine:
        return
    if isinstance(recorded.reply, DragomanError):
        yield OwnWire(recorded, "error", list(_error_differences(recorded, recorded.reply)))
    elif recorded.reply.metadata.status == "complete":
        if recorded.exchange.streamed:
            yield OwnWire(recorded, "stream", list(_stream_differences(recorded, recorded.reply)))
        elif isinstance(recorded.exchange.response, dict):
            yield OwnWire(recorded, "whole", list(_whole_differences(recorded, recorded.reply)))


def _whole_differences(recorded: Recorded, message: Message) -> Iterator[Difference]:
    adapter, _ = own_side(recorded.exchange)
    written = json.loads(adapter.to_wire_response(message, recorded.context).body)
    native = recorded.exchange.response
    if wire_name(recorded.exchange) == "openai-responses":
        native, written = ({key: each[key] for key in each if key not in _REPEATED} for each in (native, written))
    yield from _diff(_normal(native), _normal(written), "")


def _normal(value: Any, path: str = "") -> Any:
    """The normal form: a field that is null or empty is the same as none, and so is a count of 0 in the usage."""
    if isinstance(value, dict):
        items = {key: _normal(item, "usage" if key == "usage" else path) for key, item in value.items()}
        return {key: item for key, item in items.items() if not _is_empty(item, path)}
    return [_normal(item, path) for item in value] if isinstance(value, list) else value


def _is_empty(value: Any, path: str) -> bool:
    return value is None or value in ("", [], {}) or (path == "usage" and value == 0 and not isinstance(value, bool))


def _diff(native: Any, ours: Any, path: str) -> Iterator[Difference]:
    if isinstance(native, dict) and isinstance(ours, dict):
        for key in {**native, **ours}:
            yield from _diff(native.get(key), ours.get(key), f"{path}.{key}")
    elif isinstance(native, list) and isinstance(ours, list) and len(native) == len(ours):
        for one, other in zip(native, ours, strict=True):
            yield from _diff(one, other, f"{path}[]")
    elif native != ours or isinstance(native, bool) is not isinstance(ours, bool):
        yield Difference(path, f"{shorten(native)} -> {shorten(ours)}")


def _stream_differences(recorded: Recorded, message: Message) -> Iterator[Difference]:
    """The events, written and read again: the same content, stop reason, model, and the provider's own counts."""
    adapter, context = own_side(recorded.exchange)
    context.tool_ids = recorded.context.tool_ids
    context.client_fields = {**(context.client_fields or {}), "stream_options": {"include_usage": True}}
    body = b"".join(adapter.iter_encoded(recorded.events, context))
    again, fresh = own_side(recorded.exchange)
    last = list(again.iter_stream([body], fresh))[-1]
    if not isinstance(last, MessageComplete):
        yield Difference("no complete message", str(last))
        return
    before, after = _content_of(message), _content_of(last.message)
    for name in before:
        if before[name] != after[name]:
            yield Difference(name, f"{shorten(before[name])} -> {shorten(after[name])}")


def _content_of(message: Message) -> dict[str, Any]:
    """What a message says. Ids are made for each reading, and empty texts are left out."""
    content = [block.model_dump(mode="json") for block in message.content]
    for block in content:
        if block["type"] == "tool_use":
            del block["id"]
    usage = message.usage
    return {
        "content": [block for block in content if block["type"] != "text" or block["text"] or block["citations"]],
        "stop_reason": message.stop_reason,
        "model": message.metadata.model,
        "usage": usage and usage.model_dump(mode="json", exclude={"raw", "latency_ms"}),
    }


def _error_differences(recorded: Recorded, error: DragomanError) -> Iterator[Difference]:
    """The error as a client gets it, read by the client's own adapter: the same class, status, message and code."""
    adapter, context = own_side(recorded.exchange)
    written = adapter.to_wire_response(error, context)
    if recorded.exchange.status >= 400 and written.status != recorded.exchange.status:
        yield Difference("status", f"{recorded.exchange.status} -> {written.status}")
    again = adapter.error(written.status, written.body, WireResponse(written.status, b"", written.headers).headers)
    yield from _compare_errors(error, again)
    body = b"".join(adapter.iter_encoded(recorded.events, context))
    again_adapter, fresh = own_side(recorded.exchange)
    last = list(again_adapter.iter_stream([body], fresh))[-1]
    if not isinstance(last, ErrorEvent):
        yield Difference("a broken stream is complete", str(last))


def _compare_errors(error: DragomanError, again: DragomanError) -> Iterator[Difference]:
    if type(error) is not type(again) and isinstance(error, ProviderError) and error.status is not None:
        yield Difference("class", f"{type(error).__name__} -> {type(again).__name__}")
    if isinstance(error, ProviderError) and isinstance(again, ProviderError):
        if error.message not in again.message:
            yield Difference("message", f"{error.message} -> {again.message}")
        if error.retry_after is not None and again.retry_after != error.retry_after:
            yield Difference("retry_after", f"{error.retry_after} -> {again.retry_after}")
