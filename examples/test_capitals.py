"""Tests of a program that asks a model. They replay `examples/cassettes`, so they need no key and no network.

It shows cassettes and a scripted provider: `pip install 'dragoman[testing]' && pytest examples/test_capitals.py`
"""

import pytest

from dragoman import Client, RateLimitError
from dragoman.testing import ScriptedProvider

MODEL = "anthropic:qwen2.5-coder-0.5b"  # a local llama-server was recorded: pytest --record-mode=rewrite records again


def capital_of(country: str, client: Client, model: str = MODEL) -> str:
    """The program under test."""
    try:
        reply = client.ask(model, f"What is the capital of {country}?", max_output_tokens=32)
    except RateLimitError:
        return "Ask me later."
    return reply.text


@pytest.mark.cassette("capital.yaml")
def test_a_recorded_model_knows_the_capital() -> None:
    """The prompt is part of the recording: if you change a letter of it, the test fails and shows the difference."""
    with Client() as client:
        assert "Paris" in capital_of("France", client)


def test_a_full_provider_is_not_an_error() -> None:
    """What you cannot record, you write."""
    with ScriptedProvider(RateLimitError("slow down")) as provider, Client() as client:
        assert capital_of("France", client, provider.model) == "Ask me later."
