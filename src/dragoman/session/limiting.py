"""The limits of a session: each request waits for its turn before it is sent, and is settled when its reply is there.

What a request holds back of budgets also knows its size and, in the end, its usage; the transport knows when it is
sent, how often, and what the provider says of its own limits. So both are wrapped here, and the drivers notice nothing.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.contract import Adapter, AdapterOptions, Prices
from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.limits import Grant, Limits
from dragoman.session.budget import Account, Hold, Purse
from dragoman.transport import AsyncStreamedReply, AsyncTransport, StreamedReply, Transport

logger = logging.getLogger("dragoman.limits")


@dataclass(slots=True, eq=False, kw_only=True)
class LimitedHold(Hold):
    """What one request holds of budgets and of limits."""

    limiter: "Limiter"
    model: str
    input_tokens: int
    output_tokens: int
    grant: Grant | None = None
    requests: int = 0
    """How often it was sent."""
    begun: bool = False
    """Whether the provider has begun to answer, and so has read it."""

    def settle(self, usage: Usage | None) -> None:
        Hold.settle(self, usage)
        if usage is None:  # nobody knows what it took: what was held stays held
            self.grant = None
        self._settle_grant(usage)

    def release(self) -> None:
        Hold.release(self)
        self._settle_grant(TokenUsage(input_tokens=self.input_tokens) if self.begun else None)

    def _settle_grant(self, usage: TokenUsage | None) -> None:
        grant, self.grant = self.grant, None
        if grant is not None:
            self.limiter.settle(grant, usage, self.requests)


@dataclass(frozen=True, slots=True)
class LimitedPurse(Purse):
    limiter: "Limiter"

    def hold(
        self, adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> Hold:
        """As `Purse.hold`; limits are waited for when the request is about to be sent."""
        hold = Purse.hold(self, adapter, messages, tools, options)
        read = adapter.estimate_input_tokens(messages, tools)
        written = options.max_output_tokens or self.limiter.limits.reply_tokens or adapter.default_output_tokens
        self.limiter.next = limited = LimitedHold(
            most=hold.most,
            accounts=hold.accounts,
            limiter=self.limiter,
            model=str(adapter.model_id),
            input_tokens=read,
            output_tokens=written,
        )
        return limited


@dataclass(slots=True, eq=False)
class Limiter:
    """The limits as one session sees them, which has one request under way at a time."""

    limits: Limits
    next: LimitedHold | None = None
    """The request that is about to be sent."""
    _unsettled: set[asyncio.Task[None]] = field(default_factory=set)

    def purse(self, accounts: Sequence[Account], prices: Prices, clock: Callable[[], Any]) -> Purse:
        return LimitedPurse(accounts, prices, clock, self)

    def around(self, transport: Any, *, asynchronous: bool) -> Any:
        """The transport, whose requests wait for their turn."""
        return AsyncLimitedTransport(transport, self) if asynchronous else LimitedTransport(transport, self)

    def settle(self, grant: Grant, usage: TokenUsage | None, requests: int) -> None:
        """A reply that is there is worth more than a count: where the counts cannot be reached, that is logged."""
        if not self.limits.local:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                pass
            else:
                settling = self.limits.settle_async(grant, usage, requests=requests)
                task = loop.create_task(_tolerant(settling))
                self._unsettled.add(task)
                task.add_done_callback(self._unsettled.discard)
                return
        try:
            self.limits.settle(grant, usage, requests=requests)
        except DragomanError as error:
            _not_counted(error)

    async def settled(self) -> None:
        """Waits until everything is."""
        await asyncio.gather(*self._unsettled)

    def heed(self, model: str, told: Any) -> None:
        try:
            self.limits.heed(model, told)
        except DragomanError as error:
            _not_counted(error)

    async def heed_async(self, model: str, told: Any) -> None:
        await _tolerant(self.limits.heed_async(model, told))

    def taken(self) -> LimitedHold | None:
        hold, self.next = self.next, None
        return hold


@dataclass(frozen=True, slots=True)
class LimitedTransport:
    """Waits before it sends, at most as long as the limits allow. Raises LimitReachedError as well."""

    inner: Transport
    limiter: Limiter

    def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        hold = self._acquire()
        try:
            response = self.inner.send(adapter, request, timeout=timeout)
        except Exception as error:
            self._failed(hold, error)
            raise
        self._answered(hold, response)
        return response

    @contextmanager
    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> Iterator[StreamedReply]:
        hold = self._acquire()
        try:
            with self.inner.stream(adapter, request, timeout=timeout) as reply:
                self._answered(hold, reply)
                yield reply
        except Exception as error:
            if hold is not None and not hold.begun:
                self._failed(hold, error)
            raise

    def close(self) -> None:
        self.inner.close()

    def _acquire(self) -> LimitedHold | None:
        hold = self.limiter.taken()
        if hold is not None:
            hold.grant = self.limiter.limits.acquire(hold.model, hold.input_tokens, hold.output_tokens)
        return hold

    def _answered(self, hold: LimitedHold | None, reply: WireResponse | StreamedReply) -> None:
        if hold is not None:
            _note_answer(hold, reply.attempts)
            self.limiter.heed(hold.model, reply.headers)

    def _failed(self, hold: LimitedHold | None, error: Exception) -> None:
        if hold is not None and isinstance(error, ProviderError):
            hold.requests = max(len(error.attempts), 1)
            self.limiter.heed(hold.model, error)


@dataclass(frozen=True, slots=True)
class AsyncLimitedTransport:
    """The async twin of `LimitedTransport`."""

    inner: AsyncTransport
    limiter: Limiter

    async def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        hold = await self._acquire()
        try:
            response = await self.inner.send(adapter, request, timeout=timeout)
        except Exception as error:
            await self._failed(hold, error)
            raise
        await self._answered(hold, response)
        return response

    @asynccontextmanager
    async def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AsyncIterator[AsyncStreamedReply]:
        hold = await self._acquire()
        try:
            async with self.inner.stream(adapter, request, timeout=timeout) as reply:
                await self._answered(hold, reply)
                yield reply
        except Exception as error:
            if hold is not None and not hold.begun:
                await self._failed(hold, error)
            raise

    async def close(self) -> None:
        await self.inner.close()
        await self.limiter.settled()

    async def _acquire(self) -> LimitedHold | None:
        hold = self.limiter.taken()
        if hold is not None:
            hold.grant = await self.limiter.limits.acquire_async(hold.model, hold.input_tokens, hold.output_tokens)
        return hold

    async def _answered(self, hold: LimitedHold | None, reply: WireResponse | AsyncStreamedReply) -> None:
        if hold is not None:
            _note_answer(hold, reply.attempts)
            await self.limiter.heed_async(hold.model, reply.headers)

    async def _failed(self, hold: LimitedHold | None, error: Exception) -> None:
        if hold is not None and isinstance(error, ProviderError):
            hold.requests = max(len(error.attempts), 1)
            await self.limiter.heed_async(hold.model, error)


def _note_answer(hold: LimitedHold, attempts: Sequence[Any]) -> None:
    hold.begun, hold.requests = True, max(len(attempts), 1)


async def _tolerant(work: Awaitable[None]) -> None:
    try:
        await work
    except DragomanError as error:
        _not_counted(error)


def _not_counted(error: DragomanError) -> None:
    logger.warning("what a request took of the limits could not be counted: %s", error)
