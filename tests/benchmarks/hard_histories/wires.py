"""The content of a request body on each wire: calls and results in order, in groups of a step's calls and their
results.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Group:
    """Neighbouring calls as (id, name, input), and the results after them as (id, name, text). An id may be absent."""

    calls: list[tuple[str | None, str, Any]] = field(default_factory=list)
    results: list[tuple[str | None, str, str]] = field(default_factory=list)


def groups(target: str, body: dict[str, Any]) -> list[Group]:
    found = [Group()]
    for is_call, call_id, name, value in _READERS[target](body):
        if is_call and found[-1].results:
            found.append(Group())
        if is_call:
            found[-1].calls.append((call_id, name, value))
        else:
            found[-1].results.append((call_id, name, body_text(value)))
    return found


def body_text(value: Any) -> str:
    """Every text inside, on lines of their own."""
    return "\n".join(_strings(value))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


_Events = Iterator[tuple[bool, str | None, str, Any]]


def _anthropic(body: dict[str, Any]) -> _Events:
    for block in _blocks(body):
        if block.get("type") == "tool_use":
            yield True, block["id"], block["name"], block["input"]
        elif block.get("type") == "tool_result":
            yield False, block["tool_use_id"], "", block.get("content")


def _responses(body: dict[str, Any]) -> _Events:
    for item in body["input"]:
        if item.get("type") == "function_call":
            yield True, item["call_id"], item["name"], json.loads(item["arguments"])
        elif item.get("type") == "function_call_output":
            yield False, item["call_id"], "", item["output"]


def _chat(body: dict[str, Any]) -> _Events:
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            arguments = call["function"]["arguments"]
            read = json.loads(arguments) if isinstance(arguments, str) else arguments
            yield True, call["id"], call["function"]["name"], read
        if message["role"] == "tool":
            yield False, message["tool_call_id"], "", message["content"]


def _gemini(body: dict[str, Any]) -> _Events:
    for content in body["contents"]:
        for part in content["parts"]:
            if call := part.get("functionCall") or part.get("function_call"):
                yield True, call.get("id"), call["name"], call["args"]
            if answer := part.get("functionResponse") or part.get("function_response"):
                yield False, answer.get("id"), answer["name"], answer["response"]


def _bedrock(body: dict[str, Any]) -> _Events:
    for block in _blocks(body):
        if call := block.get("toolUse"):
            yield True, call["toolUseId"], call["name"], call["input"]
        if answer := block.get("toolResult"):
            yield False, answer["toolUseId"], "", answer["content"]


def _blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for message in body["messages"]:
        if isinstance(message["content"], list):
            yield from message["content"]


_READERS = {
    "anthropic": _anthropic,
    "responses": _responses,
    "chat": _chat,
    "gemini": _gemini,
    "mistral": _chat,
    "bedrock": _bedrock,
}
