"""One request of a client for another provider: what the provider gets, what is lost, and what nobody names."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman import AdapterOptions, DragomanError, Message, RequestContext, get_adapter
from dragoman.adapter.answers.state_keys import StateMemory
from dragoman.adapter.losses import Loss
from dragoman.adapter.options import NamedTool
from dragoman.answers import ClientToolIds
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.tools import ServerTool, ToolDefinition
from tests.conformance.clients.recorded import ClientRequest
from tests.conformance.validators.requests import VALIDATORS
from tests.conformance.way_back.pairs import KEYS

TARGETS = {
    "anthropic": "anthropic:claude-opus-4-8",
    "openai-chat": "openai-chat:gpt-4.1",
    "openai": "openai:gpt-5",
    "google": "google:gemini-3-pro-preview",
    "ollama": "ollama:qwen3:4b",
    "mistral": "mistral:mistral-large-latest",
    "bedrock": "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "cohere": "cohere:command-a-03-2025",
    "deepseek": "deepseek:deepseek-v4-flash",
}
"""A model of each provider that gets the requests."""

_THOUGHTS = ("thinking", "redacted_thinking", "reasoning", "item_reference")
"""Types of parts that only their provider reads: their text may be left out, as a loss."""
_TEXT_FIELDS = ("text", "content", "instructions", "system", "input", "output", "response", "result", "return_value")
"""Fields that hold what somebody said, in the requests of all wires."""


@dataclass(slots=True)
class Outcome:
    """What became of one request. ``unnamed`` is what is gone without a loss, ``faults`` what the provider refuses."""

    request: ClientRequest
    target: str
    refusal: str = ""
    losses: tuple[Loss, ...] = ()
    faults: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)


def project(request: ClientRequest, target: str) -> Outcome:
    """Read a request and write it for a provider."""
    outcome = Outcome(request, target)
    model = TARGETS[target]
    context = RequestContext.for_model(
        model, state_sealer=KEYS, state_store=StateMemory(), tool_ids=ClientToolIds(), prices=None
    )
    try:
        body = json.dumps(request.body).encode()
        messages, tools, options = get_adapter(f"{request.wire}:client").from_wire_request(body, context)
        sent = get_adapter(model).to_wire(messages, tools, options)
    except DragomanError as error:
        outcome.refusal = f"{type(error).__name__}: {error}"
        return outcome
    outcome.losses = (*context.losses, *sent.losses)
    native = json.loads(sent.body)
    if target in VALIDATORS:
        outcome.faults += VALIDATORS[target](native, foreign=target != request.wire)
    outcome.unnamed += _unnamed(request, messages, tools, options, native, outcome.losses)
    return outcome


def _unnamed(
    request: ClientRequest,
    messages: list[Message],
    tools: list[ToolDefinition],
    options: AdapterOptions,
    native: Mapping[str, Any],
    losses: tuple[Loss, ...],
) -> Iterator[str]:
    """What the client's body holds, and neither the provider's body nor a loss."""
    sent = list(_strings(native))
    whole = "\n".join(sent)
    reasons = " ".join(loss.reason for loss in losses)
    for text in _texts(request.body):
        if text.strip() and text not in whole and json.dumps(text, ensure_ascii=False)[1:-1] not in whole:
            yield f"text {text[:60]!r}"
    named = set(sent)
    for tool in tools:
        is_own = isinstance(tool, ServerTool) and bool(native.get("tools"))  # under the provider's name for it
        if tool.name not in named and tool.name not in reasons and not is_own:
            yield f"the tool {tool.name}"
    blocks = [block for message in messages for block in message.content]
    calls = Counter(block.name for block in blocks if isinstance(block, ToolUseBlock))
    results = sum(isinstance(block, ToolResultBlock) for block in blocks)
    if sum(calls.values()) != _native_calls(request.body):
        yield f"{_native_calls(request.body)} calls were read as {sum(calls.values())}"
    if results != _native_results(request.body):
        yield f"{_native_results(request.body)} results were read as {results}"
    if isinstance(options.tool_choice, NamedTool) and options.tool_choice.name not in whole + reasons:
        yield f"the choice of {options.tool_choice.name}"


def _texts(value: Any, parent: str = "") -> Iterator[str]:
    """The texts of a client's conversation and the arguments of its calls."""
    if isinstance(value, dict):
        if value.get("type") in _THOUGHTS or value.get("thought"):
            return
        for key, item in value.items():
            if key in ("messages", "contents", "parts", "systemInstruction", "functionResponse", "function_response"):
                yield from _texts(item)
            elif key in _TEXT_FIELDS:
                yield from _texts(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, parent)
    elif isinstance(value, str) and parent:
        yield value


def _strings(value: Any) -> Iterator[str]:
    """All texts in a body; the values of JSON in a text, too."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            try:
                yield from _strings(json.loads(value))
            except ValueError:
                return


_CALL_TYPES = ("tool_use", "function_call", "custom_tool_call")
_RESULT_TYPES = ("tool_result", "function_call_output", "custom_tool_call_output")


def _native_calls(value: Any) -> int:
    """Count the calls in a client's history."""
    if isinstance(value, dict):
        here = value.get("type") in _CALL_TYPES or bool({"functionCall", "function_call"} & value.keys())
        listed = len(value.get("tool_calls") or ()) if value.get("role") == "assistant" else 0
        inner = (value.get(key) for key in ("messages", "input", "contents", "content", "parts"))
        return here + listed + sum(map(_native_calls, (each for each in inner if not here and each is not None)))
    return sum(map(_native_calls, value)) if isinstance(value, list) else 0


def _native_results(value: Any) -> int:
    """Count the results in a client's history."""
    if isinstance(value, dict):
        here = value.get("type") in _RESULT_TYPES or value.get("role") == "tool"
        here = here or bool({"functionResponse", "function_response"} & value.keys())
        inner = (value.get(key) for key in ("messages", "input", "contents", "content", "parts"))
        return here + sum(map(_native_results, (each for each in inner if not here and each is not None)))
    return sum(map(_native_results, value)) if isinstance(value, list) else 0
