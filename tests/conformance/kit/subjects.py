"""The kit over our own adapters: the models, and how their providers answer."""

import os
from dataclasses import replace

from dragoman.adapter.registry import get_adapter
from dragoman.testing.conformance import Effort, Subject, Wire
from dragoman.testing.sample_reply import SHORT, SHORTEST
from dragoman.testing.stream_laws import Effort as StreamEffort
from tests.laws.streams.subjects import MODELS, create_adapter, wires_for

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"

_OTHERS = {
    "azure-openai": "gpt-4.1",
    "groq": "openai/gpt-oss-120b",
    "deepseek": "deepseek-v4-flash",
    "xai": "grok-4.5",
    "huggingface": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "ollama-openai": "qwen3:4b",
}
"""Rows of the table of compatible endpoints: all rows share their code, and these differ most."""

PROVIDERS = (*MODELS, *_OTHERS)

EFFORT = (
    Effort(histories=500, replies=200, streams=StreamEffort(mutations=2000), mutated=SHORT)
    if NIGHTLY
    else Effort(
        histories=4,
        replies=1,
        streams=StreamEffort(replays=0, mutations=8, stride=29, cuts=29),
        mutated=SHORTEST,
        processes=0,
    )
)
"""The stream laws have tests of their own, which cut everywhere; here the kit itself is tested."""


def subject_of(provider: str) -> Subject:
    """Raises DragomanError if the adapter is not installed."""
    adapter = get_adapter(f"{provider}:{_OTHERS[provider]}") if provider in _OTHERS else create_adapter(provider)
    return Subject(adapter, _wires(provider, wires_for(adapter)), EFFORT)


def _wires(provider: str, wires: tuple[Wire, ...]) -> tuple[Wire, ...]:
    """The wires of a provider that differs from the wire that it shares with others."""
    if provider in ("openrouter", "groq", "ollama-openai"):
        return tuple(map(_with_reasoning, wires))
    return wires


def _with_reasoning(wire: Wire) -> Wire:
    """Rename the field of the thinking, which has DeepSeek's name in the shared wire."""

    def rename(body: bytes) -> bytes:
        return body.replace(b'"reasoning_content":', b'"reasoning":')

    return replace(
        wire, stream=lambda sample: rename(wire.stream(sample)), whole=lambda sample: rename(wire.whole(sample))
    )
