"""OpenAI Responses, read by the reference of its wire."""

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

_INCOMPLETE = {"max_output_tokens": "max_tokens", "content_filter": "refusal", "steered": "pause"}
# Calls of the provider's own tools that the client has to run or approve. The turn then waits, which has no word
# of its own: neither "the turn is over" nor "tools of the conversation are called" is wrong.
_CLIENT_SIDE = ("computer_call", "local_shell_call", "apply_patch_call", "mcp_approval_request")
_ENDS = ("response.completed", "response.incomplete")


def reply(body: dict[str, Any]) -> Expected | Failure:
    if body.get("error") or body["status"] == "failed":
        return Failure(error_texts=error_texts(body.get("error")))
    pieces = ReplyParts()
    refused = False
    for item in body["output"]:
        match item["type"]:
            case "message":
                for part in item["content"]:
                    refused = refused or part["type"] == "refusal"
                    pieces.text.append(part.get("text") or part.get("refusal") or "")
            case "reasoning":
                parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
                pieces.thinking += [part["text"] for part in parts]
            case "function_call":
                pieces.calls.append((item["name"], arguments(item["arguments"])))
            case "custom_tool_call":
                pieces.calls.append((item["name"], {"input": item["input"]}))
    return pieces.expected(_stop(body, pieces, refused=refused), _usage(body.get("usage")), body, body["output"])


def stream(text: str) -> Expected | Failure:
    items: dict[int, dict[str, Any]] = {}
    for name, data in events(text):
        if data == DONE:
            continue
        kind = data.get("type", name)
        if kind == "error":
            return Failure(error_texts=error_texts(data))
        if kind == "response.failed":
            return Failure(error_texts=error_texts(data["response"].get("error")))
        if kind == "response.output_item.done":
            items[data["output_index"]] = data["item"]
        if kind in _ENDS:
            return reply({**data["response"], "output": _output(data["response"].get("output"), items)})
    return Failure(truncated=True)


def _output(final: list[dict[str, Any]] | None, streamed: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The items of a stream. Some servers leave the final output empty, or out, although they streamed the items.

    If both are there, an item counts as it was when it was done: its encrypted content may differ later.
    """
    done = {item.get("id"): item for item in streamed.values()}
    return [done.get(item.get("id"), item) for item in final or ()] or [streamed[index] for index in sorted(streamed)]


def _stop(body: dict[str, Any], pieces: ReplyParts, *, refused: bool) -> str | None:
    match body["status"]:
        case "incomplete":
            reason = str((body.get("incomplete_details") or {}).get("reason"))
            return _INCOMPLETE.get(reason)
        case "queued" | "in_progress":
            return "pause"
        case "cancelled":
            return "cancelled"
    if pieces.calls:
        return "tool_use"
    if any(item["type"] in _CLIENT_SIDE or item.get("execution") == "client" for item in body["output"]):
        return None
    return "refusal" if refused else "end_turn"


def _usage(usage: dict[str, Any] | None) -> Buckets | None:
    """input_tokens includes tokens read from and written to a cache; output_tokens includes reasoning."""
    if not usage:
        return None
    details = usage.get("input_tokens_details") or {}
    cached, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
    return Buckets(
        input=count(usage["input_tokens"]) - cached - written,
        cached=cached,
        cache_creation=written,
        output=count(usage["output_tokens"]),
        total=usage.get("total_tokens"),
    )
