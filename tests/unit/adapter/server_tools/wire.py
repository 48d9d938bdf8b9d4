"""Requests with server tools."""

import json
from typing import Any

from dragoman import AdapterOptions, Message, RequestContext, ToolDefinition, get_adapter
from dragoman.adapter.wire import WireRequest

LOOK_UP = ToolDefinition(name="look_up")

CLAUDE = "anthropic:claude-sonnet-4-5"
GPT = "openai:gpt-5.4"
GEMINI_2 = "google:gemini-2.5-flash"
GEMINI_3 = "google:gemini-3-flash-preview"
VERTEX = "google-vertex:gemini-3-flash-preview"
INTERACTIONS = "google-interactions:gemini-3-flash-preview"
GROK = "xai:grok-4"
NOVA = "bedrock:us.amazon.nova-2-lite-v1:0"
OPENROUTER = "openrouter:openai/gpt-5"
COMPOUND = "groq:groq/compound"
OSS = "groq:openai/gpt-oss-20b"
SONAR = "perplexity:sonar"
SEARCH_MODEL = "openai-chat:gpt-4o-search-preview"


def write(model: str, *tools: ToolDefinition, **options: Any) -> tuple[dict[str, Any], WireRequest]:
    """Return the body of a request with these tools, and the request."""
    wire = get_adapter(model).to_wire([Message.user("Hi")], tools, AdapterOptions(**options))
    return json.loads(wire.body), wire


def entries(model: str, *tools: ToolDefinition) -> list[dict[str, Any]]:
    """Return the list of tools of a request."""
    body, _ = write(model, *tools)
    found: list[dict[str, Any]] = body.get("toolConfig", body).get("tools", [])
    return found


def read(model: str, body: dict[str, Any]) -> list[ToolDefinition]:
    """Return the tools that a request offers."""
    return get_adapter(model).from_wire_request(body, RequestContext(model=model))[1]
