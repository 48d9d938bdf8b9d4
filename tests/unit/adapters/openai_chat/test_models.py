"""The facts about models, as rows that match names."""

import pytest

from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.registry import get_adapter
from tests.unit.adapters.openai_chat.wire import adapter


def facts(model: str) -> AdapterCapabilities:
    return adapter(model).capabilities


@pytest.mark.parametrize(
    ("model", "window", "output"),
    [
        ("gpt-3.5-turbo-0125", 16_385, 4096),
        ("gpt-4", 8192, 8192),
        ("gpt-4-turbo", 128_000, 4096),
        ("gpt-4o-mini-2024-07-18", 128_000, 16_384),
        ("gpt-4.1-nano", 1_047_576, 32_768),
        ("o1-mini", 128_000, 65_536),
        ("o4-mini-2025-04-16", 200_000, 100_000),
        ("gpt-5-2025-08-07", 400_000, 128_000),
        ("gpt-5-chat-latest", 128_000, 16_384),
        ("gpt-5.4", 1_050_000, 128_000),
        ("gpt-5.4-mini", 400_000, 128_000),
        ("gpt-5.5-2026-04-23", 1_050_000, 128_000),
        ("gpt-6.1-sol", 1_050_000, 128_000),
        ("a-deployment", 128_000, 16_384),
    ],
)
def test_context_windows_of_models(model: str, window: int, output: int) -> None:
    assert (facts(model).max_context_tokens, facts(model).max_output_tokens) == (window, output)


@pytest.mark.parametrize(
    ("model", "able"),
    [
        ("gpt-3.5-turbo", {"tools", "developer_role", "system_prompt", "structured_output"}),
        ("gpt-4.1", {"tools", "developer_role", "system_prompt", "images", "documents", "structured_output"}),
        ("gpt-audio", {"tools", "developer_role", "system_prompt", "structured_output", "audio"}),
        ("o1-mini", {"structured_output"}),
        ("o3-mini", {"tools", "developer_role", "system_prompt", "structured_output"}),
        ("gpt-5-mini", {"tools", "developer_role", "system_prompt", "images", "documents", "structured_output"}),
        ("gpt-6-astra", {"developer_role", "system_prompt", "images", "documents", "structured_output"}),
    ],
)
def test_capabilities_of_models(model: str, able: set[str]) -> None:
    """What a model accepts through this API. None returns its thinking here."""
    names = {
        "tools",
        "developer_role",
        "system_prompt",
        "images",
        "documents",
        "structured_output",
        "audio",
        "thinking",
    }
    assert {name for name in names if getattr(facts(model), f"supports_{name}")} == able


@pytest.mark.parametrize(
    ("model", "sampling", "default"),
    [
        ("gpt-4o", "allowed", "none"),
        ("o3", "never", "medium"),
        ("gpt-5-nano", "never", "medium"),
        ("gpt-5.1", "without_reasoning", "none"),
        ("gpt-5.2-2025-12-11", "without_reasoning", "none"),
        ("gpt-5.5", "without_reasoning", "medium"),
        ("gpt-5.6-terra", "without_reasoning", "medium"),
        ("gpt-6.2-sol", "never", "medium"),
    ],
)
def test_reasoning_of_models(model: str, sampling: str, default: str) -> None:
    """Which models take sampling parameters, and how much they reason by default."""
    assert (facts(model).sampling, facts(model).wire["default_effort"]) == (sampling, default)


def test_the_adapter_is_found_by_name() -> None:
    """Its listed models are models of its own table, all with tool ids that OpenAI accepts."""
    chat = get_adapter("openai-chat:gpt-4.1")
    assert str(chat.model_id) == "openai-chat:gpt-4.1"
    assert chat.endpoint.base_url == "https://api.openai.com/v1"
    assert len(chat.listed_models) == len(set(chat.listed_models)) > 10
    assert all(facts(name).tool_id_rule.max_length == 64 for name in chat.listed_models)
    assert chat.estimate_input_tokens([], []) >= 1
