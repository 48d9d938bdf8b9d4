"""One request to a provider, without a session (docs/answers.md#relays)."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, Self

from dragoman.adapter.context import RequestContext
from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import AuthenticationError, ConfigurationError, DragomanError, ProviderError
from dragoman.adapter.losses import Loss, log_losses
from dragoman.adapter.replies.stream_decoder import decode_batches_async
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.attempt.attempt import Attempt, run_attempts
from dragoman.attempt.reply_reader import ReplyReader, apply_stages
from dragoman.canonical.blocks import assemble
from dragoman.canonical.events import MessageComplete, StreamEvent
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.canonical.usage import Usage
from dragoman.configuration.config import ClientConfig
from dragoman.configuration.transports import Transports
from dragoman.effects import (
    Broken,
    Failed,
    Observe,
    Perform,
    Replied,
    ResponseDetails,
    SendOutcome,
    Stage,
    drive_async,
    iterate_async,
)
from dragoman.limits.reservation import Governor, MeasureUsage, usage_of
from dragoman.pricing import price_table
from dragoman.transport.contract import AsyncStreamedReply
from dragoman.transport.retry import RetryState

Encode = Callable[[RequestContext], WireRequest]
"""Returns the request of one attempt, with the context in which its reply is read."""
Read = Callable[[WireResponse, RequestContext], Message]
"""Returns what a whole reply means; raises ProviderError."""

_WHOLE, _STREAMED = AdapterOptions(), AdapterOptions(stream=True)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """The effect of an attempt: to send the request, and to read the reply. Its outcome is a `SendOutcome`."""

    observers: tuple[Observe, ...]
    stages: tuple[Stage, ...]


def _exchange(observers: tuple[Observe, ...], stages: tuple[Stage, ...]) -> Generator[Any, Any, SendOutcome]:
    outcome: SendOutcome = yield _Exchange(observers, stages)
    return outcome


class ProviderRequest:
    """One request, with one reply. It is retried, governed and read as in a session.

    What else a session does is left out: it runs no tools, reads no files, follows no reply in the background, and does
    not ask again without a reference that has expired.
    """

    def __init__(
        self,
        config: ClientConfig,
        adapter: Adapter,
        encode: Encode,
        *,
        read: Read | None = None,
        governors: Iterable[Governor] = (),
        measure: MeasureUsage | None = None,
        session_id: str = "",
        tool_ids: ToolIdMap | None = None,
        is_long: bool = False,
    ) -> None:
        """``config`` is that of the client that sends. ``read`` is `Adapter.from_wire_response` if it is not given.
        ``governors`` let each attempt start, and ``measure`` estimates for them what it may use. ``session_id`` and
        ``tool_ids`` are those of the reply. ``is_long``: another thread encodes, because it would hold up others.

        Raises ConfigurationError if the client is closed, if its settings need a session (`is_possible`), or if there
        are governors without a measure.
        """
        if not self.is_possible(config, adapter):
            raise ConfigurationError(
                "the adapter or the client's settings have to read the conversation: use a session"
            )
        config.lifetime.check()
        self._governors = tuple(governors)
        if not self._governors:  # there is nothing to reserve and to settle
            self._attempt: Callable[[], Generator[Any, Any, SendOutcome]] = partial(_exchange, (), ())
        elif measure is None:
            raise ConfigurationError("governors need to know what a request may use: give measure=")
        else:
            self._attempt = partial(Attempt(self._governors, measure).run, _exchange)
        self._prices = config.prices if config.prices is not None else price_table()
        self._transports: Transports[Any] = config.lifetime.transports[True]
        self._adapter = adapter
        self._encode = encode
        self._read = read or adapter.from_wire_response
        self._skims = self._passes = False
        self._session_id = session_id
        self._tool_ids = tool_ids
        self._is_long = is_long
        self._received: list[bytes] = []
        self.response: WireResponse | None = None
        """The whole reply, as it arrived."""
        self.headers: Mapping[str, str] = {}
        """The headers of the reply."""
        self.usages: list[Usage] = []
        """What was used, also by replies that broke off or could not be read."""
        self.losses: tuple[Loss, ...] = ()
        """What the request lost."""
        self.complete = False
        """Whether a stream has its end. It is set before the last of it is yielded."""

    @classmethod
    def of_bytes(
        cls,
        config: ClientConfig,
        adapter: Adapter,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        governors: Iterable[Governor] = (),
        measure: MeasureUsage | None = None,
    ) -> Self:
        """Return a request that sends a body as it is, which has the name of the adapter's model. ``headers`` are sent
        as well. ``stream``: the body asks for a stream.

        Of the reply, its errors, its end and its usage are read, and of a stream the text too if something governs it.
        """
        path = adapter.request_path(_STREAMED if stream else _WHOLE) if isinstance(adapter, WireAdapter) else ""
        request = WireRequest("POST", path, body, headers or {}, stream)
        made = cls(
            config,
            adapter,
            lambda context: replace(request, terms=context.terms),
            read=lambda response, context: receipt(adapter.read_usage(response, context)),
            governors=governors,
            measure=measure,
        )
        made._skims = not made._governors
        return made

    @staticmethod
    def is_possible(config: ClientConfig, adapter: Adapter) -> bool:
        """Whether nothing in the settings of a client reads conversations, and the wire is one of JSON bodies."""
        return isinstance(adapter, WireAdapter) and not (
            config.budgets
            or config.policy is not None
            or config.limits is not None
            or config.events is not None
            or config.store is not None
            or config.router is not None
        )

    async def send(self) -> Message:
        """Return the whole reply. That of a request from `of_bytes` has no content, only its usage.

        Raises ProviderError, RequestError, MissingKeyError, ConfigurationError, and what governors raise.
        """
        retries = self._transports.new_retries(self._adapter)
        attempts = run_attempts(retries, self._attempt)
        outcome = await drive_async(attempts, partial(self._carry_out, retries))
        assert isinstance(outcome, Replied)  # who leaves it, cancels it
        return outcome.message

    async def _carry_out(self, retries: RetryState, effect: Perform | _Exchange) -> Any:
        """Wait, or send one attempt for a whole reply, whose stages have nothing to filter, and return its outcome."""
        if isinstance(effect, Perform):
            return await effect.work_async()
        context = self._new_context()
        try:
            # The body may be long: nothing here refers to it while the reply is awaited.
            self.response = response = await self._transports.get(self._adapter).send(
                self._adapter, await self._encode_attempt(context), retries=retries
            )
        except DragomanError as error:
            return self._note(Failed(error))
        self.headers = response.headers
        for observe in effect.observers:
            await observe(response.headers).work_async()
        try:
            message = self._read(response, context)
        except ProviderError as error:
            reader = ReplyReader(self._adapter, context, retries.timing.clock)
            reader.response = response
            reader.fail_unreadable(error)
            assert reader.outcome is not None
            return self._note(reader.outcome)
        return self._note(Replied(message, ResponseDetails(response.status, response.headers, response.attempts)))

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a streamed reply as they arrive. After the end of the reply, it waits a moment for the
        connection. Leaving it earlier cancels the reply.

        Raises as `send` does, after the bytes before the error. As long as no content has arrived, nothing is yielded,
        and the request is retried.
        """
        self._passes = True
        async with aclosing(self.batches()) as batches:
            async for events in batches:
                del events  # a stream that pauses holds none
                if self._received:
                    data = self._received[0] if len(self._received) == 1 else b"".join(self._received)
                    self._received.clear()
                    yield data
                    del data

    async def batches(self) -> AsyncGenerator[Sequence[StreamEvent], None]:
        """Yield the events of a streamed reply as they arrive together, as `stream` yields its bytes."""
        retries = self._transports.new_retries(self._adapter)
        async with aclosing(iterate_async(run_attempts(retries, self._attempt))) as work:
            effect: _Exchange | None = await anext(work)
            while effect is not None:
                self._received.clear()
                context = self._new_context()
                joins_text = not (effect.stages or self._skims)
                reader = ReplyReader(self._adapter, context, retries.timing.clock, joins_text=joins_text)
                begun = False
                try:
                    transport = self._transports.get(self._adapter)
                    sending = transport.stream(
                        self._adapter,
                        await self._encode_attempt(context),
                        retries=retries,
                    )
                    async with sending as response:
                        await self._begin(reader, response, effect.observers)
                        async with aclosing(
                            decode_batches_async(response.chunks, reader.decoder, idle_timeout=response.idle_timeout)
                        ) as batches:
                            async for arrived in batches:
                                reader.receive(arrived)
                                stages = effect.stages
                                events = await _filter(stages, arrived, reader) if stages else reader.feed(arrived)
                                if isinstance(reader.outcome, Replied):
                                    self._note(reader.outcome)
                                    # Settled before its last bytes leave: their reader may go away with them.
                                    await _send_outcome(work, reader.outcome)
                                    self.complete = True
                                    yield [*events, MessageComplete(reader.outcome.message)]
                                    break
                                begun = begun or bool(events)
                                # The request may be long, and is not sent again.
                                self._encode = _encode_again if begun else self._encode
                                ended = reader.outcome
                                # Words about the sender's key are not for whoever gets the bytes.
                                if begun and not (
                                    isinstance(ended, Broken) and isinstance(ended.error, AuthenticationError)
                                ):
                                    yield events
                                if ended is not None:
                                    break
                                del arrived, events
                except (GeneratorExit, asyncio.CancelledError):
                    await self._settle_left(work, reader)
                    raise
                except Exception as error:
                    if reader.outcome is None:
                        reader.fail(error)
                if self.complete:
                    return  # even if the connection broke behind the reply
                outcome = reader.outcome or Failed(ConfigurationError("a stage removed the end of the reply"))
                self._note(outcome)
                effect = await _send_outcome(work, outcome)

    async def _begin(self, reader: ReplyReader, response: AsyncStreamedReply, observers: Sequence[Observe]) -> None:
        """Read the head of a streamed reply, and show its headers to those who let the request start."""
        self.headers = response.headers
        reader.response = response
        for observe in observers:
            await observe(response.headers).work_async()
        if self._passes:
            reader.decoder.listener = self._received.append
        if self._skims:
            reader.decoder.skim()

    async def _settle_left(self, work: AsyncGenerator[_Exchange, Any], reader: ReplyReader) -> None:
        """Settle a reply that nobody waits for any more."""
        if isinstance(reader.outcome, Replied):
            return
        left = reader.outcome or reader.abandon()  # it may have broken in the bytes that nobody takes
        self._note(left)
        with suppress(DragomanError):
            await _send_outcome(work, left)

    def _new_context(self) -> RequestContext:
        """Return the context of an attempt that begins now."""
        context = RequestContext(
            model=str(self._adapter.model_id),
            session_id=self._session_id,
            request_id="",
            tool_ids=ToolIdMap() if self._tool_ids is None else self._tool_ids,
            prices=self._prices,
        )
        context.started_at = context.clock()
        return context

    async def _encode_attempt(self, context: RequestContext) -> WireRequest:
        try:
            request = await asyncio.to_thread(self._encode, context) if self._is_long else self._encode(context)
        except DragomanError as error:
            error.sent = False
            raise
        if request.losses:
            new = tuple(loss for loss in request.losses if loss not in self.losses)
            log_losses(
                new, session_id=self._session_id, adapter=self._adapter.provider, model=str(self._adapter.model_id)
            )
            self.losses += new
        return request

    def _note(self, outcome: SendOutcome) -> SendOutcome:
        """Note what an attempt used, and return its outcome."""
        usage = outcome.message.metadata.usage if isinstance(outcome, Replied) else usage_of(outcome)
        if usage is not None:
            self.usages.append(usage)
        return outcome


