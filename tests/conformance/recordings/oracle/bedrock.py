"""Bedrock's runtime, read by its API reference: Converse, Nova's bodies of the same shape, Anthropic's Messages."""

import base64
import json
from typing import Any

from tests.conformance.recordings.oracle import anthropic
from tests.conformance.recordings.oracle.expected import (
    Buckets,
    Expected,
    Failure,
    ReplyParts,
    arguments,
    count,
    error_texts,
)
from tests.conformance.recordings.oracle.frames import binary

_STOP = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "refusal",
    "content_filtered": "refusal",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
    "model_context_window_exceeded": "context_overflow",
}


def reply(body: dict[str, Any]) -> Expected | Failure:
    if body.get("type") == "message":
        return anthropic.reply(body)
    pieces = ReplyParts()
    content = body["output"]["message"]["content"]
    for block in content:
        _block(block, pieces)
    return pieces.expected(_STOP.get(body["stopReason"], "end_turn"), _usage(body.get("usage")), body, content)


def _block(block: dict[str, Any], pieces: ReplyParts) -> None:
    """A call with a type of its own is answered by Bedrock itself."""
    match block:
        case {"text": text}:
            pieces.text.append(text)
        case {"citationsContent": cited}:
            pieces.text += [part["text"] for part in cited.get("content") or ()]
        case {"reasoningContent": {"reasoningText": thought}}:
            pieces.thinking.append(thought["text"])
        case {"toolUse": call} if call.get("type", "tool_use") == "tool_use":
            pieces.calls.append((call["name"], arguments(call["input"])))


def stream(data: bytes) -> Expected | Failure:
    """Frames called chunk wrap a model's own events: Anthropic's have a type, Nova's are Converse's by name."""
    blocks: dict[int, dict[str, Any]] = {}
    body: dict[str, Any] = {}
    own = ""
    for _, name, frame in binary(data):
        if name.startswith("!"):
            return Failure(error_texts=(name, *error_texts(frame)))
        if name == "chunk":
            event = json.loads(base64.b64decode(frame["bytes"]))
            if "type" in event:
                own += f"data: {json.dumps(event)}\n\n"
                continue
            name = next(key for key in event if not key.startswith("amazon"))
            frame = event[name]
        if name == "contentBlockStart":
            blocks[frame["contentBlockIndex"]] = {kind: dict(start) for kind, start in frame["start"].items()}
        elif name == "contentBlockDelta":
            _delta(blocks.setdefault(frame["contentBlockIndex"], {}), frame["delta"])
        elif name in ("messageStop", "metadata"):
            body |= frame
        if name == "metadata":
            content = [_whole(blocks[index]) for index in sorted(blocks)]
            return reply({**body, "output": {"message": {"content": content}}})
    return anthropic.stream(own) if own else Failure(truncated=True)


def _delta(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta:
        case {"text": text}:
            block["text"] = block.get("text", "") + text
        case {"toolUse": {"input": fragment}}:
            block["toolUse"]["input"] = block["toolUse"].get("input", "") + fragment
        case {"reasoningContent": thought}:
            reasoning = block.setdefault("reasoningContent", {"reasoningText": {"text": ""}})
            for key, piece in thought.items():
                target = reasoning if key == "redactedContent" else reasoning["reasoningText"]
                target[key] = target.get(key, "") + piece
        case {"citation": citation}:
            block.setdefault("citations", []).append(citation)
        case {"toolResult": parts}:
            block["toolResult"].setdefault("content", []).extend(parts)


def _whole(block: dict[str, Any]) -> dict[str, Any]:
    """An accumulated block as in a whole reply."""
    if "citations" in block:
        content = {"content": [{"text": block["text"]}]} if block.get("text") else {}
        return {"citationsContent": {**content, "citations": block["citations"]}}
    if "toolUse" in block:
        return {"toolUse": {**block["toolUse"], "input": arguments(block["toolUse"].get("input", ""))}}
    thought = block.get("reasoningContent")
    if thought and "redactedContent" in thought:
        return {"reasoningContent": {"redactedContent": thought["redactedContent"]}}
    return block


def _usage(usage: dict[str, Any] | None) -> Buckets | None:
    """The cache counts are not part of inputTokens, and the total is the sum of all."""
    if not usage or "inputTokens" not in usage:
        return None
    return Buckets(
        input=count(usage["inputTokens"]),
        cached=count(usage.get("cacheReadInputTokens") or usage.get("cacheReadInputTokenCount")),
        cache_creation=count(usage.get("cacheWriteInputTokens") or usage.get("cacheWriteInputTokenCount")),
        output=count(usage.get("outputTokens")),
        total=usage.get("totalTokens"),
    )
