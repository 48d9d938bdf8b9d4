"""Answers a request with a stream.

After an error in the stream, the connection is broken off: some clients take any orderly end for success.
"""

import asyncio
import time
from contextlib import aclosing, suppress
from typing import Any

from starlette.types import Receive, Send

from dragoman import AsyncReplyStream
from dragoman.answers import PassThrough
from dragoman.errors import (
    MalformedReplyError,
    NetworkError,
    ProviderError,
    RequestTimeoutError,
    StreamTruncatedError,
    TurnLimitError,
)
from dragoman.events import MessageComplete, ToolUseStart
from dragoman_gateway.errors import EndedError
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.turn.errors import as_provider_error, error_response, to_known
from dragoman_gateway.turn.frames import WholeFrames
from dragoman_gateway.turn.heads import reply_head
from dragoman_gateway.turn.replies import Departure, Headers, StreamBody
from dragoman_gateway.turn.turn import Turn
from dragoman_gateway.turn.usage_chunk import hide_usage

_UNSAID = (NetworkError, StreamTruncatedError, RequestTimeoutError, MalformedReplyError)
"""Errors that the provider's own bytes do not say."""
_LAST_WORD_SECONDS = 1.0
"""How long the error of a reply that the server's end cuts off may take to be sent."""
_UNCACHED = (b"cache-control", b"no-cache")


async def answer_streamed(turn: Turn, settings: GatewaySettings, receive: Receive, send: Send) -> None:
    """Send the reply as a stream. A client that leaves cancels the request to the provider."""
    departure = Departure(receive)
    departure.watch()
    answer = _Answer(turn, settings, send, departure)
    record = turn.request.record
    try:
        await answer.ask_places()
    except asyncio.CancelledError:
        record.broken = True
        if not (departure.seen or answer.body.unread):  # the server ends
            await answer.cut_off()
            raise
    except Exception as error:
        await answer.fail(error)
    finally:
        answer.body.stop()
        departure.stop()


class _Answer:
    """One stream: events of the session in, bytes of the wire out."""

    __slots__ = ("_begun", "_departure", "_encoder", "_frames", "_send", "_stream", "_turn", "body")

    def __init__(self, turn: Turn, settings: GatewaySettings, send: Send, departure: Departure) -> None:
        self._turn = turn
        self._departure = departure
        self._send = send
        self._frames = WholeFrames(turn.request.wire.event_ends)
        self._stream: AsyncReplyStream[str] | None = None
        self._encoder: Any = None
        self._begun = False
        """Whether the first event of a reply has arrived."""
        self.body = StreamBody(send, self._headers, turn.request.wire, settings)

    async def ask_places(self) -> None:
        """Answer from the first place that begins a reply."""
        while True:
            through = self._turn.through
            try:
                await (self._answer() if through is None else self._pass_through(through))
            except Exception as error:
                if self._begun or not self._turn.go_on(error):
                    raise
            else:
                self._turn.succeed()
                return

    async def _answer(self) -> None:
        turn, write, encode, passes = self._turn, self.body.write, None, False
        complete = False
        held: list[Any] = []  # calls, until the policy has judged them
        self._stream = turn.session.stream(turn.prompt)
        async with self._stream as stream:
            async for events in stream.batches():
                if not events:
                    continue
                if not self._begun:
                    self._note_begin()
                    passes = turn.passes_reply
                    encode = None if passes else self._begin().feed
                if complete := isinstance(events[-1], MessageComplete):
                    self.body.expect_last()
                if encode is None:  # the bytes go through
                    data = self._frames.feed(turn.relay.take())
                    if turn.hides_usage:
                        data = hide_usage(data)
                elif turn.judges_calls and (held or any(isinstance(event, ToolUseStart) for event in events)):
                    held += events
                    data = b""
                else:
                    data = encode(events[0]) if len(events) == 1 else b"".join(map(encode, events))
                if data:
                    await write(data)
                if complete:
                    break
            if held and complete:
                await _end_turn(stream)
        if not complete:
            raise StreamTruncatedError("the reply ended without a message")
        if held:
            await write(b"".join(map(self._begin().feed, held)))
        turn.request.record.status = 200
        await self.body.end(self._frames.finish() if passes else b"")

    async def _pass_through(self, through: PassThrough) -> None:
        self._turn.forget_history()
        async with aclosing(through.stream()) as chunks:
            async for data in chunks:
                if not self._begun:
                    self._note_begin()
                    self._turn.request.forget_history()
                await self._pass_on(data, ends=through.complete)
                del data  # a stream that pauses holds none

    async def _pass_on(self, data: bytes, *, ends: bool) -> None:
        frames = self._frames.feed(data)
        if self._turn.hides_usage:
            frames = hide_usage(frames)
        if ends:
            self._turn.request.record.status = 200
            self.body.expect_last()
            self._departure.stop()  # the client may leave, and the provider's connection is used again
            await self.body.end(frames + self._frames.finish())
        elif frames:
            await self.body.write(frames)

    def _note_begin(self) -> None:
        self._begun = True
        self._turn.request.record.first_at = time.perf_counter()

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
        self.body.expect_last()
        request.record.status, request.record.broken = 200, True
        known, written = to_known(error), b""
        if self._turn.passes_reply and self._turn.through is None:
            written = self._frames.feed(self._turn.relay.take())
        if not self._turn.passes_reply or isinstance(known, _UNSAID) or not isinstance(known, ProviderError):
            written += self._begin().fail(as_provider_error(known))
        if written:
            await self.body.write(written)

    def _begin(self) -> Any:
        """Return the encoder, made when the model is known."""
        if self._encoder is None:
            self._turn.begin_reply()
            self._encoder = self._turn.adapter.reply_encoder(self._turn.context)
        return self._encoder

    def _headers(self) -> Headers:
        asked = () if self._stream is None else self._stream.losses
        losses = () if self._turn.passes_reply else self._turn.losses(asked)
        self._turn.request.record.losses = losses
        return [*reply_head(self._turn, losses), (b"content-type", self._turn.request.wire.media_type), _UNCACHED]


async def _end_turn(stream: AsyncReplyStream[str]) -> None:
    """Go on to the end of the turn, where the policy judges the calls. Raises PolicyDeniedError."""
    try:
        async for _ in stream.batches():
            pass
    except TurnLimitError:  # the client answers the calls
        return
