"""An endpoint that supports both of OpenAI's APIs under one name.

The shape of a reply, a stream or a request shows its API. A request uses the API of the conversation so far, so that
native items and details go back unchanged; a new conversation uses the first of ``apis``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import DragomanError, MalformedReplyError, ProviderError, RequestError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.replies.framing import Frame, SseDecoder
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.requests.request_reader import parse_request
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.blocks import ProviderBlock, replace_fields
from dragoman.canonical.events import MessageComplete, StreamEvent
from dragoman.canonical.message import Message, MessageStatus
from dragoman.canonical.tools import ServerTool, ToolDefinition
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_responses.adapter import ResponsesAdapter
from dragoman_adapters.openai_responses.encode import has_stored_history

if TYPE_CHECKING:
    from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder

Api = Literal["chat", "responses"]

_API_NOTE = "api"
"""The key of provider_raw for the API that a message came from."""


class DualApiAdapter(Adapter):
    """Subclasses declare ``provider``, ``endpoint`` and ``apis``: an adapter of the same provider for each."""

    services_at: ClassVar[str] = "dragoman_adapters.openai_platform.services:CompatibleServiceApi"
    embeddings_at: ClassVar[str] = "dragoman_adapters.openai_platform.embeddings:OpenAIEmbeddings"
    apis: ClassVar[Mapping[Api, type[ChatAdapter] | type[ResponsesAdapter]]]

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._adapters = {api: kind(model) for api, kind in self.apis.items()}
        self._first = next(iter(self.apis))

    @property
    def capabilities(self) -> AdapterCapabilities:
        """The capabilities in the API of a new conversation."""
        return self._adapters[self._first].capabilities

    def poll_request(self, reply: Message) -> WireRequest | None:
        return self._adapter_of(reply).poll_request(reply)

    def reply_state(self, reply: Message) -> str:
        return self._adapter_of(reply).reply_state(reply)

    def cancel_request(self, reply: Message) -> WireRequest | None:
        return self._adapter_of(reply).cancel_request(reply)

    def _adapter_of(self, reply: Message) -> Adapter:
        return self._adapters[self._noted_api(reply.metadata.provider_raw) or self._first]

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        api = self._choose_api(messages, tools, options)
        other = f"{self.provider}'s other API"
        kept_tools = [
            # What was read from the other API is foreign: it is written in the form of this one, or is a loss.
            tool
            if self._noted_api(tool.provider_raw) in (None, api)
            else replace_fields(tool, {"provider_raw": {**(tool.provider_raw or {}), "by": other}})
            for tool in tools
        ]
        return self._adapters[api].to_wire(
            [self._for_api(message, api, other) for message in messages], kept_tools, options
        )

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        api = (_detect_api(response.body) if response.status < 400 else None) or self._first
        return _with_api_note(self._adapters[api].from_wire_response(response, context), api)

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return _DualApiStreamDecoder(self.provider, context, self._adapters, self._first)

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = parse_request(body)
        api: Api = "chat" if "messages" in native else "responses"
        messages, tools, options = self._adapters[api].from_wire_request(native, context)
        context.client_fields = {**(context.client_fields or {}), _API_NOTE: api}
        noted_tools = [
            tool
            if (raw := tool.provider_raw) is None
            else replace_fields(tool, {"provider_raw": {**raw, _API_NOTE: api}})
            for tool in tools
        ]
        return [_with_api_note(message, api) for message in messages], noted_tools, options

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return self._adapters[self._first].error(status, body, headers)

    def to_wire_response(self, reply: Message | DragomanError, context: RequestContext) -> WireResponse:
        return self._client_adapter(context).to_wire_response(reply, context)

    def reply_encoder(self, context: RequestContext) -> "ReplyStreamEncoder":
        return self._client_adapter(context).reply_encoder(context)

    def _client_adapter(self, context: RequestContext) -> Adapter:
        """Return the adapter of the API that the client's request was in; the first one if none was read."""
        return self._adapters[(context.client_fields or {}).get(_API_NOTE, self._first)]

    def _choose_api(self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions) -> Api:
        """Return the API of the earliest message, so that it stays the same as the history grows, or another API if
        only that one has a server tool of the request.

        A tool that is in the form of the conversation's API already is sent there as it is.
        """
        found = (self._noted_api(message.metadata.provider_raw) for message in messages)
        api: Api = next((api for api in found if api is not None), self._first)
        if has_stored_history(options.extra.get(self.provider, {})):
            api = "responses"
        words = {
            tool.WORD for tool in tools if isinstance(tool, ServerTool) and self._noted_api(tool.provider_raw) != api
        }

        def count(name: Api) -> int:
            table = self._adapters[name].server_tools
            return sum(table.find(word, self.model) is not None for word in words)

        return max((api, *self.apis), key=count) if words else api

    def _noted_api(self, raw: Mapping[str, Any] | None) -> Api | None:
        """Return the API of notes of this provider. Raises RequestError if they name another."""
        if raw is None or raw.get("by") != self.provider:
            return None
        api: Api | None = raw.get(_API_NOTE)
        if api is not None and api not in tuple(self.apis):  # a damaged one may have no hash
            raise RequestError(f"provider_raw, the notes of {self.provider}, is damaged: leave it out")
        return api

    def _for_api(self, message: Message, api: Api, other: str) -> Message:
        """Remove what only the other API supports; native blocks stay, so that their loss is recorded."""
        raw = message.metadata.provider_raw
        if raw is None or self._noted_api(raw) in (None, api):
            return message
        note = {key: raw[key] for key in ("by", "tool_ids") if key in raw}
        content = tuple(
            block.model_copy(update={"provider": other})
            if isinstance(block, ProviderBlock) and block.provider == self.provider
            else block
            for block in message.content
        )
        return message.model_copy(
            update={"content": content, "metadata": message.metadata.model_copy(update={"provider_raw": note})}
        )


