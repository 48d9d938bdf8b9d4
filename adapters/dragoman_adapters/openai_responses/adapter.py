"""The adapter for OpenAI's Responses API."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_builder import RequestBuilder, Target
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman.adapter.wire import WireResponse
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_responses import decode, encode, errors
from dragoman_adapters.openai_responses.options import CONVERSATION, decode_options

if TYPE_CHECKING:
    from dragoman.adapter.operations.batch_api import BatchApi
    from dragoman.adapter.operations.service_api import ServiceApi
    from dragoman.adapter.requests.request_reader import HistoryReader


class ResponsesAdapter(WireAdapter):
    """OpenAI's Responses API; see https://platform.openai.com/docs/api-reference/responses.

    Another endpoint is a subclass with its own ``provider``, ``endpoint`` and ``models``.
    """

    provider: ClassVar[str] = "openai"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.openai.com/v1",
        key_variables=("OPENAI_API_KEY",),
        base_url_variable="OPENAI_BASE_URL",
        priced_hosts=".api.openai.com",
    )
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
    embeddings_at: ClassVar[str] = "dragoman_adapters.openai_platform.embeddings:OpenAIEmbeddings"
    decoder_at: ClassVar[str] = "dragoman_adapters.openai_responses.stream:ResponsesStreamDecoder"
    decode_error_at: ClassVar[str] = "dragoman_adapters.openai_responses.errors:decode_error"
    encode_reply_at: ClassVar[str] = "dragoman_adapters.openai_responses.encode_reply:encode_reply"
    encode_error_at: ClassVar[str] = "dragoman_adapters.openai_platform.encode_errors:encode_error"
    reply_encoder_at: ClassVar[str] = "dragoman_adapters.openai_responses.encode_stream:ResponsesStreamEncoder"
    priced_fields: ClassVar[Mapping[str, tuple[str, str]]] = {
        "completion_window": ("background_options.completion_window", "soonest")
    }

    @property
    def batch_api(self) -> "BatchApi | None":
        """Return OpenAI's batch API; None for other endpoints with this wire, which have none, or a different one."""
        from dragoman_adapters.openai_platform.batch import OpenAIBatchApi  # imported late: few programs submit batches

        return OpenAIBatchApi(self.provider, self.model, self.path) if type(self) is ResponsesAdapter else None

    @property
    def services(self) -> "ServiceApi":
        """Return OpenAI's services; other endpoints with this wire list their models."""
        from dragoman_adapters.openai_platform import services  # imported late: few programs use them

        kind = services.OpenAIServiceApi if type(self) is ResponsesAdapter else services.CompatibleServiceApi
        return kind(self.provider, self.model)

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
            whole=options.server_state is not None,
        )

    encode_body = staticmethod(encode.encode_body)

    def parse_reply(self, response: WireResponse) -> dict[str, Any]:
        native = wirejson.loads_object(response.body)
        if (failed := errors.find_embedded_error(native)) is not None:
            raise errors.decode_error(failed, ErrorContext(self.provider, self.model, headers=response.headers))
        return native

    decode_message = staticmethod(decode.decode_message)

    decode_counts = staticmethod(decode.decode_counts)

    def decode_history(self, native: dict[str, Any], reader: "HistoryReader") -> Iterable[str]:
        decode.decode_history(native, reader)
        return CONVERSATION

    decode_tools = staticmethod(decode.decode_tools)

    def decode_options(
        self, native: dict[str, Any], target: Target, context: RequestContext, covered: list[str]
    ) -> AdapterOptions:
        return decode_options(native, target, context)
