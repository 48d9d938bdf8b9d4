"""Wires whose streams have no named events: each field of a chunk counts as one.

A field is read if a stream with it, at its place, ends without a note of an unknown name.
"""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from dragoman import RequestContext, get_adapter
from dragoman.adapter.replies.drift import drift_of
from dragoman.canonical.events import MessageComplete
from tests.conformance.coverage.shapes import at, fields_of, samples, to_json
from tests.conformance.coverage.typed import MODELS

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ChunkWire:
    """``chunk`` is the smallest one that is a whole reply. ``places`` are the SDK's types of the objects in it."""

    chunk: dict[str, Any]
    places: dict[Place, str]
    rename: Callable[[str], str] = str
    """Returns the wire's name for a field of the SDK."""
    client_side: frozenset[str] = frozenset()
    """Fields that the SDK adds on its own side."""
    one_of: frozenset[str] = frozenset()
    """Fields that stand in place of a text, in a part of their own."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of fields of which the SDK's type says too little."""


def _camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


CHUNKS = {
    "openai-chat": ChunkWire(
        {
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        },
        {
            (): "openai.types.chat.ChatCompletionChunk",
            ("choices", 0): "openai.types.chat.chat_completion_chunk.Choice",
            ("choices", 0, "delta"): "openai.types.chat.chat_completion_chunk.ChoiceDelta",
            ("usage",): "openai.types.CompletionUsage",
        },
    ),
    "google": ChunkWire(
        {
            "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        },
        {
            (): "google.genai.types.GenerateContentResponse",
            ("candidates", 0): "google.genai.types.Candidate",
            ("candidates", 0, "content", "parts", 0): "google.genai.types.Part",
            ("usageMetadata",): "google.genai.types.GenerateContentResponseUsageMetadata",
        },
        _camel_case,
        frozenset({"automatic_function_calling_history", "parsed", "sdk_http_response"}),
        frozenset({"codeExecutionResult", "executableCode", "functionCall", "toolCall", "toolResponse"}),
        {"functionCall": {"name": "f", "args": {}}},
    ),
    "ollama": ChunkWire(
        {
            "model": "m", "created_at": "2026-11-21T00:00:00Z", "done": True, "done_reason": "stop",
            "message": {"role": "assistant", "content": "Hi"},
        },
        {(): "ollama.ChatResponse", ("message",): "ollama.Message"},
        values={"images": ["aGk="]},
    ),
}  # fmt: skip


def chunk_fields(provider: str) -> tuple[str, ...]:
    """Return the names of all fields of a chunk, each with its place: ``choices[].delta.content``."""
    wire = CHUNKS[provider]
    return tuple(
        f"{_place_name(place)}{wire.rename(name)}"
        for place, kind in wire.places.items()
        for name in fields_of(_load(kind)) or {}
        if name not in wire.client_side
    )


def reads_field(provider: str, name: str) -> bool:
    """Whether a stream with a field of that name has nothing that is unknown."""
    wire = CHUNKS[provider]
    place = max((each for each in wire.places if name.startswith(_place_name(each))), key=len)
    name = name.removeprefix(_place_name(place))
    hints = {wire.rename(each): hint for each, hint in (fields_of(_load(wire.places[place])) or {}).items()}
    chunk = deepcopy(wire.chunk)
    inner = at(chunk, place)
    if name not in inner:
        values = [wire.values[name]] if name in wire.values else samples(hints.get(name, str))
        value = _renamed(to_json(values[0]), wire.rename) if values else "sample"
        if name in wire.one_of:
            at(chunk, place[:-1]).insert(0, {name: value})
        else:
            inner[name] = value
    adapter, context = get_adapter(f"{provider}:{MODELS[provider][0]}"), RequestContext.for_model(f"{provider}:m")
    data = json.dumps(chunk, default=str).encode()
    body = data + b"\n" if provider == "ollama" else b"data: " + data + b"\n\ndata: [DONE]\n\n"
    last = list(adapter.iter_stream([body], context))[-1]
    return isinstance(last, MessageComplete) and not drift_of(last.message)


def _place_name(place: Place) -> str:
    return "".join(f"{each}." if isinstance(each, str) else "[]." for each in place).replace(".[]", "[]")


def _renamed(value: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {rename(name): _renamed(inner, rename) for name, inner in value.items()}
    return [_renamed(each, rename) for each in value] if isinstance(value, list) else value


def _load(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)