def _detect_api(data: bytes) -> Api | None:
    """Return the API of a reply or of an event; None if it may be either, as for errors."""
    try:
        native = wirejson.loads_object(data)
    except MalformedReplyError:
        return None  # [DONE], or garbage that the adapter names
    if "choices" in native:
        return "chat"
    is_response = native.get("object") == "response" or "output" in native
    return "responses" if is_response or str(native.get("type")).startswith("response.") else None


def _with_api_note(message: Message, api: Api) -> Message:
    raw = {**(message.metadata.provider_raw or {}), _API_NOTE: api}
    return message.model_copy(update={"metadata": message.metadata.model_copy(update={"provider_raw": raw})})


class _DualApiStreamDecoder(StreamDecoder):
    """Decides by the first distinctive event which API the stream is in."""

    def __init__(self, provider: str, context: RequestContext, adapters: Mapping[Api, Adapter], first: Api) -> None:
        super().__init__(provider, SseDecoder(context.frame_cap, context.body_cap))
        self._context = context
        self._adapters = adapters
        self._api = first
        self._decoder: StreamDecoder | None = None

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        if self._decoder is None and b'"keepalive"' in frame.data:
            yield from self.skip_keep_alive()
            return
        decoder = self._decoder
        if decoder is None:
            found = _detect_api(frame.data)
            decoder = self._adapters[found or self._api].decoder(self._context)
            if found is not None:  # kept once a frame shows the API
                self._api, self._decoder = found, decoder
        count = decoder.frames_received
        for event in decoder.read(frame):
            if decoder is self._decoder:  # a frame that fits both APIs can only be an error
                yield self._with_note(event)
        self.frames_received += decoder.frames_received - count  # keep-alives do not count

    def partial(self, status: MessageStatus) -> Message | None:
        message = self._decoder.partial(status) if self._decoder else None
        return message and _with_api_note(message, self._api)

    def end(self) -> Iterable[StreamEvent]:
        for event in self._decoder.end() if self._decoder else super().end():
            yield self._with_note(event)

    def _with_note(self, event: StreamEvent) -> StreamEvent:
        return (
            MessageComplete(_with_api_note(event.message, self._api)) if isinstance(event, MessageComplete) else event
        )
