"""Bedrock's wires by hand (docs.aws.amazon.com/bedrock, ConverseStream and InvokeModelWithResponseStream).

All streams are binary messages; those of InvokeModel hold the model's own events, here Anthropic's.
"""

import base64
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import ProviderError, RateLimitError, ServerError
from dragoman.testing.conformance.wire import Wire, compact
from dragoman.testing.sample_reply import SampleReply
from tests.laws.wires import handwritten_anthropic, handwritten_chat

_STRING = 7


def _stop(sample: SampleReply) -> str:
    return "tool_use" if sample.calls else "max_tokens" if sample.truncated else "end_turn"


def _usage(sample: SampleReply) -> dict[str, Any]:
    return {
        "inputTokens": sample.input_tokens,
        "cacheReadInputTokens": sample.cached_tokens,
        "cacheWriteInputTokens": 0,
        "outputTokens": sample.output_tokens,
        "totalTokens": sample.input_tokens + sample.cached_tokens + sample.output_tokens,
    }


def handwritten_whole(sample: SampleReply) -> bytes:
    content: list[dict[str, Any]] = []
    if sample.thinking:
        content.append({"reasoningContent": {"reasoningText": {"text": "".join(sample.thinking), "signature": "c2ln"}}})
    if sample.text:
        content.append({"text": "".join(sample.text)})
    content += [
        {"toolUse": {"toolUseId": f"tooluse_{call.id}", "name": call.name, "input": call.input}}
        for call in sample.calls
    ]
    output = {"message": {"role": "assistant", "content": content}}
    reply = {"output": output, "stopReason": _stop(sample), "usage": _usage(sample), "metrics": {"latencyMs": 5}}
    return compact(reply).encode()


def handwritten_stream(sample: SampleReply) -> bytes:
    return b"".join(_message({":event-type": kind, ":message-type": "event"}, data) for kind, data in _events(sample))


def _events(sample: SampleReply) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "messageStart", {"role": "assistant"}
    index = 0  # of the open block
    if sample.thinking:
        deltas: list[dict[str, Any]] = [{"text": piece} for piece in sample.thinking]
        for delta in (*deltas, {"signature": "c2ln"}):
            yield "contentBlockDelta", {"contentBlockIndex": index, "delta": {"reasoningContent": delta}}
        yield "contentBlockStop", {"contentBlockIndex": index}
        index += 1
    if sample.text:
        for piece in sample.text:
            yield "contentBlockDelta", {"contentBlockIndex": index, "delta": {"text": piece}}
        yield "contentBlockStop", {"contentBlockIndex": index}
        index += 1
    for call in sample.calls:
        start = {"toolUse": {"toolUseId": f"tooluse_{call.id}", "name": call.name}}
        yield "contentBlockStart", {"contentBlockIndex": index, "start": start}
        for piece in call.pieces:
            yield "contentBlockDelta", {"contentBlockIndex": index, "delta": {"toolUse": {"input": piece}}}
        yield "contentBlockStop", {"contentBlockIndex": index}
        index += 1
    yield "messageStop", {"stopReason": _stop(sample)}
    yield "metadata", {"usage": _usage(sample), "metrics": {"latencyMs": 5}}


def _message(headers: dict[str, str], data: dict[str, Any]) -> bytes:
    named = b"".join(
        bytes([len(name)]) + name.encode() + bytes([_STRING]) + struct.pack(">H", len(value)) + value.encode()
        for name, value in {**headers, ":content-type": "application/json"}.items()
    )
    payload = compact(data).encode()
    prelude = struct.pack(">II", 12 + len(named) + len(payload) + 4, len(named))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + named + payload
    return message + struct.pack(">I", zlib.crc32(message))


def _error(kind: str) -> bytes:
    return _message({":exception-type": kind, ":message-type": "exception"}, {"message": "It broke"})


def handwritten_messages_stream(sample: SampleReply) -> bytes:
    return b"".join(map(_wrap, handwritten_anthropic.handwritten_events(sample)))


def handwritten_chat_stream(sample: SampleReply) -> bytes:
    return b"".join(map(_wrap, handwritten_chat.handwritten_chunks(sample)))


def _wrap(event: dict[str, Any]) -> bytes:
    return _message({":event-type": "chunk", ":message-type": "event"}, {"bytes": _base64(event).decode()})


def _base64(event: dict[str, Any]) -> bytes:
    return base64.b64encode(compact(event).encode())


ERRORS: tuple[tuple[bytes, type[ProviderError]], ...] = (
    (_error("throttlingException"), RateLimitError),
    (_error("internalServerException"), ServerError),
)

WIRE = Wire(handwritten_stream, handwritten_whole, re.compile(rb":event-type\x07..metadata", re.DOTALL), ERRORS)
MESSAGES = Wire(
    handwritten_messages_stream,
    handwritten_anthropic.handwritten_whole,
    re.compile(re.escape(base64.b64encode(b'{"type":"message_stop"}'))),
    ERRORS,
)
_ENDS = [handwritten_chat.finished(reason) for reason in ("stop", "length", "tool_calls")]
CHAT = Wire(
    handwritten_chat_stream,
    handwritten_chat.handwritten_whole,
    re.compile(b"|".join(re.escape(_base64(chunk)) for chunk in _ENDS)),
    ERRORS,
)
