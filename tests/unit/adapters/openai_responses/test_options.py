"""Options to parameters, by the model's facts; unsupported ones are losses."""

from collections.abc import Mapping
from typing import Any

import pytest

from dragoman import AdapterOptions, Message, ToolDefinition
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.losses import LossKind
from dragoman_adapters.openai_responses.adapter import ResponsesAdapter
from tests.tables import each_row
from tests.unit.adapters.openai_responses.wire import body_of

CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
LAX = {"title": "My answer!", "type": "object", "properties": {"a": {"type": "string"}}}
LOGPROBS = ["message.output_text.logprobs"]
OPEN = {"type": "object", "additionalProperties": {"type": "string"}}

PARAMETERS: list[tuple[str, dict[str, Any], Mapping[str, Any], int]] = [
    ("gpt-5.4", {}, {}, 0),
    ("gpt-5.4", {"max_output_tokens": 9, "stream": True}, {"max_output_tokens": 9, "stream": True}, 0),
    ("gpt-5.4", {"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}, 0),
    ("gpt-5.4", {"temperature": 0.0, "effort": "low"}, {"reasoning": {"effort": "low"}}, 1),
    ("gpt-5.6-sol", {"temperature": 0.0}, {}, 1),
    ("gpt-5.6-sol", {"temperature": 0.0, "effort": "none"}, {"temperature": 0.0, "reasoning": {"effort": "none"}}, 0),
    ("gpt-5", {"temperature": 0.0, "top_p": 0.5}, {}, 2),
    ("gpt-5.4", {"logprobs": 3}, {"include": LOGPROBS, "top_logprobs": 3}, 0),
    ("gpt-5.4", {"logprobs": 3, "effort": "low"}, {"reasoning": {"effort": "low"}}, 1),
    ("gpt-5", {"logprobs": 0}, {}, 1),
    ("o3", {"logprobs": 3, "effort": "high"}, {"reasoning": {"effort": "high"}}, 1),
    ("gpt-4o", {"logprobs": 0}, {"include": LOGPROBS}, 0),
    ("gpt-4o", {"temperature": 0.0}, {"temperature": 0.0}, 0),
    ("a-local-model", {"temperature": 0.0, "effort": "high"}, {"temperature": 0.0, "reasoning": {"effort": "high"}}, 0),
    ("gpt-5.4", {"top_k": 1, "seed": 1, "stop_sequences": ("x",), "thinking_budget": 5}, {}, 4),
    ("gpt-5.4", {"thinking": True}, {"reasoning": {"effort": "medium", "summary": "auto"}}, 0),
    ("gpt-5", {"thinking": True}, {"reasoning": {"summary": "auto"}}, 0),
    ("gpt-5", {"thinking": True, "effort": "max"}, {"reasoning": {"effort": "high", "summary": "auto"}}, 1),
    ("gpt-5.4", {"thinking": False, "effort": "high"}, {"reasoning": {"effort": "none"}}, 0),
    ("gpt-5", {"thinking": False}, {"reasoning": {"effort": "minimal"}}, 1),
    ("gpt-6.1-sol", {"effort": "none"}, {"reasoning": {"effort": "low"}}, 1),
    ("gpt-6.2-sol", {"effort": "max"}, {"reasoning": {"effort": "xhigh"}}, 1),
    ("gpt-5.4", {"effort": "utmost"}, {}, 1),
    ("gpt-4o", {"thinking": True}, {}, 1),
    ("gpt-4o", {"effort": "high"}, {}, 1),
    ("gpt-4o", {"thinking": False}, {}, 0),
    ("gpt-5.4", {"tool_choice": "required"}, {"tool_choice": "required"}, 0),
    ("gpt-5.4", {"tool_choice": NamedTool("x")}, {"tool_choice": {"type": "function", "name": "x"}}, 0),
    ("gpt-5.4", {"parallel_tool_calls": False}, {"parallel_tool_calls": False}, 0),
    ("gpt-5.4", {"prompt_cache": "5m"}, {}, 0),
    ("gpt-5.4", {"prompt_cache": "1h"}, {}, 1),
    ("gpt-5.6-sol", {"prompt_cache": "1h"}, {"prompt_cache_options": {"ttl": "12h"}}, 0),
    (
        "gpt-5.4",
        {"output_schema": CLOSED},
        {"text": {"format": {"type": "json_schema", "name": "answer", "schema": CLOSED, "strict": True}}},
        0,
    ),
    (
        "gpt-5.4",
        {"output_schema": LAX},
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "My_answer_",
                    "schema": {**LAX, "required": ["a"], "additionalProperties": False},
                    "strict": True,
                }
            }
        },
        0,
    ),
    (
        "gpt-5.4",
        {"output_schema": OPEN},
        {"text": {"format": {"type": "json_schema", "name": "answer", "schema": OPEN, "strict": False}}},
        1,
    ),
    ("gpt-5.4", {"extra": {"openai": {"store": False}, "other": {"x": 1}}}, {"store": False}, 0),
]


