"""Events and stop reasons that an SDK knows: Dragoman reads them without noting one that is unknown to it."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dragoman import DragomanError, RequestContext, WireResponse, get_adapter
from dragoman.adapter.replies.drift import drift_of
from dragoman.adapter.replies.framing import Frame
from dragoman.adapter.replies.stream_decoder import MALFORMED_ERRORS
from tests.conformance.coverage.chunks import CHUNKS, reads_field
from tests.conformance.coverage.sdks import Sdk
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


def unread(sdk: Sdk) -> set[str]:
    """Return the events and the stop reasons of an SDK that Dragoman does not know."""
    stops = {f"stop reason {each}" for each in sdk.stop_reasons() if not reads_stop_reason(sdk.provider, each)}
    return stops | {f"event {each}" for each in sdk.events() if not reads_event(sdk.provider, each)}