async def _send_outcome(work: AsyncGenerator[_Exchange, Any], outcome: SendOutcome) -> _Exchange | None:
    """Return the effect of the next attempt; None if there is none."""
    try:
        return await work.asend(outcome)
    except StopAsyncIteration:
        return None


async def _filter(
    stages: Sequence[Stage], arrived: Sequence[StreamEvent], reader: ReplyReader
) -> Sequence[StreamEvent]:
    """Return the events that may be passed on, up to the one at which a stage ends the reply."""
    passed: list[StreamEvent] = []
    try:
        for event in arrived:
            passed += reader.feed(await drive_async(apply_stages(stages, event)))
    except Exception as error:
        reader.fail(error)
    return passed


_RECEIPT = Message(role=Role.ASSISTANT, content=())


def receipt(usage: Usage | None) -> Message:
    """Return a message that has the usage of a reply, and no content."""
    # Validation would take as long as reading the usage.
    metadata = assemble(MessageMetadata, {**_RECEIPT.metadata.__dict__, "usage": usage}, {"usage"})
    return assemble(Message, {**_RECEIPT.__dict__, "metadata": metadata}, {"role", "content", "metadata"})


def _encode_again(context: RequestContext) -> NoReturn:
    raise AssertionError("a stream that has begun is not asked again")
