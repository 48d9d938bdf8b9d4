"""A word anywhere in a request of any wire is judged, or the request is refused, or it does not arrive; else its place
is on the list of the documentation."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.policy import Step, Violation, hook
from tests.gateway.upstream import gateway_before, whole_reply

CANARY = "hunter2 of ward seven"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DOCS = Path(__file__).parents[3] / "docs/reference/policy.md"

_SCHEMA = {"type": "object", "title": "Look", "properties": {"path": {"type": "string", "description": "Where."}}}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/messages": {
        "model": "house", "max_tokens": 100, "stop_sequences": ["END"], "metadata": {"user_id": "u1"},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [
            {"name": "look", "description": "Looks.", "input_schema": _SCHEMA},
            {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["example.org"]},
        ],
        "tool_choice": {"type": "auto"},
        "messages": [
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I look.", "citations": None},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"path": "a", "deep": {"b": ["c"]}}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "42"}]},
                {"type": "text", "text": "And this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                {"type": "document", "title": "T", "context": "C",
                 "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
            ]},
        ],
    },
    "/v1/chat/completions": {
        "model": "house", "user": "u1", "stop": ["END"], "metadata": {"k": "v"},
        "prediction": {"type": "content", "content": "likely"},
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA}},
        "tools": [{"type": "function", "function": {"name": "look", "description": "L.", "parameters": _SCHEMA}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "name": "ann", "content": [
                {"type": "text", "text": "Hello."},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}},
            ]},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"path\": \"a\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "42"},
            {"role": "user", "content": "And?"},
        ],
    },
    "/v1/responses": {
        "model": "house", "instructions": "Be brief.", "store": False, "user": "u1", "metadata": {"k": "v"},
        "prompt_cache_key": "cache key", "prompt": {"id": "pmpt_1", "variables": {"who": "ann"}},
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": _SCHEMA}},
        "tools": [{"type": "function", "name": "look", "description": "L.", "parameters": _SCHEMA, "strict": False}],
        "input": [
            {"role": "user", "content": [
                {"type": "input_text", "text": "Hello."},
                {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
                {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"},
            ]},
            {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"path\": \"a\"}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "42"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "It is 42.", "annotations": []}]},
            {"role": "user", "content": "And?"},
        ],
    },
    "/v1beta/models/house:generateContent": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "look", "description": "L.", "parameters": _SCHEMA}]}],
        "generationConfig": {"stopSequences": ["END"], "responseMimeType": "application/json"},
        "labels": {"k": "v"},
        "contents": [
            {"role": "user", "parts": [
                {"text": "Hello."}, {"inlineData": {"mimeType": "image/png", "data": PNG, "displayName": "a"}},
                {"fileData": {"fileUri": "https://example.org/a.png", "mimeType": "image/png"}},
            ]},
            {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"path": "a"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"found": "42"}}}]},
        ],
    },
    "/api/chat": {
        "model": "house", "stream": False, "format": _SCHEMA, "options": {"stop": ["END"]},
        "tools": [{"type": "function", "function": {"name": "look", "description": "L.", "parameters": _SCHEMA}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello.", "images": [PNG]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "look", "arguments": {"path": "a"}}},
            ]},
            {"role": "tool", "content": "42", "tool_name": "look"},
            {"role": "user", "content": "And?"},
        ],
    },
}  # fmt: skip
OWN = {
    "/v1/messages": "anthropic:claude-opus-4-6",
    "/v1/chat/completions": "openai-chat:gpt-4.1",
    "/v1/responses": "openai:gpt-4.1",
    "/v1beta/models/house:generateContent": "google:gemini-2.5-flash",
    "/api/chat": "ollama:qwen3",
}


@hook("llm_input", "tool_pre_invoke", "tool_post_invoke", "prompt_post_fetch", "resource_post_fetch", name="canary")
def no_canary(step: Step) -> Violation | None:
    return Violation("it is there", code="canary") if any(CANARY in text for text in step.texts()) else None


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield each text of a body, and each object, which may have one more field."""
    if isinstance(value, dict):
        yield "field", path
        yield "key", path
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from places(each, (*path, index))
    elif isinstance(value, str):
        yield "text", path


def with_canary(body: dict[str, Any], what: str, path: tuple[Any, ...]) -> dict[str, Any]:
    changed = json.loads(json.dumps(body))  # parts that are one object here are two in a request
    target: Any = changed
    for step in path if what != "text" else path[:-1]:
        target = target[step]
    if what == "field":
        target["x_note"] = CANARY
    elif what == "key":
        target[f"x {CANARY}"] = 1
    else:
        known = target[path[-1]]
        nested = known.startswith("{")  # arguments, as a text of JSON
        target[path[-1]] = json.dumps({**json.loads(known), "more": CANARY}) if nested else f"{known} {CANARY}"
    return changed


def spelled(what: str, path: tuple[Any, ...]) -> str:
    """Return a place without its numbers, as the documentation lists it."""
    return f"{what} {'.'.join('*' if isinstance(each, int) else each for each in path)}".strip()


def listed() -> set[str]:
    """Return the places that the documentation says are not judged."""
    section = DOCS.read_text(encoding="utf-8").partition("## Not judged")[2].partition("\n## ")[0]
    return set(re.findall(r"`(/\S+ (?:text|field|key)[^`]*)`", section))


@pytest.mark.parametrize("behind", ["its own wire", "another wire"])
@pytest.mark.parametrize("path", BODIES)
def test_a_word_anywhere_in_a_request_is_judged_or_does_not_arrive(path: str, behind: str) -> None:
    other = "openai-chat:gpt-4.1" if path != "/v1/chat/completions" else "anthropic:claude-opus-4-6"
    models = {"house": OWN[path] if behind == "its own wire" else other}
    body, missed, arrived = BODIES[path], [], 0
    with gateway_before(whole_reply("messages"), models=models, client={"policy": [no_canary]}) as (url, server):
        httpx.post(url + path, json=body)
        assert len(server.requests) == 1, "the request without the word is sent"
        for what, place in places(body):
            if (what, place) == ("text", ("model",)):
                continue
            before = len(server.requests)
            httpx.post(url + path, json=with_canary(body, what, place))
            sent = b" ".join(request.body for request in server.requests[before:])
            arrived += bool(sent)
            if CANARY.encode() in sent:
                missed.append(f"{path} {spelled(what, place)}")
    assert sorted(set(missed) - listed()) == []
