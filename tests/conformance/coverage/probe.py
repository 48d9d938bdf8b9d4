"""Asks adapters for each name of an SDK, and looks for it in the body."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from dragoman import AdapterOptions, Message, ToolDefinition, ToolUseBlock, get_adapter
from dragoman.adapter.options import NamedTool
from dragoman.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
)
from dragoman.errors import DragomanError
from dragoman.messages import MessageMetadata
from dragoman.server_tools import (
    ApplyPatch,
    Bash,
    CodeExecution,
    ComputerUse,
    CustomTool,
    FileSearch,
    ImageGeneration,
    McpServer,
    Memory,
    ProviderTool,
    Shell,
    TextEditor,
    ToolSearch,
    WebFetch,
    WebSearch,
)
from tests.conformance.coverage.sdk import Vocabulary

Way = Literal["typed", "extra", "absent"]

MODELS = {
    "anthropic": ("claude-opus-5-5", "claude-opus-4-5", "claude-sonnet-4-5", "claude-3-7-sonnet-latest"),
    "openai": ("gpt-6.1-sol", "gpt-4.1"),
    "openai-chat": ("gpt-6.1-sol", "gpt-4.1", "gpt-4o-audio-preview", "gpt-4o-search-preview"),
    "google": ("gemini-3-pro", "gemini-2.5-flash"),
    "google-interactions": ("gemini-3-pro",),
    "bedrock": ("us.anthropic.claude-opus-4-8", "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                "us.amazon.nova-2-lite-v1:0"),
    "ollama": ("qwen3", "llama3.2-vision"),
    "mistral": ("mistral-medium-latest", "magistral-medium-latest", "voxtral-small-latest"),
    "cohere": ("command-a-plus-05-2026", "command-a-reasoning-08-2025", "command-a-vision-07-2025"),
    "groq": ("openai/gpt-oss-120b", "groq/compound", "meta-llama/llama-4-scout-17b-16e-instruct"),
    "openrouter": ("anthropic/claude-sonnet-4.6", "openai/gpt-5.1"),
    "perplexity": ("sonar-pro", "sonar-reasoning-pro"),
}  # fmt: skip
"""Models that take different options, by provider."""

_PROBE = "probe"
_FUNCTION = ToolDefinition(name="f", description="F.", input_schema={"type": "object", "properties": {}})
_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"max_output_tokens": 50, "temperature": 0.5, "top_p": 0.5, "top_k": 5, "seed": 1, "stop_sequences": ("x",)},
    {"frequency_penalty": 0.5, "presence_penalty": 0.5, "tool_choice": "required", "parallel_tool_calls": False},
    {"output_schema": _SCHEMA},
    {"effort": "high", "thinking": True, "reasoning_summary": "auto"},
    {"thinking_budget": 1024, "max_output_tokens": 4096},
    {"prompt_cache": "5m", "tool_choice": NamedTool("f")},
    {
        "service_tier": "flex",
        "verbosity": "low",
        "user": "u",
        "metadata": {"a": "b"},
        "safety": "off",
        "logprobs": 2,
        "n": 2,
    },
    {"stream": True},
    {"background": True, "server_state": "conv_1"},
    {"num_ctx": 4096, "keep_alive": "10m"},
)
_TOOLS: tuple[Any, ...] = (
    _FUNCTION, WebSearch(), WebFetch(), CodeExecution(), ImageGeneration(), ToolSearch(), Bash(), TextEditor(),
    Memory(), Shell(), ApplyPatch(), CustomTool(name="c"), ComputerUse(display=(800, 600)),
    FileSearch(stores=dict.fromkeys(("openai", "google", "google-interactions"), ("fileSearchStores/a",))),
    McpServer(name="m", url="https://example.com/mcp"),
)  # fmt: skip


def sources(kind: str, data: str) -> tuple[MediaSource, ...]:
    return MediaSource(kind="base64", data=data), MediaSource(kind="url", data=f"https://example.com/{kind}")


_BLOCKS: tuple[ContentBlock, ...] = (
    TextBlock(text="Hi"),
    *(ImageBlock(source=each, media_type="image/png") for each in sources("image", "aGk=")),
    *(DocumentBlock(source=each, media_type="application/pdf") for each in sources("document", "aGk=")),
    AudioBlock(source=MediaSource(kind="base64", data="aGk="), media_type="audio/wav"),
)


def coverage(provider: str, vocabulary: Vocabulary) -> Iterator[tuple[str, str, Way]]:
    """Yield each name with its group and the way in which a program sends it."""
    typed = _typed_names(provider)
    for name in vocabulary.parameters:
        yield "parameter", name, "typed" if name in typed["parameter"] else _by_extra(provider, name)
    for name in vocabulary.parts:
        yield "part", name, "typed" if name in typed["part"] else _by_native_block(provider, name)
    for name in vocabulary.tools:
        yield "tool", name, "typed" if name in typed["tool"] else _by_provider_tool(provider, name)


def _typed_names(provider: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"parameter": set(), "part": set(), "tool": set()}
    history = _history(provider)
    for body in (
        *(_body(provider, name, history, [_FUNCTION], options) for name in MODELS[provider] for options in _OPTIONS),
        *(_body(provider, name, history, [_FUNCTION, tool], {}) for name in MODELS[provider] for tool in _TOOLS[1:]),
        *(_body(provider, name, [Message.user([block])], [], {}) for name in MODELS[provider] for block in _BLOCKS),
    ):
        found["parameter"] |= {name for field in ("", *_SETTINGS) for name in (body.get(field, {}) if field else body)}
        tools = _tools(body)
        found["tool"] |= {tool.get("type", "custom") for tool in tools} | {name for tool in tools for name in tool}
        listed = body.get("messages") or body.get("input") or body.get("contents") or ()
        found["part"] |= set(_kinds(listed)) | {
            name for turn in listed for part in turn.get("parts") or _list(turn.get("content")) for name in part
        }
        if provider == "ollama":
            found["part"] |= {name for turn in listed for name in turn}
        if any("role" in item for item in listed):
            found["part"].add("message")
    return found


def _history(provider: str) -> list[Message]:
    call = ToolUseBlock(id="tu_1", name="f", input={})
    issuer = MessageMetadata(provider=provider, model=f"{provider}:{MODELS[provider][0]}")
    return [
        Message.system("Be brief."),
        Message.user("Hi"),
        Message.assistant([ThinkingBlock(text="Hm."), TextBlock(text="Yes."), call], metadata=issuer),
        Message.tool("tu_1", "done"),
    ]


def _kinds(value: Any) -> Iterator[str]:
    """Every ``type`` inside a value."""
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            yield value["type"]
        for inner in value.values():
            yield from _kinds(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _kinds(inner)


_SETTINGS = ("generationConfig", "generation_config", "inferenceConfig", "options")
"""Objects of a body whose fields are parameters, too."""
_BY_FIELD = ("google", "bedrock")
"""Wires whose parts and tools are named by their only field."""


def _tools(body: dict[str, Any]) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = body.get("tools") or body.get("toolConfig", {}).get("tools") or []
    return tools


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _by_extra(provider: str, name: str) -> Way:
    body = _body(provider, MODELS[provider][0], _history(provider), [], {"extra": {provider: {name: _PROBE}}})
    return "extra" if body.get(name) == _PROBE else "absent"


def _by_native_block(provider: str, name: str) -> Way:
    native: dict[str, Any] = {name: {_PROBE: 1}} if provider in _BY_FIELD else {"type": name, _PROBE: 1}
    blocks = [ProviderBlock(provider=provider, kind=name, data=native)]
    if provider == "google-interactions" and name.endswith("_call"):  # a call is sent with its result alone
        result = name.replace("_call", "_result")
        blocks.append(ProviderBlock(provider=provider, kind=result, data={"type": result}))
    for messages in ([Message.user(blocks)], [Message.user("Hi"), Message.assistant(blocks), Message.user("Go on.")]):
        if native in list(_objects(_body(provider, MODELS[provider][0], messages, [], {}))):
            return "extra"
    return "absent"


def _by_provider_tool(provider: str, name: str) -> Way:
    native: dict[str, Any] = {name: {_PROBE: 1}} if provider in _BY_FIELD else {"type": name, _PROBE: 1}
    body = _body(provider, MODELS[provider][0], [Message.user("Hi")], [ProviderTool(provider, native)], {})
    return "extra" if native in _tools(body) else "absent"


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


def _body(
    provider: str, model: str, messages: Iterable[Message], tools: Iterable[Any], options: dict[str, Any]
) -> dict[str, Any]:
    """The body of a request; empty if the adapter refuses it."""
    try:
        wire = get_adapter(f"{provider}:{model}").to_wire(list(messages), list(tools), AdapterOptions(**options))
    except DragomanError:
        return {}
    body: dict[str, Any] = json.loads(wire.body)
    return body
