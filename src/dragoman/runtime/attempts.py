"""The attempts of one request without a session: they are admitted, retried, and counted.

Nothing reads the conversation, so the client may have no setting that does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from dragoman.adapter.context import RequestContext, bundled_prices
from dragoman.adapter.contract import Adapter, WireAdapter
from dragoman.adapter.errors import ConfigurationError, ProviderError
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.usage import Usage
from dragoman.runtime.config import ClientConfig
from dragoman.runtime.transports import Transports
from dragoman.transport import AsyncTransport
from dragoman.transport.retry import RetryState

ReplyT = TypeVar("ReplyT")


class Admitted(Protocol):
    """What one attempt of a request has reserved. It is settled or released once; later calls do nothing."""

    async def settle(self, usage: Usage | None) -> None:
        """Settle by the usage of a whole reply; None if the reply reported none."""
        ...

    async def settle_failed(self, usage: Usage | None, *, began: bool, counts: bool = True) -> None:
        """Settle an attempt without a whole reply. ``usage`` is what was reported of it. ``began``: content had
        arrived. ``counts``: it is a request of the caller, not a reply that the provider broke."""
        ...

    def release(self) -> None:
        """End the reservation."""
        ...


class Attempts:
    """Sends one request through the transport of a client, as often as its retries allow."""

    def __init__(
        self, config: ClientConfig, adapter: Adapter, admit: Callable[[], Awaitable[Admitted]] | None = None
    ) -> None:
        """Raises ConfigurationError if the client is closed, or if it is not possible (`is_possible`)."""
        if not isinstance(adapter, WireAdapter) or not self.is_possible(config, adapter):
            raise ConfigurationError(
                "the adapter or the client's settings have to read the conversation: use a session"
            )
        config.lifetime.check()
        self._prices = config.prices if config.prices is not None else bundled_prices()
        self._transports: Transports[AsyncTransport] = config.connections.transports(asynchronous=True)
        self._adapter = adapter
        self._admit = admit or _admit_all
        self.headers: Mapping[str, str] = {}
        """The headers of the reply."""
        self.usages: list[Usage] = []
        """What was used, also by replies that broke off or could not be read."""

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

    async def _send(
        self,
        encode: Callable[[RequestContext], WireRequest],
        read: Callable[[WireResponse, RequestContext], tuple[Usage | None, ReplyT]],
    ) -> ReplyT:
        """Return what ``read`` returns of the whole reply, after its usage is settled. Each attempt is encoded and read
        with a context of its own.
        """
        adapter, retries = self._adapter, self._transports.new_retries(self._adapter)
        transport, arguments = self._connect(retries)
        while True:
            ticket = await self._admit()
            try:
                context = self._new_context()
                response = await transport.send(adapter, encode(context), **arguments)
                self.headers = response.headers
                try:
                    usage, reply = read(response, context)
                except ProviderError as raised:
                    error, wait = raised, retries.record_unusable(raised)
                    await ticket.settle_failed(self._count(raised.partial), began=False, counts=False)
                else:
                    if usage is not None:
                        self.usages.append(usage)
                    await ticket.settle(usage)
                    return reply
            except (Exception, asyncio.CancelledError) as raised:
                await ticket.settle_failed(None, began=False)
                if not isinstance(raised, ProviderError):
                    raise
                error, wait = raised, retries.next_wait
            finally:
                ticket.release()
            if wait is None:
                raise error
            await retries.timing.sleep_async(wait)

    def _connect(self, retries: RetryState) -> tuple[AsyncTransport, dict[str, Any]]:
        return self._transports.get(self._adapter), self._transports.arguments(self._adapter, retries)

    def _new_context(self) -> RequestContext:
        """Return the context of an attempt that begins now. There is no session, so it has no ids."""
        context = RequestContext(model=str(self._adapter.model_id), session_id="", request_id="", prices=self._prices)
        context.started_at = context.clock()
        return context

    def _count(self, reply: Message | None) -> Usage | None:
        if reply is None or reply.usage is None:
            return None
        self.usages.append(reply.usage)
        return reply.usage


class _Unlimited:
    """Stands for what was reserved if nothing is."""

    async def settle(self, usage: Usage | None) -> None:
        """Settle nothing."""

    async def settle_failed(self, usage: Usage | None, *, began: bool, counts: bool = True) -> None:
        """Settle nothing."""

    def release(self) -> None:
        """End nothing."""


_UNLIMITED = _Unlimited()


async def _admit_all() -> Admitted:
    return _UNLIMITED
