"""The adapter contract: from the canonical form to one provider's wire and back (docs/reference/contract.md).

An adapter is bound to one model and pure: it does no I/O and has no clock and no randomness of its own. Ids, time
and prices come from the `RequestContext`. `dragoman.adapter.wire_adapter` has the template that most adapters fill in.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.context import Prices, RequestContext, bundled_prices
from dragoman.adapter.errors import DragomanError, ProviderError, UnsupportedReplyError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, with_updates
from dragoman.adapter.options import AdapterOptions, NamedTool, ToolChoice
from dragoman.adapter.requests.request_builder import Target
from dragoman.adapter.server_tools.table import EMPTY_TABLE, ServerToolTable
from dragoman.adapter.wire import WireChunk, WireRequest, WireResponse
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.ids import ModelId
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import Usage

if TYPE_CHECKING:
    from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
    from dragoman.adapter.operations.batch_api import BatchApi
    from dragoman.adapter.operations.embeddings import EmbeddingAdapter
    from dragoman.adapter.operations.service_api import ServiceApi
    from dragoman.adapter.replies.stream_decoder import StreamDecoder

__all__ = [
    "Adapter",
    "AdapterOptions",
    "Endpoint",
    "NamedTool",
    "Prices",
    "RequestContext",
    "ToolChoice",
    "bundled_prices",
]


@cache
def load_part(place: str) -> Any:
    """Return the class or function at ``module:name``. Its module is imported when it is first needed."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a provider and the way it authenticates callers.

    ``key_variables`` are environment variables; the first one that is set counts. The key is sent in ``key_header``
    after ``key_prefix``, unless the caller's own request or client has that header or one of ``credential_headers``.
    Without any of them, nothing is sent to an endpoint with ``key_required``. ``base_url_variable`` overrides
    ``base_url``, which may hold names of environment variables in braces, e.g. ``{AZURE_OPENAI_ENDPOINT}/openai/v1``.
    ``priced_hosts`` is the end of the names of hosts with prices of their own, such as ``.api.openai.com``.

    ``token_variables`` hold bearer tokens in place of keys. ``credentials`` is the kind that is used without a key:
    ``aws``, ``google``, ``azure`` or ``anthropic``; ``scope`` is its scope, or the service that AWS signs for, and
    ``cloud_base_url`` the address with them, if it differs.
    """

    base_url: str
    key_variables: tuple[str, ...] = ()
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    key_required: bool = True
    base_url_variable: str | None = None
    credential_headers: tuple[str, ...] = ("authorization",)
    priced_hosts: str | None = None
    token_variables: tuple[str, ...] = ()
    credentials: str | None = None
    scope: str = ""
    cloud_base_url: str | None = None


class Adapter(ABC):
    """One model behind one wire. Subclasses declare ``provider`` and ``endpoint`` and implement the abstract methods.

    ``transport`` names the transport of the requests: ``http``, or ``local`` for a model in this process. ``model`` is
    the name without the provider, ``model_id`` the id with it, and ``listed_models`` are those that are listed for
    people.
    """

    provider: ClassVar[str]
    endpoint: ClassVar[Endpoint]

    # The specification's four members.

    @property
    @abstractmethod
    def capabilities(self) -> AdapterCapabilities:
        """What the model can do."""

    @abstractmethod
    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        """Encode a request. The same input gives the same bytes and losses in every process.

        Without a context in the options, each loss is also a record in the log; sessions, and other callers with a
        context, log those that are new. Raises CriticalLossError if a critical block would be lost, and RequestError if
        an option cannot be encoded.
        """

    @abstractmethod
    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        """Decode the assistant's message. Raises the provider's error for a status of 400 and over."""

    def stream_response(self, chunks: AsyncIterator[WireChunk], context: RequestContext) -> AsyncIterator[StreamEvent]:
        """Yield the events of a streamed reply. The last one is message_complete or error."""
        from dragoman.adapter.replies.stream_decoder import decode_stream_async  # imported late: only streams need it

        return decode_stream_async(chunks, self.reply_decoder(context))

    # What else each adapter does.

    @abstractmethod
    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        """Decode a request in the provider's format. The options carry the given context.

        Raises RequestError if the body is not such a request.
        """

    @abstractmethod
    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        """Return the error of a failed reply. Never raises, whatever the body is."""

    @abstractmethod
    def decoder(self, context: RequestContext) -> "StreamDecoder":
        """Return a new decoder for one streamed reply."""

    def estimate_input_tokens(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> int:
        """Estimate the input tokens locally, at least 1 (docs/reference/contract.md#estimates).

        Options are not counted: an output schema, or reasoning, makes some providers add to the prompt.
        """
        from dragoman.adapter.facts.token_estimate import estimate_tokens  # imported late: few programs estimate

        return estimate_tokens(str(self.model_id), messages, tools, self.capabilities.token_estimate)

    # What follows from these: a subclass rarely changes it.

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "provider" in vars(cls) and "telemetry_name" not in vars(cls):
            cls.telemetry_name = cls.provider
        if isinstance(declared := vars(cls).get("capabilities"), property) and declared.fget is not None:
            setattr(cls, "capabilities", with_updates(declared.fget))  # noqa: B010 - a property is not an attribute to mypy

    def __init__(self, model: str) -> None:
        self.model = model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.model_id)!r})"

    @cached_property
    def model_id(self) -> ModelId:
        return ModelId(self.provider, self.model)

    @property
    def target(self) -> Target:
        """The model as the target of a request."""
        capabilities = self.capabilities
        return Target(
            self.provider,
            self.model,
            capabilities,
            cache_key=(type(self), self.model),
            server_tools=self.server_tools,
            marks_cache=bool(capabilities.supports_prompt_caching) and self._marks_cache(capabilities),
            cites_documents=self.cites_documents,
            priced_fields=self.priced_fields,
        )

    def _marks_cache(self, capabilities: AdapterCapabilities) -> bool:
        """Whether requests of a model with these capabilities mark such places."""
        return self.marks_cache

    def iter_stream(self, chunks: Iterable[WireChunk], context: RequestContext) -> Iterator[StreamEvent]:
        """The sync twin of `stream_response`."""
        from dragoman.adapter.replies.stream_decoder import decode_stream  # imported late: only streams need it

        return decode_stream(chunks, self.reply_decoder(context))

    def reply_decoder(self, context: RequestContext) -> "StreamDecoder":
        """Return the decoder for the reply to the request that was made with this context."""
        decoder = self.decoder(context)
        translations = (context.action_calls, context.tool_names, context.answer_tool)
        decoder.translators = tuple(each.translate for each in translations if each is not None)
        decoder.accept_document(
            lambda body: self.from_wire_response(WireResponse(200, body, {}), context), always=context.replies_whole
        )
        return decoder

    def read_usage(self, response: WireResponse, context: RequestContext) -> Usage | None:
        """Return what a whole reply used, with its cost, for a caller who passes its bytes on. Raises as
        `from_wire_response`; content that only its reader could refuse passes."""
        return self.from_wire_response(response, context).usage

    @property
    def default_output_tokens(self) -> int:
        """The output limit of a stream whose options set none."""
        return self.capabilities.default_output_limit(stream=True)

    def output_limit(self, options: AdapterOptions) -> int:
        """Return the most output tokens of a reply to a request with these options, alternatives included."""
        limit = options.max_output_tokens
        if limit is None:
            limit = self.capabilities.default_output_limit(stream=options.stream)
        return limit * (options.n or 1)

    # Facts about the wire, if they differ.

    transport: ClassVar[str] = "http"
    listed_models: ClassVar[tuple[str, ...]] = ()
    history_field: ClassVar[str] = "messages"
    """The field of a request with the list of messages."""
    history_entry_fields: ClassVar[frozenset[str] | None] = None
    """The fields of an entry that `from_wire_request` reads; None if it keeps the others as well."""
    instruction_fields: ClassVar[tuple[str, ...]] = ()
    """The fields of a request with instructions, if the list does not hold them."""
    server_tools: ClassVar[ServerToolTable] = EMPTY_TABLE
    """The tools that the provider runs, and those that it defines."""
    marks_cache: ClassVar[bool] = False
    """Whether requests mark places up to which the prompt is cached."""
    cites_documents: ClassVar[bool] = False
    """Whether requests say which documents the answer cites."""
    priced_fields: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Fields of a request that change its price and that no reply repeats: path and default, by the name of the
    term."""
    telemetry_name: ClassVar[str]
    """The provider's name in OpenTelemetry's conventions; by default its own name."""
    telemetry_operation: ClassVar[str] = "chat"
    """The name of a request in OpenTelemetry's conventions."""

    # What some providers have besides. Few programs use it, so each part is loaded when it is first used.

    batch_api_at: ClassVar[str] = ""
    """Where the class of `batch_api` is, as ``module:class``; empty if there is none."""
    services_at: ClassVar[str] = ""
    """The same for `services`."""
    embeddings_at: ClassVar[str] = ""
    """The same for `embeddings`."""

    @property
    def batch_api(self) -> "BatchApi | None":
        """The provider's batch API for this model; None if it has none or the adapter does not support it."""
        return load_part(self.batch_api_at)(self.provider, self.model) if self.batch_api_at else None

    @property
    def services(self) -> "ServiceApi | None":
        """The provider's services besides conversations: token counts, files, models. None if the adapter supports
        none."""
        return load_part(self.services_at)(self.provider, self.model) if self.services_at else None

    @property
    def embeddings(self) -> "EmbeddingAdapter | None":
        """The provider's embeddings by this model; None if the adapter supports none."""
        return load_part(self.embeddings_at)(self.provider, self.model, self.error) if self.embeddings_at else None

    def compaction_options(self, options: "AdapterOptions", instructions: str | None) -> "AdapterOptions | None":
        """Return the options of a request whose reply is the provider's own block in place of the whole conversation;
        None if the provider writes none. ``instructions`` replace the provider's own."""
        return None

    def poll_request(self, reply: Message) -> WireRequest | None:
        """Return the request for the state of a reply that the provider still works on; None if it has ended."""
        return None

    def reply_state(self, reply: Message) -> str:
        """Return the provider's word for the state of such a reply, for people to read."""
        return str(reply.metadata.status)

    def cancel_request(self, reply: Message) -> WireRequest | None:
        """Return the request that stops such a reply; None if there is none."""
        return None

    @classmethod
    def block_signature(cls, message: Message, index: int) -> str | None:
        """Return the signature that this adapter noted on a block other than thinking; None if there is none."""
        return None

    @classmethod
    def signature_notes(cls, signatures: Mapping[int, str]) -> dict[str, Any] | None:
        """Return ``provider_raw`` of a message whose blocks, by index, have these signatures; None if the provider
        signs thinking alone."""
        return None

    # Replies to clients in this wire, for servers.

    def to_wire_response(self, reply: Message | DragomanError, context: RequestContext) -> WireResponse:
        """Write a reply, or an error, as the provider would have answered a client (docs/answers.md).

        ``context`` is the one that read the client's request and asked the provider; its ``model`` is the model that
        answered. The reply may come from any provider: what the wire cannot say is in ``losses``.

        Raises UnsupportedReplyError if the adapter writes no replies, and RequestError if the message is not a complete
        one of the assistant.
        """
        raise UnsupportedReplyError(self.provider)

    def reply_encoder(self, context: RequestContext) -> "ReplyStreamEncoder":
        """Return a new encoder for one streamed reply to a client. Raises UnsupportedReplyError if there is none."""
        raise UnsupportedReplyError(self.provider)

    def encode_stream(self, events: AsyncIterable[StreamEvent], context: RequestContext) -> AsyncIterator[bytes]:
        """Write the events of a reply, of any provider, as the stream of this wire.

        The bytes end with the wire's own end, or with its error if the reply is not complete. Some clients take any
        orderly end for success, so a server should break the connection off after an error. Losses are in
        ``context.losses``. Raises UnsupportedReplyError if the adapter writes no replies.
        """
        # Imported late: only servers write replies.
        from dragoman.adapter.answers.stream_encoder import encode_events_async

        return encode_events_async(events, self.reply_encoder(context))

    def iter_encoded(self, events: Iterable[StreamEvent], context: RequestContext) -> Iterator[bytes]:
        """The sync twin of `encode_stream`."""
        # Imported late: only servers write replies.
        from dragoman.adapter.answers.stream_encoder import encode_events

        return encode_events(events, self.reply_encoder(context))
