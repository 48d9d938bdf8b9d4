"""Relays a client's own request to the provider of its wire: the bytes are passed on unchanged, and the reply is read
on the way.

A session makes the request as usual, so policy, limits, budgets and the store see the request and the reply. Only what
is sent and what arrives are the client's bytes and the provider's (docs/answers.md#relays).
"""

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from dragoman.adapter.context import RequestContext
from dragoman.adapter.contract import Adapter
from dragoman.adapter.options import AdapterOptions
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition

_UNCOMPARED = ("headers", "context", "stream")
_compared = operator.attrgetter(*(name for name in AdapterOptions.__dataclass_fields__ if name not in _UNCOMPARED))


class Relay:
    """One request of a client, as bytes, and the bytes of its reply.

    ``body`` returns what to send to the model of an adapter, with its name; None if its provider has another wire.
    ``messages`` and ``options`` are what `Adapter.from_wire_request` read from it: if a policy changes them, the
    request is encoded, and the bytes are not sent. ``path`` is the address, if it is not the usual one. ``check`` is
    called with each request before it is sent, and may raise.
    """

    def __init__(
        self,
        body: Callable[[Adapter], bytes | None],
        messages: Sequence[Message],
        options: AdapterOptions,
        *,
        path: str | None = None,
        check: Callable[[WireRequest], object] | None = None,
    ) -> None:
        self._body = body
        self._messages = tuple(messages)
        self._options = options
        self._path = path
        self._check = check
        self.relayed = False
        """Whether the last request was sent as the client's bytes."""
        self.response: WireResponse | None = None
        """The last whole reply, as it arrived."""
        self._received: list[bytes] = []

    def take(self) -> bytes:
        """Return the bytes of the streamed reply that have arrived since the last call."""
        if len(self._received) == 1:
            return self._received.pop()
        taken = b"".join(self._received)
        self._received.clear()
        return taken

    def adapter(self, adapter: Adapter, tools: Sequence[ToolDefinition] = ()) -> Adapter:
        """Return the adapter that makes the next attempt of this request; for a middleware that gets a `Send`.

        ``tools`` are those of the request.
        """
        made: _Relaying = _relaying_class(type(adapter))(adapter.model)
        made.take_over(self, tuple(tools))
        return made

    def begin(
        self, adapter: Adapter, messages: Sequence[Message], options: AdapterOptions, *, same_tools: bool
    ) -> WireRequest | None:
        """Return the request with the client's bytes; None if it has to be encoded."""
        self._received.clear()
        self.response = None
        body = None
        if same_tools and isinstance(adapter, WireAdapter) and self._is_unchanged(messages, options):
            body = self._body(adapter)
        self.relayed = body is not None
        if body is None or not isinstance(adapter, WireAdapter):
            return None
        headers = options.headers.get(adapter.provider, {})
        return WireRequest("POST", self._path or adapter.request_path(options), body, headers, options.stream)

    def check(self, request: WireRequest) -> WireRequest:
        """Return the request if it may be sent."""
        if self._check is not None:
            self._check(request)
        return request

    def receive(self, chunk: bytes) -> None:
        """Keep bytes of a streamed reply."""
        self._received.append(chunk)

    def _is_unchanged(self, messages: Sequence[Message], options: AdapterOptions) -> bool:
        return (
            len(messages) == len(self._messages)
            and all(
                sent.content is read.content or (sent.role is read.role and sent.content == read.content)
                for sent, read in zip(messages, self._messages, strict=True)
            )
            and _compared(options) == _compared(self._options)
        )


if TYPE_CHECKING:
    _Mixed = WireAdapter
else:
    _Mixed = object


class _Relaying(_Mixed):
    """Mixed into the class of an adapter: sends the bytes of a relay, and keeps those of the reply."""

    _relay: Relay
    _tools: tuple[ToolDefinition, ...]

    def take_over(self, relay: Relay, tools: tuple[ToolDefinition, ...]) -> None:
        self._relay = relay
        self._tools = tools

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        same_tools = len(tools) == len(self._tools) and all(map(operator.is_, tools, self._tools))
        relayed = self._relay.begin(self, messages, options, same_tools=same_tools)
        return self._relay.check(super().to_wire(messages, tools, options) if relayed is None else relayed)

    def reply_decoder(self, context: RequestContext) -> StreamDecoder:
        decoder = super().reply_decoder(context)
        if self._relay.relayed:
            decoder.listener = self._relay.receive
        return decoder

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        self._relay.response = response
        return super().from_wire_response(response, context)


@cache
def _relaying_class(kind: type[Adapter]) -> Any:
    return type(f"Relaying{kind.__name__}", (_Relaying, kind), {"__module__": __name__})