@each_row(("model", "options", "parameters", "lost"), PARAMETERS)
def test_options_are_fitted_to_the_model(
    model: str, options: dict[str, Any], parameters: Mapping[str, Any], lost: int
) -> None:
    """Only requested options are sent, and none is lost silently."""
    tools = [ToolDefinition(name="x")] if options.keys() & {"tool_choice", "parallel_tool_calls"} else []
    body, losses = body_of([Message.user("Hi")], tools, AdapterOptions(**options), model=model)
    assert {key: body[key] for key in body if key not in ("model", "input", "tools")} == parameters
    assert losses == (LossKind.OPTION,) * lost


def test_a_model_without_schemas_is_prompted() -> None:
    """A model without schemas is prompted in its instructions, after those of the conversation."""
    body, losses = body_of([Message.user("Hi")], options=AdapterOptions(output_schema=CLOSED), model="gpt-4")
    assert "text" not in body
    assert '"required":["a"]' in body["instructions"]
    assert losses == (LossKind.OPTION,)
    history = [Message.system("Be brief."), Message.user("Hi")]
    body, _ = body_of(history, options=AdapterOptions(output_schema=CLOSED), model="gpt-4")
    assert body["instructions"] == "Be brief."
    assert [item["role"] for item in body["input"]] == ["system", "user"]


def test_the_request_goes_to_the_responses_path() -> None:
    """Host and key are the transport's; the caller's headers are added."""
    options = AdapterOptions(stream=True, headers={"openai": {"x-a": "b"}})
    wire = ResponsesAdapter("gpt-5.4").to_wire([Message.user("Hi")], [], options)
    assert (wire.method, wire.path, wire.stream) == ("POST", "/responses", True)
    assert wire.headers == {"content-type": "application/json", "x-a": "b"}


@pytest.mark.parametrize(
    ("model", "window", "reads_itself"),
    [
        ("gpt-4o-mini", 128_000, False),
        ("gpt-4.1", 1_047_576, False),
        ("gpt-5.4", 1_050_000, True),
        ("gpt-5.4-nano", 400_000, True),
        ("gpt-6-astra", 1_050_000, True),
        ("o4-mini", 200_000, True),
    ],
)
def test_capabilities_are_those_of_the_model(model: str, window: int, reads_itself: bool) -> None:
    """Facts come from the table, by the model's name."""
    abilities = ResponsesAdapter(model).capabilities
    assert abilities.max_context_tokens == window
    assert abilities.thinking_policy.can_read(f"openai:{model}") is reads_itself
    assert bool(abilities.supports_thinking) is reads_itself


def test_every_listed_model_has_levels_of_effort_or_no_reasoning() -> None:
    """Each level of the table is a known one, and the default is one of the model's."""
    for model in ResponsesAdapter.listed_models:
        abilities = ResponsesAdapter(model).capabilities
        if abilities.supports_thinking:
            assert abilities.wire["default_effort"] in abilities.wire["efforts"], model
            assert (abilities.thinking_off == "native") == ("none" in abilities.wire["efforts"]), model
