"""Adapters with one known fault each, and the law that should find it."""

import json
import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import ProviderError, ServerError
from dragoman.adapter.facts.capabilities import ABSENT, AdapterCapabilities
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.testing.doubles.scripted_adapter import ALL_CAPABILITIES, ScriptedAdapter


class CorrectAdapter(ScriptedAdapter):
    """Its requests pass through ``change_body`` and ``change_request``, which faulty adapters override."""

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        request = super().to_wire(messages, tools, options)
        body: dict[str, Any] = json.loads(request.body)
        self.change_body(body)
        written = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        return self.change_request(replace(request, body=written))

    def change_body(self, body: dict[str, Any]) -> None:
        """Return the body as it is."""

    def change_request(self, request: WireRequest) -> WireRequest:
        return request


class DropsImages(CorrectAdapter):
    def change_body(self, body: dict[str, Any]) -> None:
        for item in body["messages"]:
            item["content"] = [part for part in item["content"] if part["type"] != "image"]


class HidesLosses(CorrectAdapter):
    abilities = ALL_CAPABILITIES.model_copy(update={"supports_images": ABSENT})

    def change_request(self, request: WireRequest) -> WireRequest:
        return replace(request, losses=())


class OverstatesCapabilities(CorrectAdapter):
    abilities = AdapterCapabilities(forced_tool_choice="never")

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        request = ScriptedAdapter(self.model).to_wire(messages, tools, options)
        return replace(request, losses=())


class DropsTemperature(CorrectAdapter):
    def change_body(self, body: dict[str, Any]) -> None:
        body.pop("temperature", None)


class SendsRandomBytes(CorrectAdapter):
    def change_body(self, body: dict[str, Any]) -> None:
        body["nonce"] = random.random()


class OpensSocket(CorrectAdapter):
    def change_body(self, body: dict[str, Any]) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.connect(("127.0.0.1", 9))


class RewritesFirstMessage(CorrectAdapter):
    def change_body(self, body: dict[str, Any]) -> None:
        body["messages"][0] = {**body["messages"][0], "length": len(body["messages"])}


class SendsIllegalIds(CorrectAdapter):
    def change_body(self, body: dict[str, Any]) -> None:
        for item in body["messages"]:
            for part in item["content"]:
                if part["type"] == "tool_use":
                    part["id"] = "not a legal id!"


class CountsCacheTwice(CorrectAdapter):
    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        native = json.loads(response.body) if response.status < 400 else {}
        if native:
            native["usage"]["input"] += native["usage"]["cached"]
        return super().from_wire_response(replace(response, body=json.dumps(native).encode()), context)


class PricesUnknownAsZero(CorrectAdapter):
    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        reply = super().from_wire_response(response, context)
        assert reply.usage is not None
        usage = reply.usage.model_copy(update={"cost_usd": Decimal(0)})
        return reply.model_copy(update={"metadata": reply.metadata.model_copy(update={"usage": usage})})


class MapsAllErrorsToServerError(CorrectAdapter):
    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return ServerError("It broke", provider=self.provider, status=status)


class RaisesOnErrorBodies(CorrectAdapter):
    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        raise KeyError(json.loads(body)["error"])


class AcceptsInvalidRequests(CorrectAdapter):
    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        return super().from_wire_request(json.loads(body) if isinstance(body, bytes) else body, context)


class ForgetsOptions(Adapter):
    """Implements the contract without the template, and sends the options that it knows."""

    provider = ScriptedAdapter.provider
    endpoint = ScriptedAdapter.endpoint

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._inner = ScriptedAdapter(model)

    @property
    def capabilities(self) -> AdapterCapabilities:
        return self._inner.capabilities

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        request, tools = prepare_request(self.target, messages, tools, options)
        return request.build(self._inner.path, self._inner.encode_body(request, tools))

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        return self._inner.from_wire_response(response, context)

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return self._inner.decoder(context)

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        return self._inner.from_wire_request(body, context)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return self._inner.error(status, body, headers)


class ReportsUnusedOptions(ForgetsOptions):
    """The same, but it records the options that it did not send."""

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        request, tools = prepare_request(self.target, messages, tools, options)
        body = self._inner.encode_body(request, tools)
        request.record_unused_options()
        return request.build(self._inner.path, body)


FAULTY_ADAPTERS: tuple[tuple[type[Adapter], str], ...] = (
    (ForgetsOptions, "contract: names an option of tomorrow"),
    (DropsImages, "capabilities: images"),
    (DropsImages, "swap: what changes is a loss"),
    (HidesLosses, "capabilities: images"),
    (OverstatesCapabilities, "capabilities: forced tool choice"),
    (OverstatesCapabilities, "capabilities: foreign thinking"),
    (DropsTemperature, "contract: names what it does not ask"),
    (DropsTemperature, "capabilities: sampling"),
    (SendsRandomBytes, "contract: leaves the history alone"),
    (OpensSocket, "contract: writes a request"),
    (RewritesFirstMessage, "swap: a longer history only appends"),
    (SendsIllegalIds, "ids: ids are legal"),
    (CountsCacheTwice, "costs: counts"),
    (PricesUnknownAsZero, "costs: unknown prices"),
    (MapsAllErrorsToServerError, "errors: statuses"),
    (RaisesOnErrorBodies, "errors: garbage"),
    (AcceptsInvalidRequests, "contract: refuses what is not a request"),
)
