"""The adapter for Chat Completions: OpenAI's own, and the base of all others that speak it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.assembly import Reply
from dragoman.adapter.beginning import begin
from dragoman.adapter.capabilities import EMULATED, NATIVE, AdapterCapabilities, ModelTable
from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.decoding import StreamDecoder, reading
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.failures import Origin, error_object
from dragoman.adapter.incoming import HistoryReader, request_object
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_openai.chat import decode, encode, errors, parameters
from dragoman_openai.chat.dialect import OPENAI, Dialect
from dragoman_openai.chat.stream import ChatDecoder

if TYPE_CHECKING:
    from dragoman.adapter.batch import BatchWire

_MODELS = ModelTable.of("dragoman_openai", "models.toml", "chat/models.toml")


class ChatAdapter(Adapter):
    """See https://platform.openai.com/docs/api-reference/chat.

    Another endpoint is a subclass with its own ``provider``, ``endpoint``, ``dialect`` and ``models``.
    """

    provider: ClassVar[str] = "openai-chat"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.openai.com/v1",
        key_variables=("OPENAI_API_KEY",),
        base_url_variable="OPENAI_BASE_URL",
    )
    dialect: ClassVar[Dialect] = OPENAI
    models: ClassVar[ModelTable] = _MODELS
    listed_models: ClassVar[tuple[str, ...]] = _MODELS.listed

    @property
    def capabilities(self) -> AdapterCapabilities:
        found = self.models.capabilities(self.model)
        if self.dialect.schema_format == "json_object" and found.supports_structured_output is NATIVE:
            asked = {"supports_structured_output": EMULATED, "structured_output_by": "prompt"}
            return found.model_copy(update=asked)
        return found

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        request, tools = begin(self, messages, tools, options)
        return request.wire(self.dialect.path, encode.body(request, tools, self.dialect))

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with reading(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            native = decode.reply_object(response.body)
            if (failed := errors.failure(native, self.dialect)) is not None:
                raise errors.read(failed, Origin(self.provider, self.model, headers=response.headers))
            return decode.message(native, Reply(context, self.provider), self.dialect)

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return ChatDecoder(self.provider, context, self.dialect)

    @property
    def batches(self) -> "BatchWire | None":
        """Endpoints that merely speak this wire have no batches, or others."""
        from dragoman_openai.batch import OpenAIBatches  # few programs submit any

        return OpenAIBatches(self.provider, self.model, self.dialect.path) if type(self) is ChatAdapter else None

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = request_object(body)
        with reading(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            decode.history(native, reader, self.dialect)
            return reader.messages, decode.tools(native, self.provider), parameters.read(native, self, context)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.read(error_object(body), Origin(self.provider, self.model, status, headers, body))
