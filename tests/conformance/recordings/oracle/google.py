"""Google's generateContent, on the Gemini API and on Vertex AI, read by the reference of its wire.

Only the first candidate counts. Names are in camelCase or snake_case, reasons are words or numbers.
"""

import re
from typing import Any

from tests.conformance.recordings.oracle.expected import Buckets, Expected, Failure, ReplyParts, count, error_texts
from tests.conformance.recordings.oracle.frames import DONE, events

_REFUSED = (
    "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
)  # fmt: skip
_STOP = {"STOP": "end_turn", "MAX_TOKENS": "max_tokens", "CONTINUATION": "pause", **dict.fromkeys(_REFUSED, "refusal")}
_BROKEN = (
    "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE", "OTHER",
)  # fmt: skip
_NUMBERS = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
"""Those that have one number on both platforms."""
_MEDIA = {1: "TEXT", 2: "IMAGE", 3: "VIDEO", 4: "AUDIO", 5: "DOCUMENT"}
_QUERIES_BILLED = re.compile(r"gemini-([3-9]|flash-latest|pro-latest)")
"""Models whose searches are billed by query, and not by prompt."""


def reply(body: Any) -> Expected | Failure:
    if isinstance(body, list):
        return _join_chunks([_camel(chunk) for chunk in body])
    body = _camel(body)
    if body.get("error"):
        return Failure(error_texts=error_texts(body["error"]))
    candidates = body.get("candidates") or []
    candidate = candidates[0] if candidates else {}
    parts = (candidate.get("content") or {}).get("parts") or []
    pieces = ReplyParts()
    for part in parts:
        if "text" in part:
            (pieces.thinking if part.get("thought") else pieces.text).append(part["text"])
        elif "functionCall" in part:
            pieces.calls.append((part["functionCall"]["name"], part["functionCall"].get("args") or {}))
    blocked = not candidates and bool((body.get("promptFeedback") or {}).get("blockReason"))
    stop = "refusal" if blocked else _stop(candidate.get("finishReason"), pieces)
    usage = body.get("usageMetadata")
    bill = {
        "usage": usage if _priceable(usage or {}) else None,
        "usageMetadata": _name_media(usage or {}),
        "model": body.get("modelVersion"),
        "modelVersion": body.get("modelVersion"),
        "tool_usage": {"web_search": {"num_requests": _searches(candidate, str(body.get("modelVersion")))}},
    }
    return Expected(
        text="".join(pieces.text),
        thinking="".join(pieces.thinking),
        calls=tuple(pieces.calls),
        stop_reason=stop,
        usage=_usage(usage),
        bill=bill,
        native=parts,
    )


def stream(text: str) -> Expected | Failure:
    return _join_chunks([_camel(data) for _, data in events(text) if data != DONE])


def _join_chunks(chunks: list[dict[str, Any]]) -> Expected | Failure:
    """One reply of all chunks. Counts are cumulative: the last apply. Without a finish reason it was truncated."""
    parts: list[dict[str, Any]] = []
    whole: dict[str, Any] = {}
    candidate: dict[str, Any] = {}
    for chunk in chunks:
        if chunk.get("error"):
            return Failure(error_texts=error_texts(chunk["error"]))
        whole |= {name: value for name, value in chunk.items() if name not in ("candidates", "usageMetadata")}
        if "totalTokenCount" in (chunk.get("usageMetadata") or {}):
            whole["usageMetadata"] = chunk["usageMetadata"]
        for each in chunk.get("candidates") or ():
            if count(each.get("index")) == 0:
                candidate |= {name: value for name, value in each.items() if value and name != "content"}
                for part in (each.get("content") or {}).get("parts") or ():
                    _add(part, parts)
    blocked = (whole.get("promptFeedback") or {}).get("blockReason")
    if not (candidate.get("finishReason") or blocked):
        return Failure(truncated=True)
    if candidate:
        whole["candidates"] = [{**candidate, "content": {"parts": [_complete_call(part) for part in parts]}}]
    return reply(whole)


