"""A word anywhere in what a program gives a session is judged, or refused, or does not arrive; else its place is on the
list of the documentation."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman import AdapterOptions, Message, Session, ToolDefinition
from dragoman.adapter.contract import NamedTool
from dragoman.errors import DragomanError
from dragoman.policy import Pipeline
from dragoman.policy.extensions import ToolMetadata
from dragoman.server_tools import WebSearch
from dragoman.tools import Tool
from dragoman.tools.mcp import McpTool
from dragoman.transport import RetryPolicy
from tests.gateway.app.test_canaries import CANARY, PNG, no_canary, places, spelled, with_canary

MODELS = {
    "anthropic": "anthropic:claude-opus-4-6", "openai-chat": "openai-chat:gpt-4.1", "openai": "openai:gpt-4.1",
    "google": "google:gemini-2.5-flash", "ollama": "ollama:qwen3",
}  # fmt: skip
DOCS = Path(__file__).parents[4] / "docs/reference/policy.md"
PIPELINE = Pipeline([no_canary], unknown="drop")

_SCHEMA = {"type": "object", "title": "Look", "properties": {"path": {"type": "string", "description": "Where."}}}
CALL, OTHER = "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5", "tu_01M7YJFK7P2ZFT4X2CGGZPP6M6"
INPUTS: dict[str, Any] = {
    "system": "Be brief.",
    "prompt": "And now?",
    "messages": [
        {"role": "user", "content": [
            {"type": "text", "text": "Hello.", "citations": [{"kind": "web", "title": "T", "url": "https://a.example"}]},
            {"type": "image", "source": {"kind": "url", "data": "https://example.org/a.png"}, "detail": "low"},
            {"type": "image", "source": {"kind": "base64", "data": PNG}, "media_type": "image/png"},
            {"type": "document", "source": {"kind": "text", "data": "plain"}, "title": "A", "context": "The contract."},
            {"type": "resource", "resource_request_id": "r1", "uri": "file:///a", "resource_type": "file", "name": "a",
             "description": "A file", "content": "Hello.", "mime_type": "text/plain", "annotations": {"a": "b"}},
            {"type": "resource_ref", "resource_request_id": "r1", "uri": "file:///b", "resource_type": "file",
             "name": "b", "selector": "$.a"},
        ]},
        {"role": "assistant", "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": CALL, "name": "look", "input": {"path": "a", "deep": {"b": ["c"]}}},
            {"type": "tool_use", "id": OTHER, "name": "look", "input": {}, "raw_input": "{\"path\": \"a\"}"},
        ]},
        {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": CALL, "content": [
            {"type": "text", "text": "42"},
            {"type": "document", "source": {"kind": "base64", "data": "aGVsbG8="}, "media_type": "text/plain"},
        ]}]},
        {"role": "tool", "content": [
            {"type": "tool_result", "tool_use_id": OTHER, "content": [{"type": "text", "text": "No."}],
             "is_error": True},
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "text": "Hm."}, {"type": "text", "text": "It is 42."},
            {"type": "provider", "provider": "anthropic", "kind": "server_tool_use",
             "data": {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}}},
            {"type": "provider", "provider": "anthropic", "kind": "web_search_tool_result",
             "data": {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
                 {"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "eA=="},
             ]}},
        ]},
        {"role": "user", "content": [
            {"type": "prompt_result", "prompt_request_id": "p1", "prompt_name": "greet", "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hello."}]},
            ], "content": "Hello."},
        ]},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
    ],
    "tool": {"name": "look", "description": "Looks.", "input_schema": _SCHEMA},
    "own": {"name": "write", "description": "Writes.", "input_schema": _SCHEMA, "requires_workspace": False},
    "search": {"allowed_domains": ["example.org"]},
    "options": {
        "stop_sequences": ["END"], "tool_choice": "look", "output_schema": _SCHEMA, "effort": "low",
        "service_tier": "auto", "verbosity": "low", "reasoning_summary": "auto", "user": "u1", "metadata": {"k": "v"},
        "safety": "off", "prompt_cache": "5m", "keep_alive": "5m", "extra": {"note": "x", "deep": {"a": ["b"]}},
        "headers": {"x-note": "a"},
    },
}  # fmt: skip


def mcp_tool(described: dict[str, Any]) -> Tool:
    """Return a tool as a server describes it."""
    definition = ToolDefinition.model_validate({**described, "requires_workspace": False})
    metadata = ToolMetadata(name=definition.name, description=definition.description, server_id="files")
    return McpTool(definition, lambda **arguments: "42", metadata=metadata)


def adapter_options(given: dict[str, Any], provider: str) -> AdapterOptions:
    known = {each.name for each in fields(AdapterOptions)}
    assert given.keys() <= known or CANARY in str(given)
    found = {name: value for name, value in given.items() if name in known}
    nested = {name: {provider: found[name]} for name in ("extra", "headers")}
    texts = tuple(found["stop_sequences"])
    return AdapterOptions(
        **{**found, **nested, "stop_sequences": texts, "tool_choice": NamedTool(found["tool_choice"])}
    )


def tools(inputs: dict[str, Any], provider: str) -> list[Any]:
    search = [WebSearch(**inputs["search"])] if provider in SEARCHING else []
    return [mcp_tool(inputs["tool"]), ToolDefinition.model_validate(inputs["own"]), *search]


SEARCHING = ("anthropic", "openai")
"""Providers whose search can be kept to some domains."""


def ask(inputs: dict[str, Any], provider: str, client: httpx.Client) -> None:
    """Let a session ask with these inputs. Its provider refuses all that arrives: only what is sent counts."""
    settings = {"client": client, "api_key": "none", "retry": RetryPolicy(max_retries=0)}
    try:
        with Session(
            MODELS[provider],
            system=inputs["system"],
            messages=[Message.model_validate_json(json.dumps(each)) for each in inputs["messages"]],
            tools=tools(inputs, provider),
            options=adapter_options(inputs["options"], provider),
            policy=PIPELINE,
            providers={provider: settings},
        ) as session:
            session.ask(inputs["prompt"])
    except (DragomanError, ValueError, TypeError):
        pass


def listed() -> set[str]:
    """Return the places that the documentation says are not judged."""
    section = DOCS.read_text(encoding="utf-8").partition("## Not judged")[2].partition("\n## ")[0]
    return set(re.findall(r"`((?:text|field|key) [a-z][^`]*)`", section))


@pytest.mark.parametrize("provider", MODELS)
def test_a_word_anywhere_in_what_a_session_is_given(provider: str) -> None:
    bodies: list[bytes] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content + str(request.headers.raw).encode())
        return httpx.Response(400, json={"error": {"message": "no", "type": "invalid_request_error"}})

    missed: set[str] = set()
    with httpx.Client(transport=httpx.MockTransport(refuse), trust_env=False) as client:
        ask(INPUTS, provider, client)
        assert bodies, "what has no such word is sent"
        for what, place in places(INPUTS):
            if place:
                bodies.clear()
                ask(with_canary(INPUTS, what, place), provider, client)
                if CANARY.encode() in b" ".join(bodies):
                    missed.add(spelled(what, place))
    assert "\n".join(sorted(missed - listed())) == ""
