"""Sends the bytes of a client's request to the provider of its wire, without a session (docs/answers.md#relays).

Nothing reads the conversation, so the client may have no setting that does. Of a reply, its errors, its end and its
usage are read.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from dragoman.adapter.context import RequestContext
from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import MalformedReplyError, ProviderError, RequestCancelledError
from dragoman.adapter.replies.error_context import add_response_facts
from dragoman.adapter.replies.stream_decoder import StreamDecoder, decode_batches_async
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.events import ErrorEvent, MessageComplete, MessageStart, StreamEvent, UsageUpdate
from dragoman.canonical.usage import Usage
from dragoman.runtime.attempts import Admitted, Attempts
from dragoman.runtime.config import ClientConfig
from dragoman.transport.retry import RetryState

_WHOLE, _STREAMED = AdapterOptions(), AdapterOptions(stream=True)


class PassThrough(Attempts):
    """One request, with one reply. It is retried as a session retries."""

    def __init__(
        self,
        config: ClientConfig,
        adapter: Adapter,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        admit: Callable[[], Awaitable[Admitted]] | None = None,
    ) -> None:
        """``config`` is that of the client that sends, ``body`` has the name of the adapter's model. ``headers`` are
        sent as well. ``stream``: the body asks for a stream. ``admit`` is awaited before each attempt, and raises if it
        may not be sent.

        Raises ConfigurationError if the client is closed, or if it is not possible (`is_possible`).
        """
        super().__init__(config, adapter, admit)
        path = self._adapter.request_path(_STREAMED if stream else _WHOLE)
        self._request = WireRequest("POST", path, body, headers or {}, stream)
        self.complete = False
        """Whether a stream has its end. It is set before the last bytes are yielded."""

    async def send(self) -> WireResponse:
        """Return the whole reply. Raises ProviderError, RequestError, MissingKeyError, ConfigurationError, and what
        ``admit`` raises.
        """
        return await self._send(lambda _: self._request, self._read)

    def _read(self, response: WireResponse, context: RequestContext) -> tuple[Usage | None, WireResponse]:
        return self._adapter.read_usage(response, context), response

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a streamed reply as they arrive. After the end of the reply, it waits a moment for the
        connection. Leaving it earlier cancels the reply.

        Raises as `send` does, after the bytes before the error. As long as no content has arrived, nothing is yielded,
        and the request is retried.
        """
        adapter, retries = self._adapter, self._transports.new_retries(self._adapter)
        transport, arguments = self._connect(retries)
        received: list[bytes] = []
        while True:
            received.clear()
            ticket = await self._admit()
            decoder = self._new_decoder(received)
            error: Exception | None = None
            usage: Usage | None = None
            seen = arrived = False
            try:
                async with transport.stream(adapter, self._request, **arguments) as reply:
                    self.headers, arrived = reply.headers, True
                    async with aclosing(
                        decode_batches_async(reply.chunks, decoder, idle_timeout=reply.idle_timeout)
                    ) as batches:
                        async for events in batches:
                            last = events[-1]
                            if isinstance(last, MessageComplete):
                                usage = self._count(last.message)
                                self.complete = True
                                await ticket.settle(usage)
                            elif isinstance(last, ErrorEvent):
                                error = last.error
                                if isinstance(error, ProviderError):
                                    error.partial = last.partial
                                    add_response_facts(error, adapter.provider, reply.headers)
                                usage = self._count(last.partial)
                            if not seen and (self.complete or _have_content(events)):
                                seen = True
                                self._request = replace(self._request, body=b"")  # it is not sent again
                            del events, last  # a stream that pauses holds none
                            if seen and received:
                                yield _take(received)
            except (GeneratorExit, asyncio.CancelledError):
                await ticket.settle_failed(self._abandon(decoder), began=seen)
                raise
            except Exception as raised:
                if self.complete:
                    return  # the connection broke behind the reply
                error = raised
                if arrived:
                    usage = self._abandon(decoder)
            finally:
                if not self.complete:
                    await ticket.settle_failed(usage, began=seen, counts=not arrived)
                ticket.release()
            if self.complete:
                return
            wait = None if seen else _wait(retries, error, arrived=arrived)
            if wait is None:
                raise error or MalformedReplyError("the stream ended without an end", provider=adapter.provider)
            await retries.timing.sleep_async(wait)

    def _new_decoder(self, received: list[bytes]) -> StreamDecoder:
        decoder = self._adapter.reply_decoder(self._new_context())
        decoder.listener = received.append
        decoder.skim()
        return decoder

    def _abandon(self, decoder: StreamDecoder) -> Usage | None:
        """Count and return what a reply used that nobody reads to its end."""
        for event in decoder.fail(RequestCancelledError("the caller left the stream")):
            if isinstance(event, ErrorEvent):
                return self._count(event.partial)
        return None


def _take(received: list[bytes]) -> bytes:
    """Return all bytes of the list, and empty it."""
    data = received[0] if len(received) == 1 else b"".join(received)
    received.clear()
    return data


def _have_content(events: Sequence[StreamEvent]) -> bool:
    """Whether any of the events is more than the opening of a reply."""
    return not all(isinstance(event, (MessageStart, UsageUpdate, ErrorEvent)) for event in events)


def _wait(retries: RetryState, error: Exception | None, *, arrived: bool) -> float | None:
    """Return the seconds until the next attempt; None if there is none."""
    if not isinstance(error, ProviderError):
        return None
    return retries.record_unusable(error) if arrived else retries.next_wait