def _add(part: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    """Plain texts continue the previous one, if that is of the same kind; a signed part is separate."""
    last = parts[-1] if parts else {}
    plain = "text" in part and set(part) <= {"text", "thought"}
    if plain and set(last) <= {"text", "thought"} and "text" in last and last.get("thought") == part.get("thought"):
        last["text"] += part["text"]
    elif "functionCall" in part and not part["functionCall"].get("name") and "partial" in last:
        _add_arguments(part["functionCall"], last["partial"])
    elif "functionCall" in part and part["functionCall"].get("willContinue"):
        parts.append({**part, "partial": {}})
        _add_arguments(part["functionCall"], parts[-1]["partial"])
    elif not plain or part["text"]:
        parts.append(dict(part))


def _add_arguments(call: dict[str, Any], partial: dict[str, Any]) -> None:
    """Values by the path of their place: text in pieces, other values at once."""
    for each in call.get("partialArgs") or ():
        path = each["jsonPath"]
        if "stringValue" in each:
            partial[path] = partial.get(path, "") + each["stringValue"]
        else:
            partial[path] = next((each[name] for name in ("numberValue", "boolValue") if name in each), None)


def _complete_call(part: dict[str, Any]) -> dict[str, Any]:
    """A call whose arguments came by path, with all of them."""
    if "partial" not in part:
        return part
    arguments: dict[str, Any] = {}
    for path, value in part["partial"].items():
        node: Any = arguments
        steps = [int(step) if step.isdigit() else step for step in re.findall(r"[^$.\[\]'\"]+", path)]
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            fresh: Any = value if following is None else [] if isinstance(following, int) else {}
            if isinstance(node, list):
                node += [fresh] if step == len(node) else []
            else:
                node.setdefault(step, fresh)
            node = node[step]
    call = {name: inner for name, inner in part["functionCall"].items() if name in ("id", "name")}
    kept = {name: inner for name, inner in part.items() if name != "partial"}
    return {**kept, "functionCall": {**call, "args": arguments}}


def _stop(reason: Any, pieces: ReplyParts) -> str | None:
    word = _NUMBERS.get(reason, "") if isinstance(reason, int) else str(reason)
    if word in _BROKEN:
        return "error"
    stop = _STOP.get(word)
    return "tool_use" if stop == "end_turn" and pieces.calls else stop


def _usage(usage: dict[str, Any] | None) -> Buckets | None:
    """The prompt includes cached tokens; thoughts are not part of the candidates, nor tools' prompts of the prompt."""
    if not usage or "promptTokenCount" not in usage:
        return None
    cached = count(usage.get("cachedContentTokenCount"))
    return Buckets(
        input=count(usage["promptTokenCount"]) - cached + count(usage.get("toolUsePromptTokenCount")),
        cached=cached,
        cache_creation=0,
        output=count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount")),
        total=usage.get("totalTokenCount"),
    )


def _priceable(usage: dict[str, Any]) -> bool:
    """Whether a price can be known: not without the prompt's count, and not for a tier without a public price.

    Cached audio is left out as well: our table has no rate of its own for it, and reports that.
    """
    tier = str(usage.get("serviceTier") or usage.get("trafficType") or "").lower()
    cached = _name_media(usage).get("cacheTokensDetails") or ()
    return (
        "promptTokenCount" in usage
        and tier in ("", "standard", "on_demand", "1")
        and not any(each["modality"] == "AUDIO" for each in cached)
    )


def _name_media(usage: dict[str, Any]) -> dict[str, Any]:
    """The counts with their media as words, as a calculator of prices knows them."""
    named = dict(usage)
    for name, listed in usage.items():
        if isinstance(listed, list):
            named[name] = [{**each, "modality": _MEDIA.get(each["modality"], each["modality"])} for each in listed]
    return named


def _searches(candidate: dict[str, Any], model: str) -> int:
    """Billed searches: distinct non-empty queries, or one for a prompt that led to any."""
    queries = {query for query in (candidate.get("groundingMetadata") or {}).get("webSearchQueries") or () if query}
    return len(queries) if _QUERIES_BILLED.match(model) else min(1, len(queries))


def _camel(value: Any) -> Any:
    """Every name in camelCase, except in the input and output of tools."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    renamed: dict[str, Any] = {}
    for name, inner in value.items():
        first, *rest = name.split("_")
        camelled = first + "".join(word.capitalize() for word in rest) if rest and first else name
        renamed[camelled] = inner if camelled in ("args", "response") else _camel(inner)
    return renamed
