"""Google's Interactions API, read by its published types and the JSON only."""

from dataclasses import replace
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
    "completed": "end_turn",
    "incomplete": "max_tokens",
    "in_progress": "pause",
    "queued": "pause",
    "requires_continuation": "pause",
    "cancelled": "cancelled",
    "failed": "error",
}


def reply(body: dict[str, Any]) -> Expected | Failure:
    if body.get("error"):
        return Failure(error_texts=error_texts(body["error"]))
    pieces = ReplyParts()
    for step in body.get("steps") or ():
        match step["type"]:
            case "model_output":
                pieces.text += [each["text"] for each in step.get("content") or () if each["type"] == "text"]
            case "thought":
                pieces.thinking += [each["text"] for each in step.get("summary") or () if each["type"] == "text"]
            case "function_call":
                pieces.calls.append((step["name"], arguments(step["arguments"])))
    called = pieces.calls and body.get("status") in ("completed", "requires_action")
    stop = "tool_use" if called else _STOP.get(body.get("status", "completed"))
    found = pieces.expected(stop, _usage(body.get("usage")), body, body.get("steps") or [])
    return replace(found, bill=_bill(body))


def stream(text: str) -> Expected | Failure:
    steps: dict[int, dict[str, Any]] = {}
    for _, data in events(text):
        if data == DONE:
            continue
        match data["event_type"]:
            case "error":
                return Failure(error_texts=error_texts(data))
            case "step.start":
                steps[data["index"]] = dict(data["step"])
            case "step.delta":
                _delta(data["delta"], steps[data["index"]])
            case "interaction.completed":
                return reply({**data["interaction"], "steps": [steps[index] for index in sorted(steps)]})
    return Failure(truncated=True)


def _delta(delta: dict[str, Any], step: dict[str, Any]) -> None:
    match delta["type"]:
        case "text":
            content = step.setdefault("content", [])
            if content and content[-1]["type"] == "text":
                content[-1] = {**content[-1], "text": content[-1]["text"] + delta["text"]}
            else:
                content.append({"type": "text", "text": delta["text"]})
        case "text_annotation_delta":
            last = step["content"][-1]
            last["annotations"] = [*last.get("annotations", ()), *delta["annotations"]]
        case "thought_summary":
            step.setdefault("summary", []).append(delta["content"])
        case "thought_signature":
            step["signature"] = delta["signature"] or step.get("signature", "")
        case "arguments_delta":
            arguments_so_far = step["arguments"] if isinstance(step["arguments"], str) else ""
            step["arguments"] = arguments_so_far + delta["arguments"]
        case kind if kind == step["type"]:
            step |= delta
        case _:
            step.setdefault("content", []).append(delta)


def _bill(body: dict[str, Any]) -> dict[str, Any]:
    """The counts under the names of generateContent, which a calculator of prices knows."""
    usage = body.get("usage") or {}
    return {
        "usage": usage,
        "model": body.get("model"),
        "modelVersion": body.get("model"),
        "usageMetadata": {
            "promptTokenCount": usage.get("total_input_tokens"),
            "cachedContentTokenCount": count(usage.get("total_cached_tokens")),
            "candidatesTokenCount": count(usage.get("total_output_tokens")),
            "thoughtsTokenCount": count(usage.get("total_thought_tokens")),
            "toolUsePromptTokenCount": count(usage.get("total_tool_use_tokens")),
            "totalTokenCount": usage.get("total_tokens"),
            "promptTokensDetails": _by_medium(usage.get("input_tokens_by_modality")),
            "cacheTokensDetails": _by_medium(usage.get("cached_tokens_by_modality")),
            "candidatesTokensDetails": _by_medium(usage.get("output_tokens_by_modality")),
        },
        "tool_usage": {"web_search": {"num_requests": _searches(usage)}},
    }


def _by_medium(listed: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return [{"modality": each["modality"].upper(), "tokenCount": each["tokens"]} for each in listed or ()]


def _searches(usage: dict[str, Any]) -> int:
    return sum(count(each.get("count")) for each in usage.get("grounding_tool_count") or ())


def _usage(usage: dict[str, Any] | None) -> Buckets | None:
    """The input includes cached tokens; thoughts and tools' prompts are counted separately."""
    if not usage:
        return None
    cached = count(usage.get("total_cached_tokens"))
    return Buckets(
        input=count(usage["total_input_tokens"]) - cached + count(usage.get("total_tool_use_tokens")),
        cached=cached,
        cache_creation=0,
        output=count(usage.get("total_output_tokens")) + count(usage.get("total_thought_tokens")),
        total=usage.get("total_tokens"),
    )
