"""Ollama's chat and generate: they stream unless the client disables streaming, and the content type does not matter.

Generate has one prompt without a history. It is a chat in other words, in both directions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from pydantic_core import from_json, to_json
from starlette.types import Scope

from dragoman import (
    Adapter,
    AdapterOptions,
    DragomanError,
    Message,
    RequestContext,
    ToolDefinition,
    WireResponse,
)
from dragoman.events import StreamEvent
from dragoman_gateway.bodies.read import named_model
from dragoman_gateway.endpoints.endpoint import Endpoint
from dragoman_gateway.errors import ClientError
from dragoman_gateway.json import loads
from dragoman_gateway.turn.request import ClientRequest
from dragoman_gateway.vendors.ollama.models import plain_name
from dragoman_gateway.wires import OLLAMA, Wire

_SHARED = ("model", "stream", "think", "format", "options", "keep_alive", "logprobs", "top_logprobs")
_UNSENDABLE = {
    "suffix": "text after the answer is for models that complete code",
    "template": "the model's own template is used",
    "raw": "the model's own template is used",
    "context": "it is the state of one model: use /api/chat with the messages so far",
}
"""Fields that no chat has, each with the reason."""


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


def to_generated(native: dict[str, Any]) -> dict[str, Any]:
    """Return an object of a chat's reply as one of generate; an error stays as it is."""
    if "message" not in native:
        return native
    named: dict[str, Any] = {name: native[name] for name in ("model", "created_at") if name in native}
    message = native["message"]
    said = {"response": message.get("content", "")}
    if thinking := message.get("thinking"):
        said["thinking"] = thinking
    rest = {name: value for name, value in native.items() if name != "message" and name not in named}
    return {**named, **said, **rest}


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
        return replace(written, body=to_json(to_generated(from_json(written.body))))

    def reply_encoder(self, context: RequestContext) -> Any:
        return _GenerateEncoder(super().reply_encoder(context))


class _GenerateEncoder:
    """Writes the lines of a stream of generate from those of a chat."""

    def __init__(self, chat_encoder: Any) -> None:
        self._chat = chat_encoder

    def feed(self, event: StreamEvent) -> bytes:
        return _rewrite(self._chat.feed(event))

    def fail(self, error: Exception) -> bytes:
        return _rewrite(self._chat.fail(error))


def _rewrite(lines: bytes) -> bytes:
    return b"".join(to_json(to_generated(from_json(line))) + b"\n" for line in lines.splitlines())


@dataclass(frozen=True, slots=True)
class _GenerateWire(Wire):
    def adapter(self, model: str) -> Adapter:
        return GenerateAdapter(model)


GENERATE = _GenerateWire(
    **{each.name: getattr(OLLAMA, each.name) for each in fields(OLLAMA) if each.name != "path"},
    path="/api/generate",
)


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
