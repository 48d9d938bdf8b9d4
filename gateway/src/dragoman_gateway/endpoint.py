"""The endpoint of one client wire: checks the caller, reads the request, and answers it."""

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from dragoman_gateway.generation import Gateway, Generation
from dragoman_gateway.ids import new_request_id
from dragoman_gateway.metrics import RequestRecord
from dragoman_gateway.turn.body import parse_body, read_body
from dragoman_gateway.turn.errors import error_response
from dragoman_gateway.turn.heads import named
from dragoman_gateway.turn.request import ClientRequest, Turn
from dragoman_gateway.turn.streamed import answer_streamed
from dragoman_gateway.turn.whole import answer_whole
from dragoman_gateway.wires import Wire


class Endpoint:
    """An ASGI application for the path of one wire."""

    def __init__(self, gateway: Gateway, wire: Wire) -> None:
        self._gateway = gateway
        self._wire = wire

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record, generation = RequestRecord(self._wire.name), None
        request_id = new_request_id()
        try:
            generation = self._gateway.enter()
            turn = await self._read(generation, scope, receive, record, request_id)
            if turn.request.stream:
                record.stream = True
                await answer_streamed(turn, generation.settings, receive, send)
            else:
                await answer_whole(turn, receive, send)
            turn.note_end()
        except ClientDisconnect:
            record.broken = True
        except asyncio.CancelledError:
            raise
        except Exception as error:
            response = error_response(self._wire, error, record.model, named(self._wire, request_id))
            record.status, record.model = response.status, ""
            await response.send(send)
        finally:
            self._gateway.metrics.count(record)
            if generation is not None:
                await generation.leave()

    async def _read(
        self, generation: Generation, scope: Scope, receive: Receive, record: RequestRecord, request_id: str
    ) -> Turn:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        caller = await generation.access.authenticate(headers)
        body = await read_body(receive, headers, generation.settings)
        fields = parse_body(body, headers)
        record.model = fields["model"]
        request = ClientRequest(
            wire=self._wire,
            caller=caller,
            request_id=request_id,
            headers=headers,
            body=body,
            fields=fields,
            target=generation.models.resolve(fields["model"], caller),
            record=record,
        )
        return Turn(request, await generation.client_for(caller))
