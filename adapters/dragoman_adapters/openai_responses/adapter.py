"""The adapter for OpenAI's Responses API."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dragoman.adapter.contract import AdapterOptions, Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_platform import ENDPOINT
from dragoman_adapters.openai_responses import decode, encode, errors
from dragoman_adapters.openai_responses.options import decode_options


class ResponsesAdapter(WireAdapter):
    """OpenAI's Responses API; see https://platform.openai.com/docs/api-reference/responses.

    Another endpoint is a subclass with its own ``provider``, ``endpoint`` and ``models``.
    """

    provider: ClassVar[str] = "openai"
    endpoint: ClassVar[Endpoint] = ENDPOINT
    models: ClassVar[ModelTable] = ModelTable.of(
        "dragoman_adapters",
        "openai_platform/models.toml",
        "openai_platform/retirements.toml",
        "openai_responses/models.toml",
    )
    path: ClassVar[str] = "/responses"
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of("dragoman_adapters.openai_responses")
    client_wire: ClassVar[str] = "responses"
    history_field: ClassVar[str] = "input"
    instruction_fields: ClassVar[tuple[str, ...]] = ("instructions",)
    running_states: ClassVar[tuple[str, ...]] = decode.RUNNING
    batch_api_at: ClassVar[str] = "dragoman_adapters.openai_platform.batch:find_batch_api"
    services_at: ClassVar[str] = "dragoman_adapters.openai_platform.services:find_services"
    embeddings_at: ClassVar[str] = "dragoman_adapters.openai_platform.embeddings:OpenAIEmbeddings"
    decoder_at: ClassVar[str] = "dragoman_adapters.openai_responses.stream:ResponsesStreamDecoder"
    decode_error_at: ClassVar[str] = "dragoman_adapters.openai_responses.errors:decode_error"
    encode_reply_at: ClassVar[str] = "dragoman_adapters.openai_responses.encode_reply:encode_reply"
    encode_error_at: ClassVar[str] = "dragoman_adapters.openai_platform.encode_errors:encode_error"
    reply_encoder_at: ClassVar[str] = "dragoman_adapters.openai_responses.encode_stream:ResponsesStreamEncoder"
    priced_fields: ClassVar[Mapping[str, tuple[str, str]]] = {
        "completion_window": ("background_options.completion_window", "soonest")
    }

    def prepare(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> tuple[RequestBuilder, Sequence[ToolDefinition]]:
        return prepare_request(
            self.target,
            messages,
            tools,
            options,
            server_state=encode.has_stored_history(options.extra.get(self.provider, {})),
            refers_to_state=encode.refers_to_items,
        )

    encode_body = staticmethod(encode.encode_body)

    find_embedded_error = staticmethod(errors.find_embedded_error)

    decode_message = staticmethod(decode.decode_message)
    decode_counts = staticmethod(decode.decode_counts)
    decode_history = staticmethod(decode.decode_history)
    decode_tools = staticmethod(decode.decode_tools)
    decode_options = staticmethod(decode_options)
