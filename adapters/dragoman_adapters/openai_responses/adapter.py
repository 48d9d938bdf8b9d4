"""The adapter for OpenAI's Responses API."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, ModelTable
from dragoman.adapter.replies.error_context import ErrorContext, parse_error_body
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder, wrap_malformed
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_reader import HistoryReader, parse_request
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_platform import errors
from dragoman_adapters.openai_responses import decode, encode
from dragoman_adapters.openai_responses.options import decode_options
from dragoman_adapters.openai_responses.stream import ResponsesStreamDecoder

if TYPE_CHECKING:
    from dragoman.adapter.batch_api import BatchApi

PATH = "/responses"

_MODELS = ModelTable.of("dragoman_adapters", "openai_platform/models.toml", "openai_responses/models.toml")


class ResponsesAdapter(Adapter):
    """Items in, items out; see https://platform.openai.com/docs/api-reference/responses.

    Another endpoint is a subclass with its own ``provider``, ``endpoint`` and ``models``.
    """

    provider: ClassVar[str] = "openai"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.openai.com/v1",
        key_variables=("OPENAI_API_KEY",),
        base_url_variable="OPENAI_BASE_URL",
    )
    models: ClassVar[ModelTable] = _MODELS
    listed_models: ClassVar[tuple[str, ...]] = _MODELS.listed

    @property
    def capabilities(self) -> AdapterCapabilities:
        return self.models.capabilities(self.model)

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        server_state = encode.has_stored_history(messages, options.extra.get(self.provider, {}))
        request, tools = prepare_request(self.target, messages, tools, options, server_state=server_state)
        return request.build(PATH, encode.encode_body(request, tools))

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with wrap_malformed(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            native = decode.parse_reply(response.body)
            if error := decode.find_embedded_error(native):
                raise errors.decode_error(error, ErrorContext(self.provider, self.model, headers=response.headers))
            return decode.decode_message(native, ReplyBuilder(context, self.provider))

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return ResponsesStreamDecoder(self.provider, context)

    @property
    def batch_api(self) -> "BatchApi | None":
        """Other endpoints with this wire have no batch API, or a different one."""
        from dragoman_adapters.openai_platform.batch import OpenAIBatchApi  # imported late: few programs submit batches

        return OpenAIBatchApi(self.provider, self.model, PATH) if type(self) is ResponsesAdapter else None

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = parse_request(body)
        with wrap_malformed(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            decode.decode_history(native, reader)
            tools = decode.decode_tools(native, self.provider)
            return reader.messages, tools, decode_options(native, self.target, context)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.decode_error(
            parse_error_body(body), ErrorContext(self.provider, self.model, status, headers, body)
        )
