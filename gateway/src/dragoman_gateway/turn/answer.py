"""Asks a model for a client, and answers in the client's wire: whole, or as a stream."""

import asyncio
from collections import Counter

from starlette.types import Receive, Send

from dragoman import Loss
from dragoman.errors import TurnLimitError
from dragoman.events import MessageComplete
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.turn.errors import error_response, to_known
from dragoman_gateway.turn.replies import Departure, Headers, Response, StreamBody
from dragoman_gateway.turn.request import Turn

_WATCH_AFTER = 0.05


async def answer_whole(turn: Turn, receive: Receive, send: Send) -> None:
    """Send the whole reply. A client that leaves cancels the request to the provider."""
    departure = Departure(receive)
    departure.watch(_WATCH_AFTER)
    try:
        response = await _ask(turn)
    except asyncio.CancelledError:
        if not departure.seen:
            raise
        return
    finally:
        departure.stop()
    await response.send(send)


async def _ask(turn: Turn) -> Response:
    request = turn.request
    base = base_headers(turn)
    try:
        try:
            reply = await turn.session.ask(turn.prompt)
            message, asked = reply.message, reply.losses
        except TurnLimitError:  # the provider pauses, and the client goes on
            message, asked = turn.session.messages[-1], ()
        turn.answered(message)
        written = turn.adapter.to_wire_response(message, turn.context)
    except Exception as error:
        return error_response(request.wire, error, request.model, base)
    headers = [(name.encode(), value.encode()) for name, value in written.headers.items()]
    return Response(written.status, [*base, *losses_header(turn.losses(asked)), *headers], written.body)


async def answer_streamed(turn: Turn, settings: GatewaySettings, receive: Receive, send: Send) -> None:
    """Send the reply as a stream. After an error in the stream, the connection is broken off: some clients take any
    orderly end for success."""
    request = turn.request
    base = base_headers(turn)
    stream = turn.session.stream(turn.prompt)
    encoder = turn.adapter.reply_encoder(turn.context)

    def headers() -> Headers:
        kind = [(b"content-type", f"{encoder.media_type}; charset=utf-8".encode()), (b"cache-control", b"no-cache")]
        return [*base, *losses_header(turn.losses(stream.losses)), *kind]

    body = StreamBody(
        send,
        headers,
        ping=request.wire.ping,
        first_seconds=settings.first_event_seconds,
        ping_seconds=settings.ping_seconds,
    )
    departure = Departure(receive)
    departure.watch()
    began = False
    try:
        async with stream:
            async for event in stream:
                if not began:
                    began = True
                    turn.answered(None)
                    encoder = turn.adapter.reply_encoder(turn.context)
                if data := encoder.feed(event):  # type: ignore[arg-type]  # the client runs its tools
                    await body.write(data)
                if isinstance(event, MessageComplete):
                    break
        if not encoder.done:
            await body.write(encoder.finish())
            return
        await body.end()
    except asyncio.CancelledError:
        if not departure.seen:
            raise
    except Exception as error:
        if body.started:
            await body.write(encoder.fail(to_known(error)))
        else:
            body.stop()
            await error_response(request.wire, error, request.model, base).send(send)
    finally:
        body.stop()
        departure.stop()


def base_headers(turn: Turn) -> Headers:
    """Return the headers of every reply to this request."""
    request = turn.request
    return [(request.wire.request_id_header.encode(), request.request_id.encode())]


def losses_header(losses: tuple[Loss, ...]) -> Headers:
    """Return the header with the number of losses and their kinds; nothing if there are none."""
    if not losses:
        return []
    kinds = Counter(loss.kind.value for loss in losses)
    listed = ", ".join(f"{kind}={count}" for kind, count in sorted(kinds.items()))
    return [(b"x-dragoman-losses", f"{len(losses)}; {listed}".encode())]
