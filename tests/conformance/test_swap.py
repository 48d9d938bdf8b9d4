"""Recorded conversations handed to every other model: each gives a request that its provider accepts."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from dragoman import AdapterOptions, DragomanError, Message, Role, ToolDefinition
from tests.conformance.scope import ADAPTERS, adapter_of, model_of, out_of_scope
from tests.conformance.subject import adapter_for, context_for, installed
from tests.conformance.validators import VALIDATORS
from tests.conformance.witnesses import unnamed
from tests.exchanges import Exchange, load_or_skip

pytestmark = pytest.mark.exchanges

TARGETS = {
    "anthropic": "anthropic:claude-opus-5-5",
    "openai-responses": "openai:gpt-6.1-sol",
    "openai-chat": "openai-chat:gpt-6-luna",
    "ollama": "ollama:qwen3:4b",
    "google": "google:gemini-3-flash-preview",
    "google-vertex": "google-vertex:gemini-2.5-flash",
    "cohere": "cohere:command-a-plus-05-2026",
    "bedrock": "bedrock:us.anthropic.claude-sonnet-4-6",
    "azure-openai": "azure-openai:gpt-4.1",
    "groq": "groq:openai/gpt-oss-120b",
    "deepseek": "deepseek:deepseek-v4-flash",
    "xai": "xai:grok-4.5",
    "huggingface": "huggingface:meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "ollama-openai": "ollama-openai:qwen3:4b",
    "openai-compatible": "perplexity:sonar",
    "openrouter": "openrouter:anthropic/claude-haiku-4.5",
    "mistral": "mistral:mistral-large-latest",
}
"""The model of each wire that histories are handed to."""

_INSTRUCTIONS = (Role.SYSTEM, Role.DEVELOPER)

_TELLING = {"multi_turn", "tool_results", "thinking_replay", "image", "document", "audio", "parallel_tools"}


@pytest.mark.parametrize("target", list(ADAPTERS))
@pytest.mark.parametrize("source", list(ADAPTERS))
def test_every_recorded_conversation_fits_every_other_wire(source: str, target: str) -> None:
    """The projected request passes the other wire's rules, and what it lacks is named as lost."""
    faults = _swap(source, target, prefixes=False)
    assert not faults, _summary(faults)


@pytest.mark.parametrize("target", list(ADAPTERS))
@pytest.mark.parametrize("source", list(ADAPTERS))
def test_a_conversation_may_be_handed_over_at_any_turn(source: str, target: str) -> None:
    """Every beginning of a history is a history: also one that stops between a call and its result."""
    faults = _swap(source, target, prefixes=True)
    assert not faults, _summary(faults)


def _swap(source: str, target: str, *, prefixes: bool) -> list[tuple[str, str]]:
    exchanges = [exchange for exchange in load_or_skip(source) if _is_telling(exchange)]
    for provider in (source, target):
        if missing := installed(provider):
            pytest.skip(missing)
    assert len(exchanges) >= 3, f"{source} has too few conversations to tell anything"
    faults: list[tuple[str, str]] = []
    for exchange in exchanges:
        read = _read(exchange)
        if read is None:
            continue
        messages, tools, options = read
        first = next(index for index, message in enumerate(messages, 1) if message.role not in _INSTRUCTIONS)
        ends = range(first, len(messages)) if prefixes else [len(messages)]
        for end in ends:
            found = _faults(messages[:end], tools, options, target, foreign=adapter_of(exchange) != _adapter(target))
            faults += [(f"{exchange.id}[:{end}]", fault) for fault in found]
    return faults


def _is_telling(exchange: Exchange) -> bool:
    return (
        exchange.request is not None
        and exchange.status < 400
        and out_of_scope(exchange) is None
        and bool(_TELLING & exchange.features)
    )


def _read(exchange: Exchange) -> tuple[list[Message], list[ToolDefinition], AdapterOptions] | None:
    """The history; None for a request whose earlier turns the provider keeps, which no one else can be told."""
    if exchange.request.get("previous_response_id") or exchange.request.get("conversation"):
        return None
    model = model_of(exchange)
    messages, tools, options = adapter_for(model).from_wire_request(exchange.request, context_for(model))
    return messages, tools, replace(options, stream=False)


def _faults(
    messages: list[Message], tools: list[ToolDefinition], options: AdapterOptions, target: str, *, foreign: bool
) -> list[str]:
    try:
        wire = adapter_for(TARGETS[target]).to_wire(messages, tools, options)
    except DragomanError as error:
        return [f"refused: {type(error).__name__}: {error}"]
    body = json.loads(wire.body)
    broken = list(VALIDATORS[_adapter(target)](body, foreign=foreign))
    # Some wires have no word for it that no tool may be called: then none is offered.
    offered = [] if options.tool_choice == "none" else tools
    return broken + list(unnamed(messages, offered, body, wire.losses, foreign=foreign))


def _adapter(target: str) -> str:
    return TARGETS[target].partition(":")[0]


def _summary(faults: list[tuple[str, str]]) -> str:
    kinds = Counter(fault.partition(":")[0] for _, fault in faults)
    lines = [f"{where} {fault}" for where, fault in faults[:15]]
    return "\n".join([f"{len(faults)} faults: {kinds.most_common(8)}", *lines])
