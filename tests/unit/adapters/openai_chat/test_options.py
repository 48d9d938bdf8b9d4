"""Options: those that each model accepts, and the losses of the others."""

from typing import Any

import pytest

from dragoman.adapter.contract import NamedTool
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_platform.options import strict_schema
from tests.tables import each_row
from tests.unit.adapters.openai_chat.wire import adapter, encode_request, losses

TOOL = ToolDefinition(name="f", description="f")

CASES: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    ("gpt-4.1", {}, {}, []),
    ("gpt-4.1", {"max_output_tokens": 9}, {"max_completion_tokens": 9}, []),
    ("gpt-4.1", {"stop_sequences": ("a", "b")}, {"stop": ["a", "b"]}, []),
    ("gpt-4.1", {"temperature": 0.5, "top_p": 0.9, "seed": 1}, {"temperature": 0.5, "top_p": 0.9, "seed": 1}, []),
    ("gpt-4.1", {"top_k": 5}, {}, ["top_k"]),
    ("gpt-4.1", {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}, []),
    ("gpt-4.1", {"prompt_cache": "1h"}, {}, ["prompt_cache"]),
    ("gpt-4.1", {"prompt_cache": "5m"}, {}, []),
    ("gpt-4.1", {"effort": "high"}, {}, ["effort"]),
    ("gpt-4.1", {"effort": "none", "thinking": False}, {}, []),
    ("gpt-4.1", {"thinking_budget": 100}, {}, ["thinking_budget"]),
    ("o3", {"temperature": 1.0, "stop_sequences": ("a",)}, {}, ["stop_sequences", "temperature"]),
    ("o3", {"effort": "xhigh"}, {"reasoning_effort": "high"}, ["effort"]),
    ("o3", {"thinking": False}, {"reasoning_effort": "low"}, ["effort"]),
    ("gpt-5", {"effort": "minimal", "top_p": 0.1}, {"reasoning_effort": "minimal"}, ["top_p"]),
    ("gpt-5.4", {"temperature": 0.2}, {"temperature": 0.2}, []),
    ("gpt-5.4", {"temperature": 0.2, "effort": "low"}, {"reasoning_effort": "low"}, ["temperature"]),
    ("gpt-5.4", {"logprobs": 2}, {"logprobs": True, "top_logprobs": 2}, []),
    ("gpt-5.4", {"logprobs": 2, "effort": "low"}, {"reasoning_effort": "low"}, ["logprobs"]),
    ("gpt-6-astra", {"logprobs": 0}, {}, ["logprobs"]),
    ("gpt-4.1", {"logprobs": 0}, {"logprobs": True}, []),
    ("gpt-5.4", {"thinking": True}, {"reasoning_effort": "medium"}, []),
    ("gpt-5.6-sol", {"temperature": 0.2}, {}, ["temperature"]),
    ("gpt-5.6-sol", {"temperature": 0.2, "effort": "none"}, {"reasoning_effort": "none", "temperature": 0.2}, []),
    ("gpt-5.6-sol", {"effort": "whatever"}, {}, ["effort"]),
    ("gpt-6-astra", {"effort": "none"}, {"reasoning_effort": "minimal"}, ["effort"]),
    ("gpt-6.1-sol", {"effort": "minimal"}, {"reasoning_effort": "low"}, ["effort"]),
    ("gpt-6.2-sol", {"effort": "max", "temperature": 0.2}, {"reasoning_effort": "xhigh"}, ["effort", "temperature"]),
]


