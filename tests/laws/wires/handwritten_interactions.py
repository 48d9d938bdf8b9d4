"""Google's interactions by hand, as recorded ones look (ai.google.dev/gemini-api/docs/interactions/streaming)."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import RateLimitError, ServerError
from dragoman.testing.conformance.wire import UNKNOWN, Wire, compact, sse
from dragoman.testing.sample_reply import PLAIN, SampleReply


def _usage(sample: SampleReply) -> dict[str, Any]:
    prompt = sample.input_tokens + sample.cached_tokens
    return {
        "total_input_tokens": prompt,
        "total_cached_tokens": sample.cached_tokens,
        "total_output_tokens": sample.output_tokens,
        "total_thought_tokens": 0,
        "total_tool_use_tokens": 0,
        "total_tokens": prompt + sample.output_tokens,
    }


def _final(sample: SampleReply) -> dict[str, Any]:
    status = "requires_action" if sample.calls else "incomplete" if sample.truncated else "completed"
    head = {"id": "v1_handwritten", "object": "interaction", "model": "gemini-3-flash-preview"}
    return {**head, "status": status, "usage": _usage(sample)}


def _call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{call_id}", "name": name, "arguments": arguments}


def handwritten_whole(sample: SampleReply) -> bytes:
    steps: list[dict[str, Any]] = []
    if sample.thinking:
        summary = [{"type": "text", "text": "".join(sample.thinking)}]
        steps.append({"type": "thought", "summary": summary, "signature": "c2ln"})
    if sample.text:
        steps.append({"type": "model_output", "content": [{"type": "text", "text": "".join(sample.text)}]})
    steps += [_call(call.id, call.name, call.input) for call in sample.calls]
    return compact({**_final(sample), "steps": steps}).encode()


def handwritten_stream(sample: SampleReply) -> bytes:
    return b"".join(sse(event, event["event_type"]) for event in _events(sample)) + sse("[DONE]", "done")


def _events(sample: SampleReply) -> Iterator[dict[str, Any]]:
    created = {key: value for key, value in _final(sample).items() if key != "usage"}
    yield {"event_type": "interaction.created", "interaction": {**created, "status": "in_progress"}}
    yield {"event_type": "interaction.status_update", "interaction_id": created["id"], "status": "in_progress"}
    steps: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if sample.thinking:
        deltas: list[dict[str, Any]] = [
            {"type": "thought_summary", "content": {"type": "text", "text": piece}} for piece in sample.thinking
        ]
        steps.append(({"type": "thought"}, [*deltas, {"type": "thought_signature", "signature": "c2ln"}]))
    if sample.text:
        steps.append(({"type": "model_output"}, [{"type": "text", "text": piece} for piece in sample.text]))
    for call in sample.calls:
        pieces = [{"type": "arguments_delta", "arguments": piece} for piece in call.pieces]
        steps.append((_call(call.id, call.name, {}), pieces))
    for index, (step, deltas) in enumerate(steps):
        yield {"event_type": "step.start", "index": index, "step": step}
        for delta in deltas:
            yield {"event_type": "step.delta", "index": index, "delta": delta}
        yield {"event_type": "step.stop", "index": index}
    yield {"event_type": "interaction.completed", "interaction": _final(sample)}


def _error(code: str) -> bytes:
    return sse({"error": {"message": "It broke", "code": code}, "event_type": "error"}, "error")


WIRE = Wire(
    handwritten_stream,
    handwritten_whole,
    re.compile(rb'"event_type":\s*"interaction\.completed"'),
    ((_error("gateway_timeout"), ServerError), (_error("rate_limit_exceeded"), RateLimitError)),
    b": keep-alive\n\n",
    model="gemini-3-flash-preview",
    unknown_event=sse({"event_type": "hologram.delta", "index": 0}, "hologram.delta"),
    unknown_block=compact({**_final(PLAIN), "steps": [{"type": "hologram", "beam": UNKNOWN}]}).encode(),
)
