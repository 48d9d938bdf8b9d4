"""Ollama's API (https://docs.ollama.com/api): chat, generate, embed, and what a client asks about the models.

Chat and generate stream unless the client disables streaming, and the content type does not matter. Generate has one
prompt without a history. It is a chat in other words, in both directions.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from dragoman import (
    Adapter,
    AdapterCapabilities,
    AdapterOptions,
    DragomanError,
    Message,
    RequestContext,
    ToolDefinition,
    WireResponse,
)
from dragoman.embeddings import Embeddings
from dragoman.events import StreamEvent
from dragoman_gateway.bodies.read import named_model
from dragoman_gateway.endpoints.endpoint import Endpoint, Exchange
from dragoman_gateway.errors import ClientError
from dragoman_gateway.json import loads
from dragoman_gateway.models import facts_of
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.turn.request import ClientRequest
from dragoman_gateway.vendors.embedding import ENDPOINT, EmbeddingRequest, embed, read_fields
from dragoman_gateway.vendors.service import Service
from dragoman_gateway.wires import OLLAMA

_SHARED = ("model", "stream", "think", "format", "options", "keep_alive", "logprobs", "top_logprobs")
_UNSENDABLE = {
    "suffix": "text after the answer is for models that complete code",
    "template": "the model's own template is used",
    "raw": "the model's own template is used",
    "context": "it is the state of one model: use /api/chat with the messages so far",
}
"""Fields that no chat has, each with the reason."""
_EMBED_FIELDS = frozenset({"model", "input", "prompt", "truncate", "dimensions"})
_TAG = ":latest"
_VERSION = "0.13.0"
"""The version of Ollama whose interface this is: clients refuse to use an older one."""
_MODIFIED = "2026-01-01T00:00:00Z"
"""A fixed time: the names are the gateway's own, and clients require one."""


def routes(gateway: Gateway) -> list[Route]:
    """Return the routes of Ollama's clients."""
    service = partial(Service, gateway, OLLAMA, any_type=True)
    posts: dict[str, ASGIApp] = {
        "chat": OllamaEndpoint(gateway, OLLAMA),
        "generate": OllamaEndpoint(gateway, GENERATE),
        "embed": service(embed_texts, endpoint=ENDPOINT),
        "embeddings": service(embed_prompt, endpoint=ENDPOINT),
        "show": service(show),
    }
    gets = {"tags": list_models, "version": show_version, "ps": list_running}
    return [
        *(Route(f"/api/{name}", app, methods=["POST"]) for name, app in posts.items()),
        *(Route(f"/api/{name}", service(answer), methods=["GET"]) for name, answer in gets.items()),
    ]


def plain_name(name: str) -> str:
    """Return the name without the tag that some clients add to every name without one."""
    plain = name.removesuffix(_TAG)
    return name if ":" in plain else plain


