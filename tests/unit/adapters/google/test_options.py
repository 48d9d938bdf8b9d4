"""Options on Google's wire."""

import json
from typing import Any

import pytest

from dragoman import AdapterOptions, Message, ToolDefinition
from dragoman.adapter.contract import NamedTool
from dragoman_adapters.google.adapter import GoogleAdapter
from tests.unit.adapters.google.wire import GEMINI_3, body, wire

PRO_3, FLASH_3, FLASH_37 = map(GoogleAdapter, ("gemini-3-pro-preview", "gemini-3-flash-preview", "gemini-3.7-flash"))
PRO_25, FLASH_25, FLASH_2 = map(GoogleAdapter, ("gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.0-flash"))


def thinking(adapter: GoogleAdapter, **options: Any) -> tuple[Any, list[str]]:
    """The thinkingConfig, and the lost options."""
    request = wire(Message.user("Hi"), adapter=adapter, **options)
    config = json.loads(request.body).get("generationConfig", {}).get("thinkingConfig")
    return config, [loss.reason.partition(":")[0] for loss in request.losses]


@pytest.mark.parametrize(
    ("adapter", "options", "config", "lost"),
    [
        (FLASH_3, {}, None, []),
        (FLASH_3, {"thinking": True}, {"includeThoughts": True}, []),
        (FLASH_3, {"effort": "minimal"}, {"thinkingLevel": "MINIMAL"}, []),
        (FLASH_3, {"effort": "max"}, {"thinkingLevel": "HIGH"}, ["effort"]),
        (FLASH_3, {"thinking": False}, {"thinkingLevel": "MINIMAL"}, ["thinking"]),
        (FLASH_37, {"effort": "none"}, {"thinkingLevel": "LOW"}, ["thinking"]),
        (PRO_3, {"effort": "medium", "thinking": True}, {"includeThoughts": True, "thinkingLevel": "HIGH"}, ["effort"]),
        (PRO_3, {"effort": "minimal"}, {"thinkingLevel": "LOW"}, ["effort"]),
        (PRO_3, {"thinking_budget": 500}, {"thinkingBudget": 500}, []),
        (PRO_3, {"thinking_budget": 500, "effort": "low"}, {"thinkingLevel": "LOW"}, ["thinking_budget"]),
        (FLASH_3, {"effort": "enormous"}, None, ["effort"]),
        (FLASH_25, {"effort": "low"}, {"thinkingBudget": 1024}, []),
        (FLASH_25, {"effort": "low", "thinking_budget": 7}, {"thinkingBudget": 7}, []),
        (FLASH_25, {"thinking": False}, {"thinkingBudget": 0}, []),
        (FLASH_25, {"thinking_budget": -1}, {"thinkingBudget": -1}, []),
        (PRO_25, {"effort": "none"}, {"thinkingBudget": 128}, ["thinking"]),
        (FLASH_2, {"effort": "high", "thinking": True}, None, ["thinking", "effort"]),
        (FLASH_2, {"thinking": False}, None, []),
    ],
)
def test_thinking_has_the_form_of_the_model(
    adapter: GoogleAdapter, options: dict[str, Any], config: Any, lost: list[str]
) -> None:
    """A level or a budget, by the model's table; an unsupported one is a loss."""
    assert thinking(adapter, **options) == (config, lost)


def test_settings_have_googles_names() -> None:
    """And only requested settings are sent."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert "generationConfig" not in body(Message.user("Hi"))
    sent = body(
        Message.user("Hi"), temperature=0.0, top_p=0.5, top_k=3, seed=4, max_output_tokens=5, stop_sequences=("a", "b"),
        output_schema=schema,
    )  # fmt: skip
    assert sent["generationConfig"] == {
        "temperature": 0.0, "topP": 0.5, "topK": 3, "seed": 4, "maxOutputTokens": 5, "stopSequences": ["a", "b"],
        "responseMimeType": "application/json", "responseJsonSchema": schema,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (NamedTool("add"), {"mode": "ANY", "allowedFunctionNames": ["add"]}),
    ],
)
def test_tool_choices_are_modes(choice: Any, config: dict[str, Any]) -> None:
    """A tool by name is a list of one."""
    options = AdapterOptions(tool_choice=choice)
    wire = GoogleAdapter("gemini-3-flash-preview").to_wire([Message.user("Hi")], [ToolDefinition(name="add")], options)
    assert json.loads(wire.body)["toolConfig"] == {"functionCallingConfig": config}


def test_unsupported_options_are_losses() -> None:
    """Parallel calls cannot be turned off."""
    losses = wire(Message.user("Hi"), parallel_tool_calls=False).losses
    assert [loss.reason for loss in losses] == ["parallel_tool_calls: Google has no such switch"]


def test_the_callers_own_fields_are_merged_one_by_one() -> None:
    """Fields inside generationConfig do not replace the options there."""
    extra: dict[str, dict[str, Any]] = {
        "google": {
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
            "generationConfig": {"candidateCount": 2, "thinkingConfig": {"includeThoughts": False}, "seed": ...},
        },
        "anthropic": {"top_k": 1},
    }
    request = GEMINI_3.to_wire([Message.user("Hi")], [], AdapterOptions(extra=extra, effort="low", seed=1, top_p=0.5))
    sent = json.loads(request.body)
    assert sent["generationConfig"] == {
        "topP": 0.5, "candidateCount": 2, "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": False},
    }  # fmt: skip
    assert sent["safetySettings"] == extra["google"]["safetySettings"]
    assert "top_k" not in sent


@pytest.mark.parametrize("name", ["gemini-3.6-flash", "gemini-4-ultra", "models/gemini-3-flash-preview"])
def test_unknown_models_are_treated_as_the_newest(name: str) -> None:
    """A model that is newer than the table requires signatures and accepts levels."""
    abilities = GoogleAdapter(name).capabilities
    assert abilities.wire["thinking"] == "level"
    assert abilities.wire["signature"]
