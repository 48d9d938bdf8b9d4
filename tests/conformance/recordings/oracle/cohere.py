"""Cohere's chat, version 2, read by the pages of its API."""

from typing import Any

from tests.conformance.recordings.oracle.expected import (
    Buckets,
    Expected,
    Failure,
    ReplyParts,
    arguments,
    count,
    error_texts,
)
from tests.conformance.recordings.oracle.frames import DONE, events

_STOP = {
    "COMPLETE": "end_turn",
    "STOP_SEQUENCE": "stop_sequence",
    "MAX_TOKENS": "max_tokens",
    "TOOL_CALL": "tool_use",
    "ERROR": "error",
    "TIMEOUT": "error",
}


def reply(body: dict[str, Any]) -> Expected | Failure:
    message = body["message"]
    pieces = ReplyParts()
    content = message.get("content") or []
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part["type"] == "text":
            pieces.text.append(part["text"])
        elif part["type"] == "thinking":
            pieces.thinking.append(part["thinking"])
    pieces.thinking.append(message.get("tool_plan") or "")
    for call in message.get("tool_calls") or ():
        pieces.calls.append((call["function"]["name"], arguments(call["function"].get("arguments"))))
    return pieces.expected(_STOP.get(body["finish_reason"], "end_turn"), _usage(body.get("usage")), body, message)


def stream(text: str) -> Expected | Failure:
    message: dict[str, Any] = {}
    content: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[str, Any]] = {}
    plan = ""
    for name, data in events(text):
        if data == DONE:
            continue
        delta = data.get("delta") or {}
        message_delta = delta.get("message") or {}
        match data.get("type", name):
            case "error":
                return Failure(error_texts=error_texts(data))
            case "message-start":
                message = dict(message_delta)
            case "content-start":
                content[data["index"]] = dict(message_delta["content"])
            case "content-delta":
                for key, piece in message_delta["content"].items():
                    content[data["index"]][key] = content[data["index"]].get(key, "") + piece
            case "tool-plan-delta":
                plan += message_delta["tool_plan"]
            case "tool-call-start":
                call = message_delta["tool_calls"]
                calls[data["index"]] = {**call, "function": dict(call["function"])}
            case "tool-call-delta":
                calls[data["index"]]["function"]["arguments"] += message_delta["tool_calls"]["function"]["arguments"]
            case "message-end":
                if delta.get("error"):
                    return Failure(error_texts=error_texts(delta))
                parts = [content[index] for index in sorted(content)]
                whole = {**message, "content": parts, "tool_plan": plan}
                whole["tool_calls"] = [calls[index] for index in sorted(calls)]
                return reply({**delta, "message": whole})
    return Failure(truncated=True)


def _usage(usage: dict[str, Any] | None) -> Buckets | None:
    """Billed and processed tokens are counted separately; the price ignores the cache."""
    billed = (usage or {}).get("billed_units")
    if not billed:
        return None
    return Buckets(
        input=count(billed.get("input_tokens")), cached=0, cache_creation=0, output=count(billed.get("output_tokens"))
    )
