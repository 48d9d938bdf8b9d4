"""Google's interactions by hand, as recorded ones look (ai.google.dev/gemini-api/docs/interactions/streaming)."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import RateLimitError, ServerError
from tests.laws.streams.said import Said
from tests.laws.streams.wire import Wire, compact, sse


def _usage(said: Said) -> dict[str, Any]:
    prompt = said.input_tokens + said.cached_tokens
    return {
        "total_input_tokens": prompt,
        "total_cached_tokens": said.cached_tokens,
        "total_output_tokens": said.output_tokens,
        "total_thought_tokens": 0,
        "total_tool_use_tokens": 0,
        "total_tokens": prompt + said.output_tokens,
    }


def _final(said: Said) -> dict[str, Any]:
    status = "requires_action" if said.calls else "incomplete" if said.cut else "completed"
    head = {"id": "v1_handwritten", "object": "interaction", "model": "gemini-3-flash-preview"}
    return {**head, "status": status, "usage": _usage(said)}


def _call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{call_id}", "name": name, "arguments": arguments}


def handwritten_whole(said: Said) -> bytes:
    steps: list[dict[str, Any]] = []
    if said.thinking:
        summary = [{"type": "text", "text": "".join(said.thinking)}]
        steps.append({"type": "thought", "summary": summary, "signature": "c2ln"})
    if said.text:
        steps.append({"type": "model_output", "content": [{"type": "text", "text": "".join(said.text)}]})
    steps += [_call(call.id, call.name, call.input) for call in said.calls]
    return compact({**_final(said), "steps": steps}).encode()


def handwritten_stream(said: Said) -> bytes:
    return b"".join(sse(event, event["event_type"]) for event in _events(said)) + sse("[DONE]", "done")


def _events(said: Said) -> Iterator[dict[str, Any]]:
    created = {key: value for key, value in _final(said).items() if key != "usage"}
    yield {"event_type": "interaction.created", "interaction": {**created, "status": "in_progress"}}
    yield {"event_type": "interaction.status_update", "interaction_id": created["id"], "status": "in_progress"}
    steps: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if said.thinking:
        deltas: list[dict[str, Any]] = [
            {"type": "thought_summary", "content": {"type": "text", "text": piece}} for piece in said.thinking
        ]
        steps.append(({"type": "thought"}, [*deltas, {"type": "thought_signature", "signature": "c2ln"}]))
    if said.text:
        steps.append(({"type": "model_output"}, [{"type": "text", "text": piece} for piece in said.text]))
    for call in said.calls:
        pieces = [{"type": "arguments_delta", "arguments": piece} for piece in call.pieces]
        steps.append((_call(call.id, call.name, {}), pieces))
    for index, (step, deltas) in enumerate(steps):
        yield {"event_type": "step.start", "index": index, "step": step}
        for delta in deltas:
            yield {"event_type": "step.delta", "index": index, "delta": delta}
        yield {"event_type": "step.stop", "index": index}
    yield {"event_type": "interaction.completed", "interaction": _final(said)}


def _error(code: str) -> bytes:
    return sse({"error": {"message": "It broke", "code": code}, "event_type": "error"}, "error")


WIRE = Wire(
    handwritten_stream,
    handwritten_whole,
    re.compile(rb'"event_type":\s*"interaction\.completed"'),
    ((_error("gateway_timeout"), ServerError), (_error("rate_limit_exceeded"), RateLimitError)),
    b": keep-alive\n\n",
)
