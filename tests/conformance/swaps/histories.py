"""The history of one provider, sent to another: the histories, and the judgement of the requests by validators."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hypothesis import HealthCheck, Phase, given, seed, settings

from dragoman import AdapterOptions, DragomanError, Message, Role, ToolDefinition
from dragoman.server_tools import (
    CodeExecution,
    ComputerUse,
    CustomTool,
    FileSearch,
    ImageGeneration,
    McpServer,
    Memory,
    Shell,
    ToolSearch,
    WebFetch,
    WebSearch,
)
from tests.conformance.adapters import create_adapter, create_context
from tests.conformance.scope import ADAPTERS, adapter_name, model_name, skip_reason
from tests.conformance.swaps.wire_coverage import unreported_losses
from tests.conformance.validators import sdk_types
from tests.conformance.validators.requests import VALIDATORS
from tests.exchanges import RecordedExchange, load
from tests.laws.projection.sources import SOURCES, Source, histories_of

TARGETS = {
    "anthropic": "anthropic:claude-opus-5-5",
    "openai-responses": "openai:gpt-6.1-sol",
    "openai-chat": "openai-chat:gpt-6-luna",
    "ollama": "ollama:qwen3:4b",
    "google": "google:gemini-3-flash-preview",
    "google-interactions": "google-interactions:gemini-3-flash-preview",
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
    "local": "local:smollm2-135m",
}
"""The model of each wire that histories are handed to."""

_INSTRUCTIONS = (Role.SYSTEM, Role.DEVELOPER)
_RELEVANT_FEATURES = {"multi_turn", "tool_results", "thinking_replay", "image", "document", "audio", "parallel_tools"}
_LONGEST_RECORDED = 20_000
"""Bytes of a recorded message that is mixed into generated histories."""
_MAX_MIXED_MESSAGES = 60

_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
_TOOLS = [ToolDefinition(name=name, description="A tool.", input_schema=_SCHEMA) for name in ("get_weather", "add")]

_SERVER_TOOLS = [
    WebSearch(allowed_domains=("example.org",), context_size="low", required=False),
    WebFetch(required=False),
    CodeExecution(required=False),
    FileSearch(stores={"openai": ("vs_1",), "google": ("fileSearchStores/a",)}, required=False),
    ImageGeneration(required=False),
    McpServer(name="docs", url="https://mcp.example.org", required=False),
    Memory(required=False),
    Shell(required=False),
    ToolSearch(),
    ComputerUse(display=(1024, 768), required=False),
    CustomTool(name="sql", grammar="start: x", required=False),
]
_TOOL_SETS: tuple[list[ToolDefinition], ...] = ([], _TOOLS, [*_SERVER_TOOLS, *_TOOLS], list(_SERVER_TOOLS))


@dataclass(frozen=True, slots=True)
class History:
    """A conversation to send to another provider. ``issuer`` is the adapter of the model that produced it."""

    name: str
    issuer: str
    messages: list[Message]
    tools: list[ToolDefinition]
    options: AdapterOptions


def target_adapter(target: str) -> str:
    return TARGETS[target].partition(":")[0]


def faults(history: History, target: str) -> list[str]:
    """Faults of the request that a history makes: broken rules, refusals, and losses without a name."""
    adapter = target_adapter(target)
    foreign = history.issuer != adapter
    try:
        wire = create_adapter(TARGETS[target]).to_wire(history.messages, history.tools, history.options)
    except DragomanError as error:
        return [f"refused: {type(error).__name__}: {error}"]
    except Exception as error:
        return [f"broke: {type(error).__name__}: {error}"]
    body = json.loads(wire.body)
    broken = list(VALIDATORS[adapter](body, foreign=foreign))
    if foreign:
        # What an issuer sent itself may be newer than its SDK, or a preview.
        broken += sdk_types.faults(adapter, body)
    # Some wires cannot forbid tool calls: then no tool is offered.
    offered = [] if history.options.tool_choice == "none" else history.tools
    return broken + list(unreported_losses(history.messages, offered, body, wire.losses, foreign=foreign))


def recorded_histories(provider: str, *, prefixes: bool, one_in: int = 1) -> Iterator[History]:
    """Every relevant conversation of a provider, or one in so many; with ``prefixes`` also each prefix of it."""
    relevant = [exchange for exchange in load(provider) if _is_relevant(exchange)]
    for exchange in relevant[::one_in]:
        if (whole := _read(exchange)) is None:
            continue
        messages = whole.messages
        first = next(index for index, message in enumerate(messages, 1) if message.role not in _INSTRUCTIONS)
        for end in range(first, len(messages)) if prefixes else ():
            yield replace(whole, name=f"{whole.name}[:{end}]", messages=messages[:end])
        yield whole


def _is_relevant(exchange: RecordedExchange) -> bool:
    return (
        exchange.request is not None
        and exchange.status < 400
        and skip_reason(exchange) is None
        and bool(_RELEVANT_FEATURES & exchange.features)
    )


def _read(exchange: RecordedExchange) -> History | None:
    """The history; None for a request whose earlier turns the provider stores, which no other model can get."""
    if exchange.request.get("previous_response_id") or exchange.request.get("conversation"):
        return None
    model = model_name(exchange)
    messages, tools, options = create_adapter(model).from_wire_request(exchange.request, create_context(model))
    return History(exchange.id, adapter_name(exchange), messages, tools, replace(options, stream=False))


def generated_histories(source: str, count: int, *, number: int = 0, mixed: Sequence[Message] = ()) -> list[History]:
    """Histories as the source's models leave them; the same for the same seed ``number``."""
    issuer = ADAPTERS.get(source, source)
    strategy = histories_of(replace(SOURCES[issuer], recorded=tuple(mixed)))
    drawn: list[list[Message]] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(history: list[Message]) -> None:
        drawn.append(history)

    draw()
    return [
        History(f"generated {number}/{index}", issuer, messages, _TOOL_SETS[index % len(_TOOL_SETS)], AdapterOptions())
        for index, messages in enumerate(drawn)
    ]


def recorded_messages(source: str) -> list[Message]:
    """Recorded messages of as many kinds as there are, with ids of one session."""
    found: dict[tuple[str, ...], Message] = {}
    context = None
    for exchange in load(source):
        if not _is_relevant(exchange) or adapter_name(exchange) != ADAPTERS[source]:
            continue
        model = model_name(exchange)
        context = context or create_context(model)
        for message in create_adapter(model).from_wire_request(exchange.request, context)[0]:
            shape = (str(message.role), *(block.type for block in message.content))
            if message.role is not Role.TOOL and len(message.model_dump_json()) <= _LONGEST_RECORDED:
                found.setdefault(shape, message)
    return list(found.values())[:_MAX_MIXED_MESSAGES]


def source_of(name: str) -> Source:
    return SOURCES[ADAPTERS.get(name, name)]
