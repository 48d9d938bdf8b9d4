"""Requests that Dragoman writes from its own options, tools and blocks."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from dragoman import AdapterOptions, Message, ToolDefinition, ToolUseBlock, get_adapter
from dragoman.adapter.options import NamedTool
from dragoman.adapter.wire import WireRequest
from dragoman.blocks import AudioBlock, DocumentBlock, ImageBlock, MediaSource, TextBlock, ThinkingBlock, VideoBlock
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
    Shell,
    TextEditor,
    ToolSearch,
    WebFetch,
    WebSearch,
)

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
    "together": ("openai/gpt-oss-120b", "meta-llama/Llama-4-Scout-17B-16E-Instruct"),
}  # fmt: skip
"""Models that take different options, by provider."""

FUNCTION = ToolDefinition(name="f", description="F.", input_schema={"type": "object", "properties": {}})
_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"max_output_tokens": 50, "temperature": 0.5, "top_p": 0.5, "top_k": 5, "seed": 1, "stop_sequences": ("x",)},
    {"frequency_penalty": 0.5, "presence_penalty": 0.5, "tool_choice": "required", "parallel_tool_calls": False},
    {"output_schema": _SCHEMA},
    {"effort": "high", "thinking": True, "reasoning_summary": "auto"},
    {"thinking_budget": 1024, "max_output_tokens": 4096},
    {"prompt_cache": "5m", "tool_choice": NamedTool("f")},
    {"service_tier": "flex", "verbosity": "low", "user": "u", "metadata": {"a": "b"}, "safety": "off", "logprobs": 2,
     "n": 2},
    {"background": True, "server_state": "conv_1"},
    {"num_ctx": 4096, "keep_alive": "10m"},
)  # fmt: skip
_TOOLS: tuple[Any, ...] = (
    WebSearch(), WebFetch(), CodeExecution(), ImageGeneration(), ToolSearch(), Bash(), TextEditor(), Memory(), Shell(),
    ApplyPatch(), CustomTool(name="c"), ComputerUse(display=(800, 600)),
    FileSearch(stores=dict.fromkeys(("openai", "google", "google-interactions"), ("fileSearchStores/a",))),
    McpServer(name="m", url="https://example.com/mcp"),
)  # fmt: skip


def _sources(kind: str, data: str) -> tuple[MediaSource, ...]:
    return MediaSource(kind="base64", data=data), MediaSource(kind="url", data=f"https://example.com/{kind}")


_BLOCKS = (
    TextBlock(text="Hi"),
    *(ImageBlock(source=each, media_type="image/png") for each in _sources("image", "aGk=")),
    *(DocumentBlock(source=each, media_type="application/pdf", title="t") for each in _sources("document", "aGk=")),
    AudioBlock(source=MediaSource(kind="base64", data="aGk="), media_type="audio/wav"),
    *(VideoBlock(source=each, media_type="video/mp4") for each in _sources("video", "aGk=")),
)


def typed_requests(provider: str) -> Iterator[dict[str, Any]]:
    """Yield the bodies of requests that together use every option, tool and block."""
    history = _history(provider)
    for model in MODELS[provider]:
        for options in _OPTIONS:
            yield from _bodies(provider, model, history, [FUNCTION], options)
        for tool in _TOOLS:
            yield from _bodies(provider, model, history, [FUNCTION, tool], {})
        for block in _BLOCKS:
            yield from _bodies(provider, model, [Message.user([block])], [], {})


def _history(provider: str) -> list[Message]:
    call = ToolUseBlock(id="tu_1", name="f", input={"a": 1})
    issuer = MessageMetadata(provider=provider, model=f"{provider}:{MODELS[provider][0]}")
    thought = ThinkingBlock(text="Hm.", signature="c2lnbmF0dXJl")
    return [
        Message.system("Be brief."),
        Message.user("Hi", metadata=MessageMetadata(cache_breakpoints=(0,))),
        Message.assistant([thought, TextBlock(text="Yes."), call], metadata=issuer),
        Message.tool("tu_1", "done", is_error=True),
    ]


def _bodies(
    provider: str, model: str, messages: Iterable[Message], tools: Iterable[Any], options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    wire = encode(provider, messages, tools, options, model)
    if wire is not None:
        yield json.loads(wire.body)


def encode(
    provider: str,
    messages: Iterable[Message],
    tools: Iterable[Any] = (),
    options: dict[str, Any] | None = None,
    model: str | None = None,
) -> WireRequest | None:
    """Return a request; None if the adapter refuses it."""
    try:
        adapter = get_adapter(f"{provider}:{model or MODELS[provider][0]}")
        return adapter.to_wire(list(messages), list(tools), AdapterOptions(**(options or {})))
    except DragomanError:
        return None
