"""Answers a request, with a whole reply or with a stream.

After an error in a stream, the connection is broken off: some clients take any orderly end for success.
"""

import asyncio
import time
from contextlib import aclosing, suppress

from starlette.types import Receive, Send

from dragoman import WireResponse
from dragoman.errors import (
    DragomanError,
    MalformedReplyError,
    NetworkError,
    ProviderError,
    RequestTimeoutError,
    StreamTruncatedError,
)
from dragoman_gateway.errors import EndedError
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.turn.errors import as_provider_error, encoded_headers, error_response, to_known
from dragoman_gateway.turn.replies import (
    REQUEST_ID,
    DisconnectWatcher,
    Headers,
    Response,
    StreamBody,
    WholeFrames,
    losses_header,
    named,
)
from dragoman_gateway.turn.turn import Turn
from dragoman_gateway.turn.usage_chunk import hide_usage

_UNSAID = (NetworkError, StreamTruncatedError, RequestTimeoutError, MalformedReplyError)
"""Errors that the provider's own bytes do not say."""
_LAST_WORD_SECONDS = 1.0
"""How long the error of a reply that the server's end cuts off may take to be sent."""
_WATCH_AFTER = 0.05
"""Seconds. Most whole replies of test servers are faster than a watch is worth; no model is."""
_JSON = (b"content-type", b"application/json")
_UNCACHED = (b"cache-control", b"no-cache")
_MAX_REST = 64 * 1024
"""Bytes. More of one event is passed on before its end."""


async def answer_whole(turn: Turn, receive: Receive) -> Response | None:
    """Return the whole reply, or an error; None if the client has left, which cancels the request to the provider."""
    request = turn.request
    with DisconnectWatcher(receive, _WATCH_AFTER):
        try:
            response = whole_response(turn, await turn.ask())
        except asyncio.CancelledError:
            request.record.broken = True
            raise
        except Exception as error:
            request.record.error = type(error).__name__
            response = error_response(request.wire, error, request.model, request.request_id)
        request.record.status = response.status
        return response
    return None


def whole_response(turn: Turn, written: WireResponse) -> Response:
    """Return a whole reply with the headers that a client gets."""
    head = _reply_head(turn)
    own = [_JSON] if turn.way.passes else encoded_headers(written, head)
    return Response(written.status, [*head, *own], written.body)


def _reply_head(turn: Turn) -> Headers:
    """Return the headers of a reply: the provider's own if it has the client's wire, ids, and the losses."""
    request, way = turn.request, turn.way
    losses = () if way.passes else (*turn.read.context.losses, *way.losses)
    request.record.losses = losses
    lost = losses_header(losses) if losses else []
    if not way.relays:
        return [*named(request.wire, request.request_id), *lost]
    return [*request.wire.headers.to_client(way.headers), (REQUEST_ID, request.request_id.encode()), *lost]


async def answer_streamed(turn: Turn, settings: GatewaySettings, receive: Receive, send: Send) -> None:
    """Send the reply as a stream. A client that leaves cancels the request to the provider."""
    with DisconnectWatcher(receive) as departure:
        answer = _Answer(turn, settings, send, departure)
        try:
            await answer.ask_deployments()
        except asyncio.CancelledError:
            turn.request.record.broken = True
            if not (departure.seen or answer.body.unread):  # the server ends
                await answer.cut_off()
                raise
        except Exception as error:
            await answer.fail(error)
        finally:
            answer.body.stop()


class _Answer:
    """One stream: the bytes of a way in, whole events and signs of life out."""

    __slots__ = ("_begun", "_departure", "_frames", "_send", "_turn", "body")

    def __init__(self, turn: Turn, settings: GatewaySettings, send: Send, departure: DisconnectWatcher) -> None:
        self._turn = turn
        self._departure = departure
        self._send = send
        self._frames = WholeFrames(turn.request.wire.event_ends, _MAX_REST)
        self._begun = False
        """Whether a reply has begun."""
        self.body = StreamBody(send, self._headers, turn.request.wire, settings)

    async def ask_deployments(self) -> None:
        """Answer from the first deployment that begins a reply."""
        while True:
            try:
                await self._answer(self._turn)
            except Exception as error:
                if self._begun or not self._turn.go_on(error):
                    raise
            else:
                self._turn.succeed()
                return

    async def _answer(self, turn: Turn) -> None:
        way = turn.way
        turn.forget_history()
        async with aclosing(way.stream()) as chunks:
            async for data in chunks:
                if not self._begun:
                    self._begun = True
                    turn.request.record.first_at = time.perf_counter()
                    if not way.keeps_request:
                        turn.request.forget_history()
                if way.passes:
                    data = self._frames.feed(data)
                    if way.hides_usage:
                        data = hide_usage(data)
                if way.complete:
                    turn.request.record.status = 200
                    self.body.quiet = True
                    self._departure.stop()  # the client may leave, and the provider's connection is used again
                    await self.body.end(data + self._frames.finish())
                elif data:
                    await self.body.write(data)
                del data  # a stream that pauses holds none
        if not way.complete:
            raise StreamTruncatedError("the reply ended without a message")

    async def cut_off(self) -> None:
        """Say in a stream that has begun that its rest does not come. A client that reads slowly does not hear it."""
        if self.body.started and not self.body.quiet:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORD_SECONDS):
                    await self.fail(EndedError())
        self._turn.request.record.status = 200 if self.body.started else 0

    async def fail(self, error: Exception) -> None:
        """Say the error in the wire: as a status if nothing was sent, else in the stream."""
        request = self._turn.request
        request.record.error = type(error).__name__
        if not self.body.started:
            self.body.stop()
            response = error_response(request.wire, error, request.model, request.request_id)
            request.record.status = response.status
            await response.send(self._send)
            return
        self.body.quiet = True
        request.record.status, request.record.broken = 200, True
        known = to_known(error)
        if not self._was_said(known):
            await self.body.write(self._turn.read.encoder.fail(as_provider_error(known)))

    def _was_said(self, error: DragomanError) -> bool:
        """Whether the client has the error in the provider's own bytes. A refusal by status, and an error before any
        content, which another attempt or deployment might have mended, are in none that were passed on."""
        passed = self._begun and self._turn.way.passes and not self._frames.finish()
        return passed and isinstance(error, ProviderError) and not isinstance(error, _UNSAID)

    def _headers(self) -> Headers:
        media_type = self._turn.request.wire.media_type
        return [*_reply_head(self._turn), (b"content-type", media_type), _UNCACHED]
