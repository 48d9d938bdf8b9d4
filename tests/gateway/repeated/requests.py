"""Requests of agents, one after the other: written here, and recorded from real clients."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.exchanges import load_or_skip
from tests.gateway.upstream import PATHS as _UPSTREAM_PATHS

Json = dict[str, Any]

VARIABLE = "DRAGOMAN_CLIENTS"
_CHECKOUT_ROOT = Path(__file__).resolve().parents[3]
PROVIDERS = {
    "messages": "anthropic", "chat": "openai-chat", "responses": "openai", "google": "google", "ollama": "ollama"
}  # fmt: skip
PATHS = {**_UPSTREAM_PATHS, "google": "/v1beta/models/gemini-3-pro:generateContent", "ollama": "/api/chat"}
_RECORDED = {**PROVIDERS, "responses": "openai-responses"}
"""The files of recorded exchanges."""
_HISTORIES = {
    "messages": "messages", "chat": "messages", "responses": "input", "google": "contents", "ollama": "messages"
}  # fmt: skip


def history_of(wire: str) -> str:
    return _HISTORIES[wire]


def clients_folder() -> Path:
    """The folder ``clients`` of the recorded requests, next to the checkout; it may be absent."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else _CHECKOUT_ROOT.parent / "shared" / "clients"


def recorded_clients() -> list[tuple[str, Json]]:
    """The wires and the bodies of the requests of real clients, in order."""
    found = []
    for file in sorted(clients_folder().glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            request = json.loads(line)
            wire = _wire_of(request["path"])
            if wire is not None and isinstance(request["body"], dict) and request["method"] == "POST":
                found.append((wire, request["body"]))
    return found


def _wire_of(path: str) -> str | None:
    if path.endswith("enerateContent"):
        return "google"
    return next((wire for wire, known in PATHS.items() if known == path), None)


def recorded_requests(wire: str) -> list[Json]:
    """The bodies of recorded requests to a provider of that wire. Skips the test if there are none."""
    name, path = history_of(wire), PATHS[wire].removeprefix("/v1").rpartition("models/gemini-3-pro:")[2]
    return [
        each.request
        for each in load_or_skip(_RECORDED[wire])
        if isinstance(each.request, dict)
        and each.url_path.partition("?")[0].endswith(path)
        and isinstance(each.request.get(name), list)
        and (wire == "google" or isinstance(each.request.get("model"), str))
    ]


def written_agents() -> list[tuple[str, Json]]:
    """An agent on each wire, with tools, calls, results, pictures, notes, and ids that occur twice."""
    return [
        ("messages", _messages()), ("chat", _chat()), ("responses", _responses()), ("google", _google()),
        ("ollama", _ollama()),
    ]  # fmt: skip


def _messages() -> Json:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    messages: list[Json] = [{"role": "user", "content": "Find the fault."}]
    for number in range(8):
        call = {"type": "tool_use", "id": f"toolu_{number % 6}", "name": "read", "input": {"path": f"{number}é"}}
        result: Json = {"type": "tool_result", "tool_use_id": call["id"], "content": f"line {number}"}
        if number == 3:
            picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
            result["content"] = [{"type": "text", "text": "A picture"}, {"type": "image", "source": picture}]
        if number == 5:
            result |= {"is_error": True, "cache_control": {"type": "ephemeral"}}
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"Step {number}"}, call]})
        messages.append({"role": "user", "content": [result, *([{"type": "text", "text": "Go on"}] * (number == 4))]})
    tools = [{"name": "read", "description": "Reads.", "input_schema": schema, "cache_control": {"type": "ephemeral"}}]
    return {"model": "claude-sonnet-4-6", "max_tokens": 99, "system": "Be short. " * 40, "tools": tools,
            "messages": messages}  # fmt: skip


def _chat() -> Json:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    messages: list[Json] = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Find the fault."}]
    for number in range(8):
        function = {"name": "read", "arguments": json.dumps({"path": f"{number}"})}
        call = {"id": f"call_{number % 6}", "type": "function", "function": function}
        messages.append(
            {"role": "assistant", "content": None if number % 2 else f"Step {number}", "tool_calls": [call]}
        )
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": f"line {number} \ud83d\ude00".encode(
            "utf-16", "surrogatepass").decode("utf-16")})  # fmt: skip
    messages += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks", "name": "Ann"}]
    tools = [{"type": "function", "function": {"name": "read", "description": "Reads. " * 60, "parameters": schema}}]
    return {"model": "gpt-5.2", "messages": messages, "tools": tools, "temperature": 0.5}


