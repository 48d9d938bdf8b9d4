"""The Responses wire by hand (docs/reference/wires/openai-responses.md)."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import ProviderError, RateLimitError, ServerError
from dragoman.testing.conformance.wire import UNKNOWN, Wire, compact, sse
from dragoman.testing.sample_reply import PLAIN, SampleReply


def _items(sample: SampleReply) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if sample.thinking:
        summary = [{"type": "summary_text", "text": "".join(sample.thinking)}]
        items.append({"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "c2ln"})
    if sample.text:
        part = {"type": "output_text", "text": "".join(sample.text), "annotations": []}
        items.append({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]})
    items += [
        {"id": f"fc_{call.id}", "type": "function_call", "call_id": f"call_{call.id}", "name": call.name,
         "arguments": call.arguments, "status": "completed"}
        for call in sample.calls
    ]  # fmt: skip
    return items


def _response(sample: SampleReply, **fields: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "object": "response", "model": "gpt-5.1", "status": "in_progress", "output": []}
    return {**response, **fields}


def _final(sample: SampleReply) -> dict[str, Any]:
    usage = {
        "input_tokens": sample.input_tokens + sample.cached_tokens,
        "input_tokens_details": {"cached_tokens": sample.cached_tokens},
        "output_tokens": sample.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sample.input_tokens + sample.cached_tokens + sample.output_tokens,
    }
    why = {"reason": "max_output_tokens"} if sample.truncated else None
    status = "incomplete" if sample.truncated else "completed"
    return _response(sample, status=status, output=_items(sample), usage=usage, incomplete_details=why)


def handwritten_whole(sample: SampleReply) -> bytes:
    return compact(_final(sample)).encode()


def handwritten_stream(sample: SampleReply) -> bytes:
    numbered = enumerate(_events(sample))
    return b"".join(sse({**event, "sequence_number": number}, event["type"]) for number, event in numbered)


def _events(sample: SampleReply) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": _response(sample)}
    for index, item in enumerate(_items(sample)):
        place = {"item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.added", "output_index": index, "item": _started_item(item)}
        yield from _inside(sample, item, place)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    final = _final(sample)
    yield {"type": f"response.{final['status']}", "response": final}


def _started_item(item: dict[str, Any]) -> dict[str, Any]:
    match item["type"]:
        case "reasoning":
            return {**item, "summary": [], "encrypted_content": ""}
        case "message":
            return {**item, "status": "in_progress", "content": []}
        case _:
            return {**item, "status": "in_progress", "arguments": ""}


def _inside(sample: SampleReply, item: dict[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if item["type"] == "reasoning":
        place = {**place, "summary_index": 0}
        part = {"type": "summary_text", "text": ""}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": part}
        for piece in sample.thinking:
            yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **place, "text": "".join(sample.thinking)}
    elif item["type"] == "message":
        place = {**place, "content_index": 0}
        empty: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
        yield {"type": "response.content_part.added", **place, "part": empty}
        for piece in sample.text:
            yield {"type": "response.output_text.delta", **place, "delta": piece}
        yield {"type": "response.output_text.done", **place, "text": "".join(sample.text)}
        yield {"type": "response.content_part.done", **place, "part": item["content"][0]}
    else:
        (call,) = (call for call in sample.calls if f"call_{call.id}" == item["call_id"])
        for piece in call.pieces:
            yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
        yield {"type": "response.function_call_arguments.done", **place, "arguments": call.arguments}


def _failure_event(code: str) -> bytes:
    response = {"id": "resp_1", "status": "failed", "error": {"code": code, "message": "It broke"}}
    return sse({"type": "response.failed", "response": {**response, "output": []}}, "response.failed")


ERRORS: tuple[tuple[bytes, type[ProviderError]], ...] = (
    (
        sse({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down", "param": None}, "error"),
        RateLimitError,
    ),
    (_failure_event("server_error"), ServerError),
)

WIRE = Wire(
    handwritten_stream,
    handwritten_whole,
    re.compile(rb'"type":\s*"response\.(?:completed|incomplete|failed)"'),
    ERRORS,
    sse({"type": "keepalive", "sequence_number": 0}, "keepalive"),
    model="gpt-5.1",
    unknown_event=sse({"type": "response.hologram.delta", "sequence_number": 0, "delta": "beam"}),
    unknown_block=compact(
        {**_final(PLAIN), "output": [*_items(PLAIN), {"id": "hg_1", "type": "hologram", "beam": UNKNOWN}]}
    ).encode(),
)
