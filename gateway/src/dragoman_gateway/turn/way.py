"""How one deployment answers a request: `Through`, `Direct`, or `dragoman_gateway.turn.in_session.InSession`."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property, partial
from typing import Any, ClassVar

from dragoman import (
    Adapter,
    AsyncClient,
    Loss,
    Message,
    RequestContext,
    Usage,
    WireRequest,
    WireResponse,
    get_adapter,
)
from dragoman.answers import ProviderRequest
from dragoman.limits import MaxUsage, MeasureUsage, max_usage
from dragoman.pricing import price_table
from dragoman_gateway.models.deployments import Deployment
from dragoman_gateway.turn.request import ReadRequest, refuse_losses
from dragoman_gateway.turn.usage_chunk import ask_for_usage, lacks_usage


class Way(ABC):
    """``hides_usage``: the counts of a stream were asked for here, and not by the client."""

    hides_usage: bool = False
    _reply: Message
    keeps_request: ClassVar[bool] = True
    """Whether the request is needed until the end of the reply."""

    def __init__(self, read: ReadRequest, deployment: Deployment, client: AsyncClient) -> None:
        self._read = read
        self._client = client
        self._target = get_adapter(deployment.model)

    @property
    @abstractmethod
    def measure(self) -> MeasureUsage:
        """Estimates what the request could use."""

    @abstractmethod
    async def ask(self) -> WireResponse:
        """Return the whole reply as the client gets it."""

    @abstractmethod
    def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the reply as the client gets it. No bytes are yielded before the reply has begun; empty ones say that
        it has, and that its content is held back."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether a stream has its end, which is said before its last bytes are yielded."""

    @property
    def passes(self) -> bool:
        """Whether the bytes of the reply are the provider's."""
        return False

    @property
    def reply(self) -> Message:
        """The whole reply, as a message, after `ask`."""
        return self._reply

    async def note_labels(self, message: Message) -> None:  # noqa: B027 -- only a session has labels
        """Note the labels of the conversation with a message that its client may send back. Raises UnavailableError."""

    @property
    @abstractmethod
    def usages(self) -> Sequence[Usage]:
        """What all attempts used."""

    @property
    def headers(self) -> Mapping[str, str] | None:
        """The headers of the provider's reply; None if it has another wire than the client."""
        return None

    @property
    def losses(self) -> tuple[Loss, ...]:
        """All losses so far, of the request and of the reply."""
        return ()

    def fail(self, error: Exception) -> bytes:
        """Return the end of a stream that an error ends."""
        written: bytes = self._encoder.fail(error)
        return written

    def forget(self) -> None:  # noqa: B027  # most ways have nothing that does
        """Release what refers to this way: it would wait for the collector."""

    @cached_property
    def _encoder(self) -> Any:
        """Writes the stream. It is made when the model that answers is known."""
        read = self._read
        read.begin_reply(read.request.record.asked)
        return read.adapter.reply_encoder(read.context)

    def _write_whole(self, message: Message) -> WireResponse:
        read = self._read
        read.begin_reply(read.request.record.asked)
        return read.adapter.to_wire_response(message, read.context)


class Through(Way):
    """A provider of the client's wire gets the client's bytes, and the client gets the provider's. The messages are
    read only if something has to measure them."""

    keeps_request = False

    def __init__(self, read: ReadRequest, deployment: Deployment, client: AsyncClient, body: bytes) -> None:
        super().__init__(read, deployment, client)
        request, governors, target = read.request, read.resources.governors, self._target
        if governors and request.wire.asks_for_usage and lacks_usage(request.fields):
            self.hides_usage = True
            body = ask_for_usage(body, request.fields)
        self._sent = ProviderRequest.of_bytes(
            client.config,
            target,
            body,
            headers=request.wire.headers.to_provider(request.headers),
            stream=request.stream,
            governors=governors,
            measure=self.measure if governors else None,
        )
        request.record.asked = str(target.model_id)

    @property
    def measure(self) -> MeasureUsage:
        return partial(_measure, self._target, self._read)

    async def ask(self) -> WireResponse:
        await self._sent.send()
        assert self._sent.response is not None
        return self._sent.response

    def stream(self) -> AsyncGenerator[bytes, None]:
        return self._sent.stream()

    @property
    def passes(self) -> bool:
        return True

    @property
    def complete(self) -> bool:
        return self._sent.complete

    @property
    def reply(self) -> Message:
        assert self._sent.response is not None
        return self._target.from_wire_response(self._sent.response, self._read.context)

    @property
    def usages(self) -> Sequence[Usage]:
        return self._sent.usages

    @property
    def headers(self) -> Mapping[str, str]:
        return self._sent.headers


def _measure(target: Adapter, read: ReadRequest) -> MaxUsage:
    return max_usage(target, *read.measured())


class Direct(Way):
    """A provider of another wire is asked without a session: for texts, which need nothing that only a session does."""

    def __init__(self, read: ReadRequest, deployment: Deployment, client: AsyncClient) -> None:
        super().__init__(read, deployment, client)
        read.context.prices = client.config.prices or price_table()
        self._sent = ProviderRequest(
            client.config,
            self._target,
            partial(_encode, self._target, read),  # not a method: what refers to itself waits for the collector
            governors=read.resources.governors,
            measure=self.measure,
            session_id=read.context.session_id,
            tool_ids=read.context.tool_ids,
        )
        read.request.record.asked = str(self._target.model_id)

    @property
    def measure(self) -> MeasureUsage:
        return partial(max_usage, self._target, *self._read.measured())

    async def ask(self) -> WireResponse:
        self._reply = await self._sent.send()
        return self._write_whole(self._reply)

    async def stream(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._sent.batches()) as batches:
            async for events in batches:
                yield b"".join(map(self._encoder.feed, events))
                del events

    @property
    def complete(self) -> bool:
        return self._sent.complete

    @property
    def usages(self) -> Sequence[Usage]:
        return self._sent.usages

    @property
    def losses(self) -> tuple[Loss, ...]:
        return (*self._read.context.losses, *self._sent.losses)


def _encode(target: Adapter, read: ReadRequest, context: RequestContext) -> WireRequest:
    """Encode an attempt. Raises InvalidRequestError."""
    if (kept := read.request.kept) is not None:
        context.encode_cache = kept.encodings
    prices = read.context.prices or price_table()
    messages, tools, options = read.for_other_wire((read.messages, read.tools, read.read_options), target, prices)
    request = target.to_wire(messages, tools, options.with_context(context))
    if read.resources.strict:
        refuse_losses(request)
    return request
