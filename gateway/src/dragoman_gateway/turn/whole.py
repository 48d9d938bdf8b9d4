"""Asks for a whole reply."""

import asyncio

from starlette.types import Receive

from dragoman_gateway.turn.errors import encoded_headers, error_response
from dragoman_gateway.turn.replies import DisconnectWatcher, Response, reply_head
from dragoman_gateway.turn.turn import Turn

_WATCH_AFTER = 0.05
"""Seconds. Most replies of test servers are faster than a watch is worth; no model is."""
_JSON = (b"content-type", b"application/json")


async def ask_watched(turn: Turn, receive: Receive) -> Response | None:
    """Return the whole reply, or an error; None if the client has left, which cancels the request to the provider."""
    departure = DisconnectWatcher(receive)
    departure.watch(_WATCH_AFTER)
    request = turn.request
    try:
        response = await ask_whole(turn)
    except asyncio.CancelledError:
        request.record.broken = True
        if not departure.seen:
            raise
        return None
    except Exception as error:
        request.record.error = type(error).__name__
        response = error_response(request.wire, error, request.model, request.request_id)
    finally:
        departure.stop()
    request.record.status = response.status
    return response


async def ask_whole(turn: Turn) -> Response:
    """Return the whole reply of the first deployment that has one. Raises the error of the last one."""
    while True:
        turn.forget_history()
        try:
            written = await turn.way.ask()
            head = reply_head(turn.request, turn.way)
        except Exception as error:
            if not turn.go_on(error):
                raise
        else:
            turn.succeed()
            own = [_JSON] if turn.way.passes else encoded_headers(written, head)
            return Response(written.status, [*head, *own], written.body)