def to_chat(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request as a chat. Raises ClientError for fields that a chat does not have, and for an empty
    prompt."""
    for name, reason in _UNSENDABLE.items():
        if native.get(name):
            raise ClientError(f"{name}: not possible here: {reason}")
    prompt, system, images = native.get("prompt"), native.get("system"), native.get("images")
    if not isinstance(prompt, str) or not (prompt or images):
        raise ClientError("prompt: a string is required; models need not be loaded here")
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt, **({"images": images} if images else {})})
    return {**{name: native[name] for name in _SHARED if name in native}, "messages": messages}


def to_generated(lines: bytes) -> bytes:
    """Return the objects of a chat's reply, one a line, as those of generate; an error stays as it is."""
    return b"".join(_to_generated(line) + b"\n" for line in lines.splitlines())


def _to_generated(text: bytes) -> bytes:
    native: dict[str, Any] = from_json(text)
    if (message := native.pop("message", None)) is not None:
        named: dict[str, Any] = {name: native.pop(name) for name in ("model", "created_at") if name in native}
        said = {"response": message.get("content", "")}
        if thinking := message.get("thinking"):
            said["thinking"] = thinking
        native = {**named, **said, **native}
    return to_json(native)


_ChatAdapter: Any = type(OLLAMA.adapter(""))


class GenerateAdapter(_ChatAdapter):  # type: ignore[misc]  # the adapter of the chat is found by its name
    """Reads requests to generate, and writes its replies."""

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = loads(body) if isinstance(body, bytes) else body
        read: tuple[list[Message], list[ToolDefinition], AdapterOptions]
        read = super().from_wire_request(to_chat(native), context)
        return read

    def to_wire_response(self, reply: Message | DragomanError, context: RequestContext) -> WireResponse:
        written: WireResponse = super().to_wire_response(reply, context)
        return replace(written, body=_to_generated(written.body))

    def reply_encoder(self, context: RequestContext) -> Any:
        return _GenerateEncoder(super().reply_encoder(context))


class _GenerateEncoder:
    """Writes the lines of a stream of generate from those of a chat."""

    def __init__(self, chat_encoder: Any) -> None:
        self._chat = chat_encoder

    def feed(self, event: StreamEvent) -> bytes:
        return to_generated(self._chat.feed(event))

    def fail(self, error: Exception) -> bytes:
        return to_generated(self._chat.fail(error))


GENERATE = replace(OLLAMA, path="/api/generate", adapter=GenerateAdapter)


@dataclass(slots=True, kw_only=True)
class OllamaRequest(ClientRequest):
    """A chat, or one prompt that is sent as a chat."""

    def body_for(self, adapter: Adapter, **how: bool) -> bytes | None:
        """Return the bytes of a chat; None for generate, which is sent as a chat."""
        return None if self.wire is GENERATE else ClientRequest.body_for(self, adapter, **how)


class OllamaEndpoint(Endpoint):
    """An ASGI application for chat or generate."""

    def read_request(self, scope: Scope, fields: dict[str, Any], **known: Any) -> ClientRequest:
        model, stream = named_model(fields), fields.get("stream") is not False
        known |= {"model": model, "requested_model": plain_name(model), "stream": stream}
        return OllamaRequest(wire=self._wire, fields=fields, **known)


async def embed_texts(exchange: Exchange, fields: dict[str, Any]) -> dict[str, Any]:
    """Return one vector for each text (https://docs.ollama.com/api/embed)."""
    texts = fields.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts or not all(isinstance(each, str) for each in texts):
        raise ClientError("input: a string or a list of strings is required")
    started = time.perf_counter_ns()
    embeddings = await _embed(exchange, fields, texts)
    return {
        "model": fields["model"],
        "embeddings": [vector.tolist() for vector in embeddings],
        "total_duration": time.perf_counter_ns() - started,
        "prompt_eval_count": embeddings.usage.prompt_tokens,
    }


async def embed_prompt(exchange: Exchange, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the vector of one text: the older form."""
    if not isinstance(prompt := fields.get("prompt"), str):
        raise ClientError("prompt: a string is required")
    (vector,) = await _embed(exchange, fields, [prompt])
    return {"embedding": vector.tolist()}


async def _embed(exchange: Exchange, fields: dict[str, Any], texts: list[str]) -> Embeddings:
    """Embed texts. An input that is too long is cut, unless the client forbids it."""
    model, dimensions, native = read_fields(fields, _EMBED_FIELDS)
    request = EmbeddingRequest(
        model=plain_name(model),
        inputs=texts,
        dimensions=dimensions,
        truncate=None if fields.get("truncate") is False else "end",
        native=native,
        providers=("ollama",),
    )
    return await embed(exchange, request)


async def show_version(exchange: Exchange, fields: dict[str, Any]) -> dict[str, Any]:
    return {"version": _VERSION}


async def list_running(exchange: Exchange, fields: dict[str, Any]) -> dict[str, Any]:
    """Return no models: none is loaded here."""
    return {"models": []}


async def list_models(exchange: Exchange, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the models that the caller may use."""
    found = []
    for name in exchange.generation.models.names(exchange.caller):
        target = exchange.generation.models.target(name)
        digest = hashlib.sha256(target.encode()).hexdigest()
        facts = {"size": 0, "digest": digest, "details": _details(target)}
        found.append({"name": name, "model": name, "modified_at": _MODIFIED, **facts})
    return {"models": found}


async def show(exchange: Exchange, fields: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a model. Older clients call the field ``name``."""
    name = named_model({"model": fields.get("model") or fields.get("name")})
    target = exchange.generation.models.resolve(plain_name(name), exchange.caller).model
    facts = facts_of(target) or AdapterCapabilities()
    family = target.partition(":")[0]
    abilities = {"tools": facts.supports_tools, "vision": facts.supports_images, "thinking": facts.supports_thinking}
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _details(target),
        "model_info": {
            "general.architecture": family,
            "general.basename": name,
            f"{family}.context_length": facts.max_context_tokens,
        },
        "capabilities": ["completion", *(name for name, supported in abilities.items() if supported)],
        "modified_at": _MODIFIED,
    }


def _details(target: str) -> dict[str, Any]:
    family = target.partition(":")[0]
    return {
        "parent_model": "",
        "format": "",
        "family": family,
        "families": [family],
        "parameter_size": "",
        "quantization_level": "",
    }