@each_row(("model", "options", "written", "lost"), CASES)
def test_options_are_fitted_to_the_model(
    model: str, options: dict[str, Any], written: dict[str, Any], lost: list[str]
) -> None:
    """No default is sent. An option that the model refuses is omitted or replaced, with a loss."""
    body, wire = encode_request([Message.user("Hi")], adapter(model), **options)
    assert body == {"model": model, "messages": [{"role": "user", "content": "Hi"}], **written}
    assert [reason for kind, reason in losses(wire) if kind == "option"] == lost


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("f"), {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_tool_choices_are_sent_with_tools_only(choice: Any, written: Any) -> None:
    """Without tools, the wire refuses them."""
    options = {"tool_choice": choice, "parallel_tool_calls": False}
    body, _ = encode_request([Message.user("Hi")], tools=[TOOL], **options)
    assert (body["tool_choice"], body["parallel_tool_calls"]) == (written, False)
    body, _ = encode_request([Message.user("Hi")], **options)
    assert body.keys() == {"model", "messages"}


def test_tools_turn_reasoning_off_if_chat_requires_it() -> None:
    """gpt-6-sol calls tools on this wire only without reasoning; gpt-6-astra calls none at all."""
    body, wire = encode_request([Message.user("Hi")], adapter("gpt-6-sol"), [TOOL], effort="high", temperature=0.1)
    assert (body["reasoning_effort"], body["temperature"]) == ("none", 0.1)
    assert losses(wire) == [("option", "effort")]
    body, wire = encode_request([Message.user("Hi")], adapter("gpt-6-astra"), [TOOL])
    assert "tools" not in body
    assert losses(wire) == [("tools", "gpt-6-astra calls no tools")]


def test_extra_fields_override_the_body() -> None:
    """The caller's fields override; an ellipsis removes one; fields for other providers are ignored."""
    extra = {"openai-chat": {"prompt_cache_key": "k", "stream_options": ...}, "anthropic": {"x": 1}}
    body, wire = encode_request([Message.user("Hi")], stream=True, extra=extra)
    assert body["prompt_cache_key"] == "k"
    assert "stream_options" not in body
    assert wire.stream


def test_a_schema_is_sent_in_its_strict_form() -> None:
    """Only strict mode binds a model to the schema."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    body, wire = encode_request([Message.user("Hi")], output_schema=schema)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "answer",
            "schema": {**schema, "required": ["a", "b"], "additionalProperties": False},
            "strict": True,
        },
    }
    assert wire.losses == ()
    assert schema["required"] == ["a"]


def test_a_schema_without_strict_form_is_a_hint() -> None:
    """An object with free keys has no strict form: it is sent as it is, with a loss."""
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    body, wire = encode_request([Message.user("Hi")], output_schema=schema)
    assert body["response_format"]["json_schema"] == {"name": "answer", "schema": schema, "strict": False}
    assert losses(wire) == [("option", "output_schema")]
    body, wire = encode_request([Message.user("Hi")], adapter("gpt-4"), output_schema=schema)
    assert "response_format" not in body
    assert losses(wire) == [("option", "output_schema")]


INNER = {"type": "object", "properties": {"x": {"type": "integer"}}}
STRICT_INNER = {**INNER, "additionalProperties": False, "required": ["x"]}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "string"}, None),
        ({"type": "object"}, None),
        (
            {"type": "object", "properties": {}},
            {"type": "object", "properties": {}, "additionalProperties": False, "required": []},
        ),
        ({**INNER, "additionalProperties": True}, None),
        ({**INNER, "oneOf": []}, None),
        ({"type": "object", "properties": {"a": True}}, None),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": INNER}, "b": {"anyOf": [INNER, {"type": "null"}]}},
            },
            {
                "type": "object",
                "properties": {
                    "a": {"type": "array", "items": STRICT_INNER},
                    "b": {"anyOf": [STRICT_INNER, {"type": "null"}]},
                },
                "additionalProperties": False,
                "required": ["a", "b"],
            },
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/I", "description": "d"}}, "$defs": {"I": INNER}},
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/I"}},
                "$defs": {"I": STRICT_INNER},
                "additionalProperties": False,
                "required": ["a"],
            },
        ),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/I", "minimum": 1}}}, None),
        ({"type": "object", "properties": {"a": {"type": ["object", "null"]}}}, None),
    ],
)
def test_schemas_have_strict_forms(schema: dict[str, Any], strict: dict[str, Any] | None) -> None:
    """Objects close and require all their properties, at every depth; what cannot be closed has no strict form."""
    assert strict_schema(schema) == strict
