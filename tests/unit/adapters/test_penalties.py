"""frequency_penalty and presence_penalty: sent under the wire's names, read back, and a loss elsewhere."""

import json

import pytest

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.adapter.losses import LossKind
from dragoman.adapter.wirejson import lookup_path

PENALTIES = AdapterOptions(frequency_penalty=0.5, presence_penalty=-0.25)

SENT = {
    "openai-chat:gpt-4.1": ("frequency_penalty", "presence_penalty"),
    "azure-openai:gpt-4.1": ("frequency_penalty", "presence_penalty"),
    "deepseek:deepseek-chat": ("frequency_penalty", "presence_penalty"),
    "openrouter:meta-llama/llama-4-scout": ("frequency_penalty", "presence_penalty"),
    "mistral:mistral-large-latest": ("frequency_penalty", "presence_penalty"),
    "cohere:command-a-03-2025": ("frequency_penalty", "presence_penalty"),
    "ollama:qwen3:4b": ("options.frequency_penalty", "options.presence_penalty"),
    "google:gemini-2.0-flash": ("generationConfig.frequencyPenalty", "generationConfig.presencePenalty"),
    "google-vertex:gemini-2.5-pro": ("generationConfig.frequencyPenalty", "generationConfig.presencePenalty"),
}

LOST = {
    "anthropic:claude-sonnet-4-6": "the Messages API has none",
    "openai:gpt-4.1": "the Responses API has none",
    "bedrock:amazon.nova-lite-v1:0": "Converse has none",
    "google-interactions:gemini-2.0-flash": "the Interactions API has none",
    "groq:openai/gpt-oss-120b": "the endpoint has none",
    "cerebras:gpt-oss-120b": "the endpoint has none",
    "google-openai:gemini-2.5-flash": "the endpoint has none",
    "local:smollm2-135m": "models in this process have none",
    "google:gemini-2.5-flash": "gemini-2.5-flash takes none",
    "google-vertex:gemini-3.6-flash": "gemini-3.6-flash takes none",
    "openai-chat:o3": "o3 takes no sampling parameters",
    "deepseek:deepseek-v4-pro": "deepseek-v4-pro takes no sampling parameters when it reasons",
}


@pytest.mark.parametrize(("model", "paths"), SENT.items(), ids=SENT)
def test_penalties_are_sent_and_read_back(model: str, paths: tuple[str, str]) -> None:
    """They are decoded to the typed options, and none is left in ``extra``."""
    adapter = get_adapter(model)
    wire = adapter.to_wire([Message.user("Hi")], [], PENALTIES)
    body = json.loads(wire.body)
    assert wire.losses == ()
    assert [lookup_path(body, path) for path in paths] == [0.5, -0.25]
    _, _, options = adapter.from_wire_request(wire.body, RequestContext.for_model(model))
    assert (options.frequency_penalty, options.presence_penalty, dict(options.extra)) == (0.5, -0.25, {})


@pytest.mark.parametrize(("model", "reason"), LOST.items(), ids=LOST)
def test_penalties_are_losses_elsewhere(model: str, reason: str) -> None:
    """The body is the same as without them."""
    adapter = get_adapter(model)
    wire = adapter.to_wire([Message.user("Hi")], [], PENALTIES)
    assert wire.body == adapter.to_wire([Message.user("Hi")], [], AdapterOptions()).body
    assert [(loss.kind, loss.reason) for loss in wire.losses] == [
        (LossKind.OPTION, f"frequency_penalty: {reason}"),
        (LossKind.OPTION, f"presence_penalty: {reason}"),
    ]


@pytest.mark.parametrize("model", ["grok-4.5", "grok-3-mini"])
def test_models_of_xai_that_reason_refuse_penalties(model: str) -> None:
    """Its Chat Completions accept them from the other models."""
    from dragoman.adapter.contract import Adapter
    from dragoman.adapter.registry import adapter_class

    chat: type[Adapter] = adapter_class("xai").apis["chat"]  # type: ignore[attr-defined]
    refused = chat(model).to_wire([Message.user("Hi")], [], PENALTIES)
    assert [loss.reason for loss in refused.losses] == [
        f"frequency_penalty: {model} takes none",
        f"presence_penalty: {model} takes none",
    ]
    assert json.loads(chat("grok-3").to_wire([Message.user("Hi")], [], PENALTIES).body)["presence_penalty"] == -0.25
