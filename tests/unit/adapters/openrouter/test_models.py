"""The facts in the table of models, by vendor."""

import pytest

from dragoman_adapters.openrouter.adapter import OpenRouterAdapter


@pytest.mark.parametrize(
    ("model", "reads"),
    [
        ("anthropic/claude-haiku-4.5", "openrouter:anthropic/claude-sonnet-4.6"),
        ("openai/gpt-5-mini", "openrouter:openai/gpt-6.1-sol"),
        ("somebody/else", "openrouter:somebody/else-2"),
        ("gpt-4", "openrouter:gpt-4"),
    ],
)
def test_a_vendor_reads_its_own_thinking(model: str, reads: str) -> None:
    """It reads no thinking of other vendors, or of the same vendor elsewhere."""
    policy = OpenRouterAdapter(model).capabilities.thinking_policy
    assert policy.can_read(reads)
    assert not policy.can_read("openrouter:vendor/other")
    assert not policy.can_read(reads.replace("openrouter:", "vercel:"))


def test_upstreams_keep_their_rules() -> None:
    """Upstreams keep their rules: Mistral's rule for ids; no images for models without vision."""
    mistral = OpenRouterAdapter("mistralai/mistral-medium-3.1").capabilities
    assert (mistral.tool_id_rule.min_length, mistral.tool_id_rule.max_length) == (9, 9)
    assert not OpenRouterAdapter("deepseek/deepseek-v4-pro").capabilities.supports_images
    assert OpenRouterAdapter("unknown/model").capabilities.supports_images


def test_every_listed_declaration_can_be_read() -> None:
    """Every key of the table is a capability."""
    assert OpenRouterAdapter.listed_models
    for model in OpenRouterAdapter.listed_models:
        assert OpenRouterAdapter(model).capabilities.supports_tools
