"""The endpoint of one client wire: checks the caller, reads the request, and answers it."""

import asyncio
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from dragoman_gateway.ids import new_request_id
from dragoman_gateway.turn.body import parse_body, read_body
from dragoman_gateway.turn.errors import error_response
from dragoman_gateway.turn.heads import named
from dragoman_gateway.turn.request import ClientRequest, Turn
from dragoman_gateway.turn.streamed import answer_streamed
from dragoman_gateway.turn.whole import answer_whole
from dragoman_gateway.wires import Wire

if TYPE_CHECKING:
    from dragoman_gateway.app import Gateway


class Endpoint:
    """An ASGI application for the path of one wire."""

    def __init__(self, gateway: "Gateway", wire: Wire) -> None:
        self._gateway = gateway
        self._wire = wire

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = new_request_id()
        model = ""
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            caller = await self._gateway.access.authenticate(headers)
            body = await read_body(receive, headers, self._gateway.settings.body_cap)
            fields = parse_body(body, headers)
            model = fields["model"]
            turn = Turn(
                ClientRequest(
                    wire=self._wire,
                    caller=caller,
                    request_id=request_id,
                    headers=headers,
                    body=body,
                    fields=fields,
                    target=self._gateway.models.resolve(model, caller),
                ),
                await self._gateway.client_for(caller),
            )
        except (ClientDisconnect, asyncio.CancelledError):
            raise
        except Exception as error:
            await error_response(self._wire, error, model, named(self._wire, request_id)).send(send)
            return
        if turn.request.stream:
            await answer_streamed(turn, self._gateway.settings, receive, send)
        else:
            await answer_whole(turn, receive, send)
