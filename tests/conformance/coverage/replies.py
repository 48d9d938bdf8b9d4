"""Events, stop reasons and parts that an SDK knows: Dragoman reads them without noting one that is unknown to it."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dragoman import DragomanError, RequestContext, WireResponse, get_adapter
from dragoman.adapter.errors import MALFORMED_ERRORS
from dragoman.adapter.replies.drift import drift_of
from dragoman.adapter.replies.framing import Frame
from tests.conformance.coverage.chunks import CHUNKS, reads_field
from tests.conformance.coverage.sdks import Sdk
from tests.conformance.coverage.shapes import to_json
from tests.conformance.coverage.typed import MODELS

_TEXT = {"role": "assistant", "content": "Hi"}
_REPLIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "anthropic": lambda stop: {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": stop, "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "openai": lambda stop: {
        "id": "r", "object": "response", "model": "m", "status": "incomplete", "incomplete_details": {"reason": stop},
        "output": [],
    },
    "openai-chat": lambda stop: {"id": "c", "model": "m", "choices": [{"finish_reason": stop, "message": _TEXT}]},
    "google": lambda stop: {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": stop}]},
    "bedrock": lambda stop: {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}}, "stopReason": stop, "usage": {},
    },
    "cohere": lambda stop: {
        "id": "c", "finish_reason": stop, "message": {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
    },
}  # fmt: skip
"""The smallest reply with a stop reason, by provider."""


def reads_stop_reason(provider: str, stop: str) -> bool:
    """Whether a reply with that stop reason has no unknown one."""
    model = f"{provider}:{MODELS[provider][0]}"
    response = WireResponse(status=200, headers={}, body=json.dumps(_REPLIES[provider](stop)).encode())
    message = get_adapter(model).from_wire_response(response, RequestContext.for_model(model))
    return not [each for each in drift_of(message) if each.kind == "stop_reason"]


def reads_event(provider: str, name: str) -> bool:
    """Whether the decoder knows an event of that name. Alone, most events are malformed: that is another question."""
    if provider in CHUNKS:
        return reads_field(provider, name)
    model = f"{provider}:{MODELS[provider][0]}"
    decoder: Any = get_adapter(model).decoder(RequestContext.for_model(model))  # type: ignore[attr-defined]
    if provider == "bedrock":
        decoder._native = {"output": {"message": {"role": "assistant"}}}  # its other events need a message
        frame = Frame(name, b"{}")
    else:
        field = "event_type" if provider == "google-interactions" else "type"
        frame = Frame(name, json.dumps({field: name}).encode())
    with suppress(DragomanError, *MALFORMED_ERRORS):
        for _ in decoder.read(frame):
            pass
    return not decoder.unknown_frames


_CONTENT: dict[str, Callable[[dict[str, Any], Any], dict[str, Any]]] = {
    "anthropic": lambda reply, part: {**reply, "content": [{"input": {}, **part}] if _is_call(part) else [part]},
    "openai": lambda reply, part: {**reply, "output": [part]},
    "bedrock": lambda reply, part: {**reply, "output": {"message": {"role": "assistant", "content": [part]}}},
}
"""Puts a part into a reply, by provider."""


def _is_call(part: Any) -> bool:
    return part.get("type") == "tool_use"  # the SDK's type of its input is any object


def unknown_names(provider: str, part: Any) -> list[str]:
    """Return the names in a reply of one part that Dragoman does not know."""
    model = f"{provider}:{MODELS[provider][0]}"
    native = _CONTENT[provider](_REPLIES[provider]("end_turn"), _without_aliases(to_json(part)))
    response = WireResponse(status=200, headers={}, body=json.dumps(native).encode())
    message = get_adapter(model).from_wire_response(response, RequestContext.for_model(model))
    return [f"{each.kind} {each.name}" for each in drift_of(message) if each.kind != "stop_reason"]


def _without_aliases(value: Any) -> Any:
    """Return a value whose names are not those that Python's keywords forced upon the SDK."""
    if isinstance(value, dict):
        return {name.rstrip("_"): _without_aliases(inner) for name, inner in value.items()}
    return [_without_aliases(each) for each in value] if isinstance(value, list) else value


def unread(sdk: Sdk) -> set[str]:
    """Return the events, the stop reasons and the names in parts of replies of an SDK that Dragoman does not know."""
    parts = {name for each in sdk.reply_parts() for name in unknown_names(sdk.provider, each)}
    stops = {f"stop reason {each}" for each in sdk.stop_reasons() if not reads_stop_reason(sdk.provider, each)}
    return parts | stops | {f"event {each}" for each in sdk.events() if not reads_event(sdk.provider, each)}
