"""Anthropic Messages, read by the reference of its wire."""

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
from tests.conformance.recordings.oracle.frames import events

# "compaction" has no canonical word; a word newer than this table means that the turn is over.
_STOP = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_overflow",
    "pause_turn": "pause",
    "compaction": None,
    None: None,
}


def reply(body: dict[str, Any]) -> Expected | Failure:
    if body.get("type") == "error":
        return Failure(error_texts=error_texts(body["error"]))
    pieces = ReplyParts()
    for block in body["content"]:
        _block(block, pieces)
    usage = _billed_counts(body["usage"]) if body.get("usage") else None
    return pieces.expected(_stop(body["stop_reason"], pieces), _usage(usage), {**body, "usage": usage}, body["content"])


def stream(text: str) -> Expected | Failure:
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    joined: dict[int, str] = {}
    for name, data in events(text):
        kind = data.get("type", name)
        if kind == "error":
            return Failure(error_texts=error_texts(data["error"]))
        if kind == "message_start":  # a second one before message_stop starts the message again
            message, blocks, joined = dict(data["message"]), {}, {}
        elif kind == "content_block_start":
            blocks[data["index"]] = dict(data["content_block"])
        elif kind == "content_block_delta":
            _delta(blocks[data["index"]], data["delta"], data["index"], joined)
        elif kind == "message_delta":
            message |= data["delta"]
            message["usage"] = message.get("usage", {}) | _known_counts(data.get("usage") or {})
        elif kind == "message_stop":
            for index, partial in joined.items():
                if partial:
                    blocks[index]["input"] = arguments(partial)
            return reply({**message, "content": [blocks[index] for index in sorted(blocks)]})
    return Failure(truncated=True)


def _delta(block: dict[str, Any], delta: dict[str, Any], index: int, joined: dict[int, str]) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
        case "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        case "compaction_delta":
            block |= {name: value for name, value in delta.items() if name != "type"}
        case "input_json_delta":
            joined[index] = joined.get(index, "") + delta["partial_json"]


def _block(block: dict[str, Any], pieces: ReplyParts) -> None:
    match block["type"]:
        case "text":
            pieces.text.append(block["text"])
        case "thinking":
            pieces.thinking.append(block.get("thinking", ""))
        case "tool_use":
            pieces.calls.append((block["name"], arguments(block["input"])))


def _stop(word: str | None, pieces: ReplyParts) -> str | None:
    stop = _STOP.get(word, "end_turn")
    return "tool_use" if stop == "end_turn" and pieces.calls else stop


_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


def _billed_counts(usage: dict[str, Any]) -> dict[str, Any]:
    """The counts with those of a compaction: billed at the same rates, but not in the counts above.

    (An advisor's or a refused model's iterations are left out: they are billed at another model's rates, or not.)
    """
    own = [part for part in usage.get("iterations") or () if part["type"] == "compaction"]
    sums = {name: count(usage.get(name)) + sum(count(part.get(name)) for part in own) for name in _COUNTS}
    return usage | sums if own else usage


def _usage(usage: dict[str, Any] | None) -> Buckets | None:
    """The cache counts are not part of input_tokens; there is no total."""
    if not usage or "input_tokens" not in usage:
        return None
    return Buckets(
        input=count(usage["input_tokens"]),
        cached=count(usage.get("cache_read_input_tokens")),
        cache_creation=count(usage.get("cache_creation_input_tokens")),
        output=count(usage.get("output_tokens")),
    )


def _known_counts(usage: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in usage.items() if value is not None}
