"""Adapters with one known fault each, and the law that is there for it."""

import json
import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from dragoman.adapter.capabilities import ABSENT, AdapterCapabilities
from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import ProviderError, ServerError
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.testing.scripted_adapter import EVERYTHING, ScriptedAdapter


class Honest(ScriptedAdapter):
    """Its requests go through `changed`, which the liars override."""

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        request = super().to_wire(messages, tools, options)
        body: dict[str, Any] = json.loads(request.body)
        self.changed(body)
        written = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        return self.told(replace(request, body=written))

    def changed(self, body: dict[str, Any]) -> None:
        """The body as it is."""

    def told(self, request: WireRequest) -> WireRequest:
        return request


class Blind(Honest):
    def changed(self, body: dict[str, Any]) -> None:
        for item in body["messages"]:
            item["content"] = [part for part in item["content"] if part["type"] != "image"]


class Silent(Honest):
    abilities = EVERYTHING.model_copy(update={"supports_images": ABSENT})

    def told(self, request: WireRequest) -> WireRequest:
        return replace(request, losses=())


class Boaster(Honest):
    abilities = AdapterCapabilities(forced_tool_choice="never")

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        request = ScriptedAdapter(self.model).to_wire(messages, tools, options)
        return replace(request, losses=())


class Forgetful(Honest):
    def changed(self, body: dict[str, Any]) -> None:
        body.pop("temperature", None)


class Fickle(Honest):
    def changed(self, body: dict[str, Any]) -> None:
        body["nonce"] = random.random()


class Talker(Honest):
    def changed(self, body: dict[str, Any]) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.connect(("127.0.0.1", 9))


class Shuffler(Honest):
    def changed(self, body: dict[str, Any]) -> None:
        body["messages"][0] = {**body["messages"][0], "length": len(body["messages"])}


class Renamer(Honest):
    def changed(self, body: dict[str, Any]) -> None:
        for item in body["messages"]:
            for part in item["content"]:
                if part["type"] == "tool_use":
                    part["id"] = "not a legal id!"


class Counter(Honest):
    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        native = json.loads(response.body) if response.status < 400 else {}
        if native:
            native["usage"]["input"] += native["usage"]["cached"]
        return super().from_wire_response(replace(response, body=json.dumps(native).encode()), context)


class Optimist(Honest):
    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        reply = super().from_wire_response(response, context)
        assert reply.usage is not None
        usage = reply.usage.model_copy(update={"cost_usd": Decimal(0)})
        return reply.model_copy(update={"metadata": reply.metadata.model_copy(update={"usage": usage})})


class Blamer(Honest):
    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return ServerError("It broke", provider=self.provider, status=status)


class Clumsy(Honest):
    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        raise KeyError(json.loads(body)["error"])


class Trusting(Honest):
    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        return super().from_wire_request(json.loads(body) if isinstance(body, bytes) else body, context)


LIARS: tuple[tuple[type[Honest], str], ...] = (
    (Blind, "capabilities: images"),
    (Blind, "swap: what changes is a loss"),
    (Silent, "capabilities: images"),
    (Boaster, "capabilities: forced tool choice"),
    (Boaster, "capabilities: foreign thinking"),
    (Forgetful, "contract: names what it does not ask"),
    (Forgetful, "capabilities: sampling"),
    (Fickle, "contract: leaves the history alone"),
    (Talker, "contract: writes a request"),
    (Shuffler, "swap: a longer history only appends"),
    (Renamer, "ids: ids are legal"),
    (Counter, "costs: counts"),
    (Optimist, "costs: unknown prices"),
    (Blamer, "errors: statuses"),
    (Clumsy, "errors: garbage"),
    (Trusting, "contract: refuses what is no request"),
)
