"""The adapter for the Interactions API."""

from collections.abc import Sequence
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions, Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman.adapter.wire import WireResponse
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.google.adapter import GoogleAdapter
from dragoman_adapters.google_interactions import decode, encode
from dragoman_adapters.google_interactions.options import decode_options


class InteractionsAdapter(WireAdapter):
    """Google's Interactions API; see https://ai.google.dev/gemini-api/docs/interactions.

    Each request sends the whole history. With the option ``server_state``, it sends what Google does not store yet.
    """

    provider: ClassVar[str] = "google-interactions"
    endpoint: ClassVar[Endpoint] = GoogleAdapter.endpoint
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of("dragoman_adapters.google_interactions")
    models: ClassVar[ModelTable] = ModelTable.of(
        "dragoman_adapters", "google/models.toml", "google_interactions/models.toml"
    )
    path: ClassVar[str] = "/v1beta/interactions"
    history_field: ClassVar[str] = "input"
    instruction_fields: ClassVar[tuple[str, ...]] = ("system_instruction",)
    telemetry_name: ClassVar[str] = "gcp.gemini"
    running_states: ClassVar[tuple[str, ...]] = decode.RUNNING
    services_at: ClassVar[str] = "dragoman_adapters.google.services:InteractionsServiceApi"
    decoder_at: ClassVar[str] = "dragoman_adapters.google_interactions.stream:InteractionsStreamDecoder"
    decode_error_at: ClassVar[str] = "dragoman_adapters.google_interactions.errors:decode_error"

    def prepare(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> tuple[RequestBuilder, Sequence[ToolDefinition]]:
        server_state = encode.has_stored_history(options.extra.get(self.provider, {}))
        return prepare_request(self.target, messages, tools, options, server_state=server_state, whole=True)

    def request_path(self, options: AdapterOptions) -> str:
        return f"{self.path}?alt=sse" if options.stream and options.background is None else self.path

    encode_body = staticmethod(encode.encode_body)

    def parse_reply(self, response: WireResponse) -> dict[str, Any]:
        native = wirejson.loads_object(response.body)
        if native.get("error") or (native.get("status") == "failed" and native.get("errors")):
            raise self.error(response.status, response.body, response.headers)
        if "status" not in native and "steps" not in native:
            raise ValueError("this is not an interaction: it has no steps and no status")
        return native

    decode_message = staticmethod(decode.decode_message)

    decode_history = staticmethod(decode.decode_history)
    decode_tools = staticmethod(decode.decode_tools)
    decode_options = staticmethod(decode_options)