def _responses() -> Json:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    items: list[Json] = [{"role": "user", "content": [{"type": "input_text", "text": "Find the fault."}]}]
    for number in range(6):
        items.append({"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": f"Step {number}", "annotations": []}]})  # fmt: skip
        arguments = json.dumps({"path": str(number)})
        items.append({"type": "function_call", "call_id": f"call_{number}", "name": "read", "arguments": arguments})
        items.append({"type": "function_call_output", "call_id": f"call_{number}", "output": f"line {number}"})
    tools = [{"type": "function", "name": "read", "description": "Reads. " * 60, "parameters": schema}]
    return {"model": "gpt-5.2", "instructions": "Be short.", "input": items, "tools": tools}


def _google() -> Json:
    """Calls without ids, two at once, and results that come in another order."""
    schema = {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}, "required": ["path"]}
    contents: list[Json] = [{"role": "user", "parts": [{"text": "Find the fault."}]}]
    for number in range(7):
        calls = [{"functionCall": {"name": name, "args": {"path": f"{number}é"}}} for name in ("read", "list")]
        if number == 2:
            calls = [{"functionCall": {**each["functionCall"], "id": f"id{index}"}} for index, each in enumerate(calls)]
        results = [
            {"functionResponse": {**{key: value for key, value in each["functionCall"].items() if key != "args"},
                                  "response": {"output": f"line {number}"}}}
            for each in (calls if number % 2 else reversed(calls))
        ]  # fmt: skip
        contents.append({"role": "model", "parts": [{"text": f"Step {number}"}, *calls]})
        contents.append({"role": "user", "parts": results[: 1 if number == 4 else 2]})
    contents.append({"role": "user", "parts": [{"text": "Go on"}]})
    declared = [{"name": name, "description": "Reads. " * 60, "parameters": schema} for name in ("read", "list")]
    return {"systemInstruction": {"parts": [{"text": "Be short."}]}, "contents": contents,
            "tools": [{"functionDeclarations": declared}], "generationConfig": {"temperature": 0.5}}  # fmt: skip


def _ollama() -> Json:
    """Calls without ids, whose results answer them in order."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    messages: list[Json] = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Find the fault."}]
    for number in range(8):
        calls: list[Json] = [
            {"function": {"name": name, "arguments": {"path": str(number)}}} for name in ("read", "list")
        ]
        if number == 3:
            calls = [{"id": f"call_{index}", **each} for index, each in enumerate(calls)]
        messages.append({"role": "assistant", "content": f"Step {number}", "tool_calls": calls})
        for index, name in enumerate(("list", "read") if number % 2 else ("read", "list")):
            answered: Json = {"tool_call_id": f"call_{index}"} if number == 3 else {"tool_name": name}
            messages.append({"role": "tool", "content": f"line {number}", **answered})
    messages.append({"role": "user", "content": "Thanks"})
    tools = [{"type": "function", "function": {"name": name, "description": "Reads. " * 60, "parameters": schema}}
             for name in ("read", "list")]  # fmt: skip
    return {"model": "qwen3", "stream": False, "messages": messages, "tools": tools}


def growing(wire: str, body: Json, steps: int = 6) -> Iterator[Json]:
    """The requests before that one: its history grows."""
    name = history_of(wire)
    history = body.get(name)
    if not isinstance(history, list):
        yield body
        return
    for end in sorted({max(1, len(history) * step // steps) for step in range(1, steps + 1)}):
        yield {**body, name: history[:end]}


def changed(wire: str, body: Json, random_: random.Random) -> Json:
    """The request with something else in it: what a client may do between two requests."""
    name = history_of(wire)
    history = body.get(name)
    if not isinstance(history, list) or len(history) < 2:
        return body
    place = random_.randrange(len(history))
    match random_.randrange(6):
        case 0:
            return {**body, name: [*history[:place], *history[place + 1 :]]}
        case 1:
            return {**body, name: [*history[:place], history[place], *history[place:]]}
        case 2:
            marked = {**history[place], "cache_control": {"type": "ephemeral"}}
            return {**body, name: [*history[:place], marked, *history[place + 1 :]]}
        case 3:
            return {key: body[key] for key in reversed(body)}
        case 4:
            return {**body, "tools": list(reversed(body.get("tools") or ()))}
        case _:
            return {**body, name: [*history, {"role": "user", "content": f"More {random_.random()}"}]}
