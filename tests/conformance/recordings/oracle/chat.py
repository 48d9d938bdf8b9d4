"""OpenAI Chat Completions and its dialects, read by the reference of their wire. Only choice 0 counts."""

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

_STOP = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal", "model_length": "context_overflow"}
_CALLED = ("tool_calls", "function_call")
_FAILED = ("error", "insufficient_system_resource")
_REASONING = ("reasoning_content", "reasoning")


def reply(body: dict[str, Any]) -> Expected | Failure:
    if body.get("error"):
        return Failure(error_texts=error_texts(body["error"]))
    choice = next(choice for choice in body["choices"] if count(choice.get("index")) == 0)
    message = choice["message"]
    pieces = ReplyParts()
    _content(message.get("content"), pieces)
    if message.get("refusal"):
        pieces.text.append(message["refusal"])
    thought = next((message[name] for name in _REASONING if isinstance(message.get(name), str) and message[name]), None)
    if thought:
        pieces.thinking.append(thought)
    for call in message.get("tool_calls") or ():
        _call(call, pieces)
    if (message.get("function_call") or {}).get("name"):
        _call({"function": message["function_call"]}, pieces)
    stop = _stop(choice.get("finish_reason"), pieces, refused=bool(message.get("refusal")))
    return pieces.expected(stop, _usage(body), body, message)


def stream(text: str) -> Expected | Failure:
    """A stream without [DONE] is complete with a finish reason: some servers never send the marker."""
    message: dict[str, Any] = {"content": [], "tool_calls": []}
    finish: str | None = None
    done = False
    usage: dict[str, Any] = {}
    served: dict[str, Any] = {}
    for _, data in events(text):
        if data == DONE:
            done = True
            break
        if data.get("error"):
            return Failure(error_texts=error_texts(data["error"]))
        served |= {name: data[name] for name in ("model", "service_tier") if data.get(name)}
        grouped = data.get("usage") or (data.get("x_groq") or {}).get("usage")
        usage = grouped or usage
        for choice in data.get("choices") or ():
            if count(choice.get("index")) == 0:
                _add(choice.get("delta") or {}, message)
                finish = choice.get("finish_reason") or finish
    if finish is None and not done:
        return Failure(truncated=True)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return reply({**served, "choices": [choice], "usage": usage})


def _add(delta: dict[str, Any], message: dict[str, Any]) -> None:
    content = delta.get("content")
    if isinstance(content, str):
        message["content"].append({"type": "text", "text": content})
    elif content:
        message["content"] += content
    for name in (*_REASONING, "refusal"):
        if isinstance(delta.get(name), str):
            message[name] = message.get(name, "") + delta[name]
    for call in delta.get("tool_calls") or ():
        _add_call(call, message["tool_calls"])
    if legacy := delta.get("function_call"):
        function_call = message.setdefault("function_call", {"name": "", "arguments": ""})
        function_call["name"] += legacy.get("name") or ""
        function_call["arguments"] += legacy.get("arguments") or ""


def _add_call(delta: dict[str, Any], calls: list[dict[str, Any]]) -> None:
    """A delta continues the call of its index (or the last one); a name with another id is another call."""
    index, function = delta.get("index"), delta.get("function") or {}
    known = [call for call in calls if call["index"] == index] if index is not None else calls
    current = known[-1] if known else None
    named = bool(function.get("name"))
    if current is None or (named and (index is None or (delta.get("id") and delta["id"] != current["id"]))):
        current = {"index": index, "id": delta.get("id"), "function": {"name": "", "arguments": ""}}
        calls.append(current)
    current["function"]["name"] = current["function"]["name"] or function.get("name") or ""
    given = function.get("arguments")
    if isinstance(given, dict):
        current["function"]["arguments"] = given
    else:
        current["function"]["arguments"] += given or ""


def _content(content: Any, pieces: ReplyParts) -> None:
    if isinstance(content, str):
        pieces.text.append(content)
    for part in content if isinstance(content, list) else ():
        match part["type"]:
            case "text":
                pieces.text.append(part["text"])
            case "refusal":
                pieces.text.append(part["refusal"])
            case "thinking":
                pieces.thinking += [inner["text"] for inner in part["thinking"] if inner["type"] == "text"]


def _call(call: dict[str, Any], pieces: ReplyParts) -> None:
    if not (call.get("function") or {}).get("name") and not call.get("custom"):
        return  # some send an empty one to mean none
    if (call.get("custom") or {}).get("name"):
        pieces.calls.append((call["custom"]["name"], {"input": call["custom"]["input"]}))
    else:
        pieces.calls.append((call["function"]["name"], arguments(call["function"].get("arguments"))))


def _stop(word: str | None, pieces: ReplyParts, *, refused: bool) -> str | None:
    if word in _FAILED:
        return "error"
    stop = _STOP.get(word or "", "end_turn")
    if stop == "end_turn" and (pieces.calls or word in _CALLED):
        return "tool_use"
    return "refusal" if stop == "end_turn" and refused else stop


def _usage(body: dict[str, Any]) -> Buckets | None:
    """prompt_tokens includes cached ones. If the total is larger, reasoning is not part of the output."""
    usage = body.get("usage") or (body.get("x_groq") or {}).get("usage")
    if not usage:
        return None
    details = usage.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or usage.get("cached_tokens")
    written = count(details.get("cache_write_tokens"))
    prompt, output, total = (
        count(usage["prompt_tokens"]),
        count(usage.get("completion_tokens")),
        usage.get("total_tokens"),
    )
    beside = (total or 0) - prompt - output
    if beside > 0 and beside == count(details.get("audio_tokens")):
        prompt += beside  # audio input is not part of the text
    elif beside > 0:
        output += beside
    cached = min(count(cached), prompt)  # one server counts those of earlier requests
    return Buckets(input=prompt - cached - written, cached=cached, cache_creation=written, output=output, total=total)
