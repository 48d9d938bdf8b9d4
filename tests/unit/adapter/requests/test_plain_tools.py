"""Tools that a model takes as they are skip the steps that fit tools to it."""

from typing import Any

import pytest

from dragoman import AdapterOptions, Message, ToolDefinition, get_adapter
from dragoman.adapter.server_tools import encode
from dragoman.adapter.server_tools.encode import are_plain
from dragoman.adapter.wire import WireRequest
from dragoman.server_tools import WebSearch

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
MODELS = (
    "anthropic:claude-opus-5-5",
    "openai:gpt-6.1-sol",
    "openai-chat:gpt-4o",
    "google:gemini-3.5-pro",
    "ollama:qwen3",
    "cohere:command-a",
    "bedrock:anthropic.claude-opus-5-5",
    "mistral:mistral-large-latest",
)


def look(**fields: Any) -> ToolDefinition:
    return ToolDefinition(**{"name": "look", "description": "Looks.", "input_schema": SCHEMA, **fields})


TOOLS: dict[str, ToolDefinition] = {
    "plain": look(),
    "without description": look(description=""),
    "strict": look(strict=True),
    "not strict": look(strict=False),
    "deferred": look(defer_loading=True),
    "with extra fields": look(extra={"anthropic": {"eager_input_streaming": True}}),
    "with a name of other letters": look(name="look.at/it"),
    "with a long name": look(name="look" * 40),
    "a union": look(input_schema={"anyOf": [SCHEMA, {"type": "object", "properties": {}}]}),
    "without properties": look(input_schema={"type": "object"}),
    "with a format": look(input_schema={**SCHEMA, "properties": {"path": {"type": "string", "format": "uri"}}}),
    "with notes": look(provider_raw={"by": "anthropic", "residue": {"set": {"type": "custom"}}}),
    "a server tool": WebSearch(required=False),
}


def write(model: str, tools: list[ToolDefinition]) -> WireRequest:
    return get_adapter(model).to_wire([Message.user("Look.")], tools, AdapterOptions(max_output_tokens=9))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", TOOLS)
def test_a_request_with_plain_tools_is_what_all_steps_give(
    monkeypatch: pytest.MonkeyPatch, model: str, kind: str
) -> None:
    """The body, the headers and the losses are the same without the short way."""
    offered = [look(name="first"), TOOLS[kind]]
    quick = write(model, offered)
    monkeypatch.setattr(encode, "are_plain", lambda *_: False)
    assert write(model, offered) == quick


@pytest.mark.parametrize("model", MODELS)
def test_what_has_to_be_fitted_is_not_plain(model: str) -> None:
    """Fields of providers, notes, names and server tools take all steps; the tools of most programs take none."""
    capabilities = get_adapter(model).capabilities
    plain = {kind for kind, tool in TOOLS.items() if are_plain([look(name="first"), tool], capabilities)}
    assert plain <= {
        "plain", "without description", "with a name of other letters", "with a long name", "a union",
        "without properties", "with a format",
    }  # fmt: skip
    assert "plain" in plain


def test_a_schema_that_somebody_changes_is_sent_as_it_is_now() -> None:
    tool, model = look(input_schema={**SCHEMA}), MODELS[0]
    assert write(model, [tool]).losses == ()
    tool.input_schema["anyOf"] = [{"required": ["path"]}]
    assert [loss.reason for loss in write(model, [tool]).losses]
    assert b'"anyOf"' not in write(model, [tool]).body
