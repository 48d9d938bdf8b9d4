"""The adapter contract: from the canonical form to one provider's wire and back (docs/reference/contract.md).

An adapter is bound to one model and pure: it does no I/O and has no clock and no randomness of its own. Ids, time
and prices come from the `RequestContext`. `WireAdapter` is the template that most adapters fill in.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from dragoman.adapter import wirejson
from dragoman.adapter.context import Prices, RequestContext, bundled_prices
from dragoman.adapter.errors import DragomanError, ProviderError, RequestError, UnsupportedReplyError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, ModelTable, with_updates
from dragoman.adapter.facts.token_estimate import estimate_tokens
from dragoman.adapter.losses import log_losses
from dragoman.adapter.options import AdapterOptions, NamedTool, ToolChoice
from dragoman.adapter.replies.error_context import ErrorContext, add_response_facts, parse_error_body
from dragoman.adapter.replies.reply_builder import ReplyBuilder, ReplyCounts
from dragoman.adapter.replies.stream_decoder import (
    MALFORMED_ERRORS,
    UNREADABLE_ERRORS,
    StreamDecoder,
    WholeReplyDecoder,
    decode_stream,
    decode_stream_async,
    malformed_reply,
    malformed_request,
)
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_builder import RequestBuilder, Target
from dragoman.adapter.requests.request_reader import HistoryReader, is_for_another, parse_request
from dragoman.adapter.server_tools.table import EMPTY_TABLE, ServerToolTable
from dragoman.adapter.wire import Headers, WireChunk, WireRequest, WireResponse
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.ids import ModelId
from dragoman.canonical.message import Message, MessageStatus, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import Usage

if TYPE_CHECKING:
    from dragoman.adapter.answers.reply_writer import ReplyWriter
    from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
    from dragoman.adapter.operations.batch_api import BatchApi
    from dragoman.adapter.operations.embeddings.contract import EmbeddingAdapter
    from dragoman.adapter.operations.service_api import ServiceApi

ResultT = TypeVar("ResultT")

__all__ = [
    "Adapter",
    "AdapterOptions",
    "Endpoint",
    "NamedTool",
    "Prices",
    "RequestContext",
    "ToolChoice",
    "WireAdapter",
    "bundled_prices",
]


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
    def decoder(self, context: RequestContext) -> StreamDecoder:
        """Return a new decoder for one streamed reply."""

    def estimate_input_tokens(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> int:
        """Estimate the input tokens locally, at least 1 (docs/reference/contract.md#estimates).

        Options are not counted: an output schema, or reasoning, makes some providers add to the prompt.
        """
        return estimate_tokens(str(self.model_id), messages, tools, self.capabilities.token_estimate)

    # What follows from these: a subclass rarely changes it.

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "provider" in vars(cls) and "telemetry_name" not in vars(cls):
            cls.telemetry_name = cls.provider
        if isinstance(declared := vars(cls).get("capabilities"), property) and declared.fget is not None:
            setattr(cls, "capabilities", with_updates(declared.fget))  # noqa: B010 - a property is not an attribute to mypy

    _target: Target | None = None

    def __init__(self, model: str) -> None:
        self.model = model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.model_id)!r})"

    @property
    def model_id(self) -> ModelId:
        return ModelId(self.provider, self.model)

    @property
    def target(self) -> Target:
        """The model as the target of a request, which stays the same as long as its capabilities are."""
        capabilities = self.capabilities
        if self._target is not None and self._target.capabilities is capabilities:
            return self._target
        self._target = Target(
            self.provider,
            self.model,
            capabilities,
            cache_key=(type(self), self.model),
            server_tools=self.server_tools,
            marks_cache=bool(capabilities.supports_prompt_caching) and self._marks_cache(capabilities),
            cites_documents=self.cites_documents,
            priced_fields=self.priced_fields,
        )
        return self._target

    def _marks_cache(self, capabilities: AdapterCapabilities) -> bool:
        """Whether requests of a model with these capabilities mark such places."""
        return self.marks_cache

    def iter_stream(self, chunks: Iterable[WireChunk], context: RequestContext) -> Iterator[StreamEvent]:
        """The sync twin of `stream_response`."""
        return decode_stream(chunks, self.reply_decoder(context))

    def reply_decoder(self, context: RequestContext) -> StreamDecoder:
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

    # What some providers have besides.

    @property
    def batch_api(self) -> "BatchApi | None":
        """The provider's batch API for this model; None if it has none or the adapter does not support it."""
        return None

    @property
    def services(self) -> "ServiceApi | None":
        """The provider's services besides conversations: token counts, files, models. None if the adapter supports
        none."""
        return None

    @property
    def embeddings(self) -> "EmbeddingAdapter | None":
        """The provider's embeddings by this model; None if the adapter supports none."""
        return None

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


class WireAdapter(Adapter):
    """The template of an adapter whose requests and replies are JSON. Most adapters subclass it.

    Subclasses declare ``models`` and ``path``, and implement `encode_body` and `decode_message`: that is enough for a
    session with models whose ``supports_streaming`` is absent. Most also have a `decoder` for streams, `decode_error`
    for the errors that the status does not tell, and `decode_request` for histories in the provider's format. The
    other methods below have defaults that fit most wires.

    An option that the encoder does not take from ``request.used`` becomes a loss by itself.
    """

    models: ClassVar[ModelTable]
    path: ClassVar[str]
    client_wire: ClassVar[str] = ""
    """The table of client_fields.toml for requests of clients; empty if no client speaks this wire."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "models" in vars(cls) and "listed_models" not in vars(cls):
            cls.listed_models = cls.models.listed

    @abstractmethod
    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        """Encode the body of a request whose history is projected already."""

    @abstractmethod
    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder) -> Message:
        """Decode a whole reply."""

    def decode_request(
        self, native: dict[str, Any], reader: HistoryReader
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        """Decode a request: add its messages to the reader, return its tools and options. By default it is refused."""
        raise RequestError(f"the adapter of {self.provider} does not read requests")

    def decode_error(self, native: dict[str, Any], origin: ErrorContext) -> ProviderError:
        """Return the error of an error body; ``native`` is empty if the body is not a JSON object. By default the
        status decides what went wrong."""
        said = native.get("error", native)
        fields = said if isinstance(said, dict) else {"message": said}
        return origin.failure(message=fields.get("message"), code=fields.get("code")).error()

    def decoder(self, context: RequestContext) -> StreamDecoder:
        """Return a new decoder for one streamed reply. By default there are none: a reply is whole."""
        return WholeReplyDecoder(self.provider, context.frame_cap, context.body_cap)

    def encode_reply(self, message: Message, writer: "ReplyWriter") -> dict[str, Any]:
        """Encode a whole reply for a client."""
        raise UnsupportedReplyError(self.provider)

    def encode_error(self, error: DragomanError, context: RequestContext) -> WireResponse:
        """Encode an error for a client."""
        raise UnsupportedReplyError(self.provider)

    @property
    def capabilities(self) -> AdapterCapabilities:
        return self.models.capabilities(self.model)

    def name_in_path(self, name: str) -> str:
        """Return a model's name that fits into a path: it adds no slash, dot segment, query, fragment or escape.

        Raises RequestError for any other.
        """
        if not _PATH_NAME.fullmatch(name) or ".." in name:
            raise RequestError(
                f"{self.model!r:.80} is not a model name of {self.provider}: it does not fit into a path"
            )
        return name

    def request_path(self, options: AdapterOptions) -> str:
        """Return the path of a request."""
        return self.path

    def request_headers(self, request: RequestBuilder, body: dict[str, Any]) -> Mapping[str, str]:
        """Return the headers that the wire needs. The body may still be changed here."""
        return {}

    def prepare(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> tuple[RequestBuilder, Sequence[ToolDefinition]]:
        """Project the history and rename the tools; see `prepare_request`."""
        return prepare_request(self.target, messages, tools, options)

    def parse_reply(self, response: WireResponse) -> dict[str, Any]:
        """Parse a whole reply. Raises its error if it reports one although its status is a success."""
        return wirejson.loads_object(response.body)

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        try:
            request, usable = self.prepare(messages, tools, options)
            path = self.request_path(request.options)
            body = self.encode_body(request, usable)
            if request.used.left:
                request.record_unused_options()
            # A whole reply to a streamed request is read as a stream is: its bytes are one document.
            wire = request.build(path, body, self.request_headers(request, body), stream=options.stream)
        except MALFORMED_ERRORS as error:
            from dragoman.adapter.notes import without_notes  # imported late: few requests fail

            if isinstance(error, DragomanError) or (plain := without_notes(messages, tools)) is None:
                raise
            self.to_wire(*plain, replace(options, context=None))  # raises the same if the notes are not to blame
            raise RequestError(
                f"provider_raw, the notes of {self.provider} in the history or its tools, is damaged: leave it out"
            ) from error
        if options.context is None and wire.losses:  # whoever gives a context logs the losses that are new to it
            log_losses(wire.losses, session_id=messages[0].session_id if messages else "", adapter=self.provider)
        return wire

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        return self._read(response, lambda native: self.decode_message(native, ReplyBuilder(context, self.provider)))

    def read_counts(
        self, response: WireResponse, context: RequestContext, decode: Callable[[dict[str, Any]], ReplyCounts]
    ) -> Usage | None:
        """Return the usage of a whole reply of which ``decode`` returns the counts; for `read_usage`."""
        return self._read(response, lambda native: ReplyBuilder(context, self.provider, "").build_usage(decode(native)))

    def _read(self, response: WireResponse, decode: Callable[[dict[str, Any]], ResultT]) -> ResultT:
        """Return what ``decode`` makes of a whole reply. An error gets the facts of the response, such as its
        status."""
        try:
            try:
                if response.status >= 400:
                    raise self.error(response.status, response.body, response.headers)
                return decode(self.parse_reply(response))
            except UNREADABLE_ERRORS as error:
                raise malformed_reply(self.provider, error) from error
        except ProviderError as error:
            add_response_facts(error, self.provider, response.headers, response.status)
            raise

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = parse_request(body)
        reader = HistoryReader(self.provider, self.model, context)
        try:
            tools, options = self.decode_request(native, reader)
            if tools and any("native" in (tool.provider_raw or {}) for tool in tools):
                from dragoman.adapter.server_tools.decode import recognize_tool  # imported late: few requests have some

                tools = [recognize_tool(tool, self.server_tools, self.provider, self.model) for tool in tools]
            if self.client_wire and is_for_another(self.provider, context):
                options = _for_another()(options, self.provider, self.client_wire, context)
            native.pop(self.history_field, None)
            context.client_fields = native
            messages = reader.messages
            if context.state_sealer is not None or context.state_store is not None:
                messages = _state_restoring()(reader)
        except MALFORMED_ERRORS as error:
            raise malformed_request(self.provider, error) from error
        reader.keep()
        return messages, tools, options

    def to_wire_response(self, reply: Message | DragomanError, context: RequestContext) -> WireResponse:
        if isinstance(reply, DragomanError):
            return self.encode_error(reply, context)
        if reply.role is not Role.ASSISTANT or reply.metadata.status is not MessageStatus.COMPLETE:
            raise RequestError(
                f"a message of the role {reply.role} with the status {reply.metadata.status} is not a reply to a"
                " client: pass a complete message of the assistant, or an error"
            )
        writer = _reply_writer().for_message(self.provider, self.model, context, reply)
        if (failure := writer.find_failure(reply)) is not None:
            return self.encode_error(failure, context)
        body = wirejson.dumps(self.encode_reply(reply, writer))
        return WireResponse(200, body, _JSON, losses=writer.finish())

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return self.decode_error(parse_error_body(body), ErrorContext(self.provider, self.model, status, headers, body))


_JSON = Headers({"content-type": "application/json"})
_PATH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")


@cache  # imported late: only servers read requests for other providers
def _for_another() -> Callable[[AdapterOptions, str, str, RequestContext], AdapterOptions]:
    from dragoman.adapter.answers.client_fields import options_for_another

    return options_for_another


# Imported late: only servers have state, and write replies. A statement that imports takes a microsecond each time.
@cache
def _state_restoring() -> Callable[[HistoryReader], list[Message]]:
    from dragoman.adapter.answers.state_reader import restore_state

    return restore_state


@cache
def _reply_writer() -> "type[ReplyWriter]":
    from dragoman.adapter.answers.reply_writer import ReplyWriter

    return ReplyWriter
