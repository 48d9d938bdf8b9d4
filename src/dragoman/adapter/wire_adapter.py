"""WireAdapter: the template of adapters whose requests and replies are JSON (docs/reference/contract.md)."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import quote

from dragoman.adapter import wirejson
from dragoman.adapter.context import RequestContext
from dragoman.adapter.contract import Adapter, load_part
from dragoman.adapter.errors import (
    MALFORMED_ERRORS,
    UNREADABLE_ERRORS,
    DragomanError,
    ProviderError,
    RequestError,
    UnsupportedReplyError,
)
from dragoman.adapter.facts.capabilities import AdapterCapabilities, ModelTable
from dragoman.adapter.losses import log_losses
from dragoman.adapter.options import AdapterOptions
from dragoman.adapter.replies.reply_builder import ReplyBuilder, ReplyCounts
from dragoman.adapter.requests.option_table import read_options
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_builder import RequestBuilder, Target
from dragoman.adapter.wire import Headers, WireRequest, WireResponse
from dragoman.canonical.message import Message, MessageStatus, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import Usage

if TYPE_CHECKING:
    from dragoman.adapter.answers.reply_writer import ReplyWriter
    from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
    from dragoman.adapter.replies.error_context import ErrorContext
    from dragoman.adapter.replies.stream_decoder import StreamDecoder
    from dragoman.adapter.requests.request_reader import HistoryReader

ResultT = TypeVar("ResultT")


class WireAdapter(Adapter):
    """The template of an adapter whose requests and replies are JSON. Most adapters subclass it.

    Subclasses declare ``models`` and ``path``, and implement `encode_body` and `decode_message`: that is enough for a
    session with models whose ``supports_streaming`` is absent. Most also have a `decoder` for streams, `decode_error`
    for the errors that the status does not tell, and `decode_history`, `decode_tools` and `decode_options` for requests
    in the provider's format. The other methods below have defaults that fit most wires.

    An option that the encoder does not take from ``request.used`` becomes a loss by itself.
    """

    models: ClassVar[ModelTable]
    path: ClassVar[str]
    client_wire: ClassVar[str] = ""
    """The table of client_fields.toml for requests of clients; empty if no client speaks this wire."""
    error_field: ClassVar[str | None] = None
    """The field of a whole reply that reports an error in spite of its status."""
    running_states: ClassVar[tuple[str, ...]] = ()
    """The provider's words for replies in the background that have not ended, which stand below `path`."""
    decode_counts: Callable[[dict[str, Any]], ReplyCounts] | None = None
    """Returns the `ReplyCounts` of a whole reply, for `read_usage`. None if they are read with the message."""

    _dialects: ClassVar[tuple[Any, ...]] = ()
    _target: Target | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "models" in vars(cls) and "listed_models" not in vars(cls):
            cls.listed_models = cls.models.listed
        cls._dialects = () if cls.dialect is None else (cls.dialect,)

    @abstractmethod
    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        """Encode the body of a request whose history is projected already."""

    @abstractmethod
    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder) -> Message:
        """Decode a whole reply."""

    def decode_request(
        self, native: dict[str, Any], reader: "HistoryReader"
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        """Decode a request: add its messages to the reader, return its tools and options. By default in the three steps
        below, of which the last is left out for options that are known."""
        covered = [*self.decode_history(native, reader)]
        # The older form of Chat Completions has functions, which nobody keeps decoded.
        tools = reader.tools(native.get("functions") or native.get("tools"), self.decode_tools, native, self.provider)
        if tools and native.get("tools"):
            covered.append("tools")
        context = reader.context
        options = read_options(
            native,
            (type(self), self.model),
            context,
            covered,
            lambda: self.decode_options(native, self.target, context, covered),
        )
        return tools, options

    def decode_history(self, native: dict[str, Any], reader: "HistoryReader") -> Iterable[str]:
        """Add the messages of a request to the reader. Return the names of the fields that they cover, the model
        included. By default a request is refused."""
        raise RequestError(f"the adapter of {self.provider} does not read requests")

    def decode_tools(self, native: dict[str, Any], provider: str) -> list[ToolDefinition]:
        """Decode the tools of a request, which are in its field ``tools``."""
        return []

    def decode_options(
        self, native: dict[str, Any], target: Target, context: RequestContext, covered: list[str]
    ) -> AdapterOptions:
        """Decode the options of a request: all fields but those that its messages and tools cover."""
        return AdapterOptions(context=context)

    def decode_error(self, native: dict[str, Any], origin: "ErrorContext") -> ProviderError:
        """Return the error of an error body; ``native`` is empty if the body is not a JSON object. By default the
        status decides what went wrong."""
        if self.decode_error_at:
            error: ProviderError = load_part(self.decode_error_at)(native, origin)
            return error
        said = native.get("error", native)
        fields = said if isinstance(said, dict) else {"message": said}
        return origin.failure(message=fields.get("message"), code=fields.get("code")).error()

    # Only failures, streams and servers need these parts, so each is loaded when it is first used.

    decode_error_at: ClassVar[str] = ""
    """Where the function of `decode_error` is, as ``module:name``; empty if the status decides."""
    dialect: ClassVar[Any] = None
    """What the parts below take as well, if the wire has dialects."""
    decoder_at: ClassVar[str] = "dragoman.adapter.replies.stream_decoder:WholeReplyDecoder"
    """Where the class of `decoder` is, as ``module:class``. It takes the provider and the context."""
    encode_reply_at: ClassVar[str] = ""
    """The same for the function of `encode_reply`; empty if the adapter writes no replies."""
    encode_error_at: ClassVar[str] = ""
    """The same for the function of `encode_error`, which also takes the provider."""
    reply_encoder_at: ClassVar[str] = ""
    """The same for the class of `reply_encoder`, which takes a `ReplyWriter`."""

    def decoder(self, context: RequestContext) -> "StreamDecoder":
        """Return a new decoder for one streamed reply. By default there are none: a reply is whole."""
        decoder: StreamDecoder = load_part(self.decoder_at)(self.provider, context, *self._dialects)
        return decoder

    def encode_reply(self, message: Message, writer: "ReplyWriter") -> dict[str, Any]:
        """Encode a whole reply for a client."""
        encoded: dict[str, Any] = self._reply_part(self.encode_reply_at)(message, writer, *self._dialects)
        return encoded

    def encode_error(self, error: DragomanError, context: RequestContext) -> WireResponse:
        """Encode an error for a client."""
        response: WireResponse = self._reply_part(self.encode_error_at)(error, context, self.provider)
        return response

    def reply_encoder(self, context: RequestContext) -> "ReplyStreamEncoder":
        kind = self._reply_part(self.reply_encoder_at)
        from dragoman.adapter.answers.reply_writer import ReplyWriter  # imported late: only servers write replies

        writer = ReplyWriter.for_stream(self.provider, self.model, context)
        encoder: ReplyStreamEncoder = kind(writer, *self._dialects)
        return encoder

    def _reply_part(self, place: str) -> Any:
        if not place:
            raise UnsupportedReplyError(self.provider)
        return load_part(place)

    @property
    def capabilities(self) -> AdapterCapabilities:
        return self.models.capabilities(self.model)

    @property
    def target(self) -> Target:
        """The model as the target of a request, which stays the same as long as its capabilities are."""
        if self._target is None or self._target.capabilities is not self.capabilities:
            self._target = super().target
        return self._target

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
        native = wirejson.loads_object(response.body)
        if self.error_field in native:
            raise self.error(response.status, response.body, response.headers)
        if (failed := self.find_embedded_error(native)) is not None:
            from dragoman.adapter.replies.error_context import ErrorContext  # imported late: few replies fail

            raise self.decode_error(failed, ErrorContext(self.provider, self.model, headers=response.headers))
        return native

    def find_embedded_error(self, native: dict[str, Any]) -> dict[str, Any] | None:
        """Return the error that a reply with a good status holds, as `decode_error` takes it; None if it has none."""
        return None

    def poll_request(self, reply: Message) -> WireRequest | None:
        path = self._running_path(reply)
        return None if path is None else WireRequest("GET", path, b"")

    def reply_state(self, reply: Message) -> str:
        return str((reply.metadata.provider_raw or {}).get("status") or reply.metadata.status)

    def cancel_request(self, reply: Message) -> WireRequest | None:
        path = self._running_path(reply)
        return None if path is None else WireRequest("POST", f"{path}/cancel", b"")

    def _running_path(self, reply: Message) -> str | None:
        """Return the path of a reply in the background that has not ended."""
        raw = reply.metadata.provider_raw or {}
        if raw.get("by") != self.provider or raw.get("status") not in self.running_states:
            return None
        return f"{self.path}/{quote(str(raw['id']), safe='')}" if raw.get("id") else None

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
        return self._read(response, context, None, self.decode_message)

    def read_usage(self, response: WireResponse, context: RequestContext) -> Usage | None:
        if (decode := self.decode_counts) is None:
            return super().read_usage(response, context)
        return self._read(response, context, "", lambda native, reply: reply.build_usage(decode(native)))

    def _read(
        self,
        response: WireResponse,
        context: RequestContext,
        message_id: str | None,
        decode: Callable[[dict[str, Any], ReplyBuilder], ResultT],
    ) -> ResultT:
        """Return what ``decode`` makes of a whole reply; ``message_id`` is that of its message, or None for a new one.
        An error gets the facts of the response, such as its status."""
        try:
            try:
                if response.status >= 400:
                    raise self.error(response.status, response.body, response.headers)
                return decode(self.parse_reply(response), ReplyBuilder(context, self.provider, message_id))
            except UNREADABLE_ERRORS as error:
                from dragoman.adapter.replies.error_context import malformed_reply  # imported late: few replies fail

                raise malformed_reply(self.provider, error) from error
        except ProviderError as error:
            from dragoman.adapter.replies.error_context import add_response_facts

            add_response_facts(error, self.provider, response.headers, response.status)
            raise

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        # Imported late: only servers, and files of other programs, read requests.
        from dragoman.adapter.requests.request_reader import HistoryReader, is_for_another, parse_request

        native = parse_request(body)
        reader = HistoryReader(self.provider, self.model, context)
        try:
            tools, options = self.decode_request(native, reader)
            if tools and any("native" in (tool.provider_raw or {}) for tool in tools):
                from dragoman.adapter.server_tools.decode import recognize_tool  # imported late: few requests have some

                tools = [recognize_tool(tool, self.server_tools, self.provider, self.model) for tool in tools]
            if self.client_wire and is_for_another(self.provider, context):
                from dragoman.adapter.answers.client_fields import options_for_another  # imported late: for servers

                options = options_for_another(options, self.provider, self.client_wire, context)
            native.pop(self.history_field, None)
            context.client_fields = native
            messages = reader.messages
            if context.state_sealer is not None or context.state_store is not None:
                # Imported late: only servers have state.
                from dragoman.adapter.answers.state_reader import restore_state

                messages = restore_state(reader)
        except MALFORMED_ERRORS as error:
            from dragoman.adapter.replies.error_context import malformed_request  # imported late: few requests fail

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
        from dragoman.adapter.answers.reply_writer import ReplyWriter  # imported late: only servers write replies

        writer = ReplyWriter.for_message(self.provider, self.model, context, reply)
        if (failure := writer.find_failure(reply)) is not None:
            return self.encode_error(failure, context)
        body = wirejson.dumps(self.encode_reply(reply, writer))
        return WireResponse(200, body, _JSON, losses=writer.finish())

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        # Imported late: few requests fail.
        from dragoman.adapter.replies.error_context import ErrorContext, parse_error_body

        return self.decode_error(parse_error_body(body), ErrorContext(self.provider, self.model, status, headers, body))


_JSON = Headers({"content-type": "application/json"})
_PATH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
