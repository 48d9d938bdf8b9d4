"""Ollama's own chat endpoint, read by the reference of its wire."""

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
from tests.conformance.recordings.oracle.frames import lines


def reply(body: dict[str, Any]) -> Expected | Failure:
    if body.get("error"):
        return Failure(error_texts=error_texts(body["error"]))
    message = body["message"]
    pieces = ReplyParts()
    pieces.text.append(message.get("content") or "")
    pieces.thinking.append(message.get("thinking") or "")
    for call in message.get("tool_calls") or ():
        pieces.calls.append((call["function"]["name"], arguments(call["function"].get("arguments"))))
    stop = "max_tokens" if body.get("done_reason") == "length" else "tool_use" if pieces.calls else "end_turn"
    return pieces.expected(stop, _usage(body), body, message)


def stream(text: str) -> Expected | Failure:
    content, thinking = "", ""
    calls: list[Any] = []
    for line in lines(text):
        if line.get("error"):
            return Failure(error_texts=error_texts(line["error"]))
        message = line.get("message") or {}
        content += message.get("content") or ""
        thinking += message.get("thinking") or ""
        calls += message.get("tool_calls") or []
        if line.get("done"):
            return reply({**line, "message": {"content": content, "thinking": thinking, "tool_calls": calls}})
    return Failure(truncated=True)


def _usage(body: dict[str, Any]) -> Buckets | None:
    """The server omits counts of zero, and sends no total."""
    if "prompt_eval_count" not in body and "eval_count" not in body:
        return None
    return Buckets(
        input=count(body.get("prompt_eval_count")), cached=0, cache_creation=0, output=count(body.get("eval_count"))
    )
