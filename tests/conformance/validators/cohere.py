"""What Cohere's chat accepts, written from its API reference (docs.cohere.com/reference/chat)."""

import json
import re
from collections.abc import Iterator
from typing import Any

_ID = re.compile(r"[\x21-\x7e]{1,128}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FIELDS = {
    "model", "messages", "stream", "tools", "documents", "citation_options", "response_format", "safety_mode",
    "max_tokens", "stop_sequences", "temperature", "seed", "frequency_penalty", "presence_penalty", "k", "p",
    "logprobs", "tool_choice", "thinking", "strict_tools", "priority",
}  # fmt: skip
_PARTS = {
    "system": ("text",),
    "user": ("text", "image_url"),
    "assistant": ("text", "thinking"),
    "tool": ("text", "document"),
}


def faults(body: dict[str, Any], *, foreign: bool) -> Iterator[str]:
    """All faults of a body; ``foreign``: another provider produced the history."""
    yield from (f"{name} is not a parameter" for name in body if name not in _FIELDS)
    for tool in body.get("tools") or ():
        function = tool.get("function") or {}
        if not _NAME.fullmatch(function.get("name", "")) or not isinstance(function.get("parameters"), dict):
            yield f"the tool {function.get('name')!r}"
    if body.get("tool_choice", "NONE") not in ("REQUIRED", "NONE"):
        yield f"the tool choice {body['tool_choice']}"
    if not body["messages"]:
        yield "messages is empty"
        return
    for message in body["messages"]:
        yield from _message(message, foreign=foreign)
    if body["messages"][-1]["role"] == "assistant":
        yield "the last message is the assistant's"
    yield from _pairs(body["messages"])


def _message(message: dict[str, Any], *, foreign: bool) -> Iterator[str]:
    role, content = message.get("role", ""), message.get("content")
    if role not in _PARTS:
        yield f"no role {role}"
        return
    own = {name for name in ("tool_plan", "citations") if message.get(name)}
    for part in content if isinstance(content, list) else ():
        kind = part.get("type")
        if kind not in _PARTS[role]:
            yield f"{kind} in a {role} message"
        elif kind == "thinking":
            own.add("thinking")
        elif kind == "image_url" and not str(part["image_url"].get("url", "")).startswith(("http", "data:")):
            yield "an image without a URL"
    if foreign and own:
        yield f"{sorted(own)} of foreign origin"
    if role in ("user", "system") and not content:
        yield f"a {role} message without content"
    for call in message.get("tool_calls") or ():
        if not (_ID.fullmatch(call.get("id", "")) and _NAME.fullmatch(call["function"].get("name", ""))):
            yield f"the call {call.get('id')!r} of {call['function'].get('name')!r}"
        if not isinstance(json.loads(call["function"]["arguments"]), dict):
            yield "the arguments of a call are not a JSON object"


def _pairs(messages: list[dict[str, Any]]) -> Iterator[str]:
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                yield f"the result of {message.get('tool_call_id')} answers none of {waiting}"
            continue
        if waiting:
            yield f"the calls {waiting} have no answer before a {message['role']} message"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        yield from (f"the id {call} occurs twice" for call in waiting if call in seen)
        seen.update(waiting)
    if waiting:
        yield f"the calls {waiting} have no answer"
