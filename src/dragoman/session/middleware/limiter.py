"""Applies limits to a session: each request waits until it may start, and is settled by its usage.

The budget reservation knows the size of a request and, at the end, its usage; the transport knows when and how often it
is sent, and the provider's rate-limit headers. Both are wrapped here, so that the drivers do not know about limits.
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
from dragoman.limits.budget import BudgetAccount, Budgets, Reservation
from dragoman.transport import AsyncStreamedReply, AsyncTransport, StreamedReply, Transport

logger = logging.getLogger("dragoman.limits")


@dataclass(slots=True, eq=False, kw_only=True)
class LimitedReservation(Reservation):
    """The reservation of one request in budgets and limits."""

    limiter: "Limiter"
    model: str
    input_tokens: int
    output_tokens: int
    grant: Grant | None = None
    requests: int = 0
    """How often the request was sent."""
    started: bool = False
    """Whether the provider has begun to answer, so that the input counts."""

    def settle(self, usage: Usage | None) -> None:
        Reservation.settle(self, usage)
        if usage is None:  # the usage is unknown: the reserved amount counts
            self.grant = None
        self._settle_grant(usage)

    def release(self) -> None:
        Reservation.release(self)
        self._settle_grant(TokenUsage(input_tokens=self.input_tokens) if self.started else None)

    def _settle_grant(self, usage: TokenUsage | None) -> None:
        grant, self.grant = self.grant, None
        if grant is not None:
            self.limiter.settle(grant, usage, self.requests)


@dataclass(frozen=True, slots=True)
class LimitedBudgets(Budgets):
    limiter: "Limiter"

    def reserve(
        self, adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> Reservation:
        """As `Budgets.reserve`. The transport waits for the limits, just before it sends."""
        reservation = Budgets.reserve(self, adapter, messages, tools, options)
        input_tokens = adapter.estimate_input_tokens(messages, tools)
        output_tokens = options.max_output_tokens or self.limiter.limits.reply_tokens or adapter.default_output_tokens
        self.limiter.next_reservation = limited = LimitedReservation(
            max_spend=reservation.max_spend,
            accounts=reservation.accounts,
            limiter=self.limiter,
            model=str(adapter.model_id),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        )
        return limited


@dataclass(slots=True, eq=False)
class Limiter:
    """The limits of one session, which has one request in flight at a time."""

    limits: Limits
    next_reservation: LimitedReservation | None = None
    """The reservation of the request that is sent next."""
    _settling: set[asyncio.Task[None]] = field(default_factory=set)

    def new_budgets(self, accounts: Sequence[BudgetAccount], prices: Prices, clock: Callable[[], Any]) -> Budgets:
        return LimitedBudgets(accounts, prices, clock, self)

    def wrap_transport(self, transport: Any, *, asynchronous: bool) -> Any:
        """Return the transport, wrapped so that its requests wait for the limits."""
        return AsyncLimitedTransport(transport, self) if asynchronous else LimitedTransport(transport, self)

    def settle(self, grant: Grant, usage: TokenUsage | None, requests: int) -> None:
        """Settle a grant. If the counters cannot be reached, this is logged and the reply stays."""
        if not self.limits.is_local:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                pass
            else:
                settling = self.limits.settle_async(grant, usage, requests=requests)
                task = loop.create_task(_log_errors(settling))
                self._settling.add(task)
                task.add_done_callback(self._settling.discard)
                return
        try:
            self.limits.settle(grant, usage, requests=requests)
        except DragomanError as error:
            _log_uncounted(error)

    async def wait_until_settled(self) -> None:
        """Wait until all grants are settled."""
        await asyncio.gather(*self._settling)

    def observe(self, model: str, headers_or_error: Any) -> None:
        try:
            self.limits.observe(model, headers_or_error)
        except DragomanError as error:
            _log_uncounted(error)

    async def observe_async(self, model: str, headers_or_error: Any) -> None:
        await _log_errors(self.limits.observe_async(model, headers_or_error))

    def take_next(self) -> LimitedReservation | None:
        reservation, self.next_reservation = self.next_reservation, None
        return reservation


@dataclass(frozen=True, slots=True)
class LimitedTransport:
    """Waits before it sends, at most as long as the limits allow. Raises LimitReachedError."""

    inner: Transport
    limiter: Limiter

    def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        reservation = self._acquire()
        try:
            response = self.inner.send(adapter, request, timeout=timeout)
        except Exception as error:
            self._observe_failure(reservation, error)
            raise
        self._observe_reply(reservation, response)
        return response

    @contextmanager
    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> Iterator[StreamedReply]:
        reservation = self._acquire()
        try:
            with self.inner.stream(adapter, request, timeout=timeout) as reply:
                self._observe_reply(reservation, reply)
                yield reply
        except Exception as error:
            if reservation is not None and not reservation.started:
                self._observe_failure(reservation, error)
            raise

    def close(self) -> None:
        self.inner.close()

    def _acquire(self) -> LimitedReservation | None:
        reservation = self.limiter.take_next()
        if reservation is not None:
            reservation.grant = self.limiter.limits.acquire(
                reservation.model, reservation.input_tokens, reservation.output_tokens
            )
        return reservation

    def _observe_reply(self, reservation: LimitedReservation | None, reply: WireResponse | StreamedReply) -> None:
        if reservation is not None:
            _mark_started(reservation, reply.attempts)
            self.limiter.observe(reservation.model, reply.headers)

    def _observe_failure(self, reservation: LimitedReservation | None, error: Exception) -> None:
        if reservation is not None and isinstance(error, ProviderError):
            reservation.requests = max(len(error.attempts), 1)
            self.limiter.observe(reservation.model, error)


@dataclass(frozen=True, slots=True)
class AsyncLimitedTransport:
    """The async twin of `LimitedTransport`."""

    inner: AsyncTransport
    limiter: Limiter

    async def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        reservation = await self._acquire()
        try:
            response = await self.inner.send(adapter, request, timeout=timeout)
        except Exception as error:
            await self._observe_failure(reservation, error)
            raise
        await self._observe_reply(reservation, response)
        return response

    @asynccontextmanager
    async def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AsyncIterator[AsyncStreamedReply]:
        reservation = await self._acquire()
        try:
            async with self.inner.stream(adapter, request, timeout=timeout) as reply:
                await self._observe_reply(reservation, reply)
                yield reply
        except Exception as error:
            if reservation is not None and not reservation.started:
                await self._observe_failure(reservation, error)
            raise

    async def close(self) -> None:
        await self.inner.close()
        await self.limiter.wait_until_settled()

    async def _acquire(self) -> LimitedReservation | None:
        reservation = self.limiter.take_next()
        if reservation is not None:
            reservation.grant = await self.limiter.limits.acquire_async(
                reservation.model, reservation.input_tokens, reservation.output_tokens
            )
        return reservation

    async def _observe_reply(
        self, reservation: LimitedReservation | None, reply: WireResponse | AsyncStreamedReply
    ) -> None:
        if reservation is not None:
            _mark_started(reservation, reply.attempts)
            await self.limiter.observe_async(reservation.model, reply.headers)

    async def _observe_failure(self, reservation: LimitedReservation | None, error: Exception) -> None:
        if reservation is not None and isinstance(error, ProviderError):
            reservation.requests = max(len(error.attempts), 1)
            await self.limiter.observe_async(reservation.model, error)


def _mark_started(reservation: LimitedReservation, attempts: Sequence[Any]) -> None:
    reservation.started, reservation.requests = True, max(len(attempts), 1)


async def _log_errors(work: Awaitable[None]) -> None:
    try:
        await work
    except DragomanError as error:
        _log_uncounted(error)


def _log_uncounted(error: DragomanError) -> None:
    logger.warning("what a request took of the limits could not be counted: %s", error)
