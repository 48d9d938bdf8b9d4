"""The endpoint of one client wire: checks the caller, reads the request, and answers it."""

import asyncio
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from dragoman_gateway.access import Caller
from dragoman_gateway.bodies import repeated
from dragoman_gateway.bodies.read import check_model, parse_object, parse_repeated, read_body
from dragoman_gateway.endpoints.compaction import expand_compactions
from dragoman_gateway.endpoints.exchange import Exchange
from dragoman_gateway.errors import EndedError
from dragoman_gateway.ids import PRESENT_REQUEST, new_request_id
from dragoman_gateway.running.deferred_store import SPENDER, spender_of
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.running.hops import mark_hop
from dragoman_gateway.running.metrics import RequestRecord
from dragoman_gateway.running.services import RequestServices, check_caller
from dragoman_gateway.running.shares import name_owner
from dragoman_gateway.stored.turn import StoredTurn
from dragoman_gateway.turn.answer import answer_streamed, answer_whole
from dragoman_gateway.turn.errors import error_response
from dragoman_gateway.turn.replies import DisconnectWatcher
from dragoman_gateway.turn.request import ClientRequest, RequestResources
from dragoman_gateway.turn.turn import Turn
from dragoman_gateway.wires import Wire


class Endpoint:
    """An ASGI application for the path of one wire."""

    def __init__(self, gateway: Gateway, wire: Wire) -> None:
        self._gateway = gateway
        self._wire = wire

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = new_request_id()
        PRESENT_REQUEST.set(request_id)
        record, generation = RequestRecord(self._wire.name, request_id), None
        services = RequestServices(self._gateway.services)
        self._gateway.activity.running.add(record)
        try:
            generation = self._gateway.enter()
            if generation.deferred_store is not None:
                await generation.deferred_store.wait_for_room()
            exchange = Exchange(
                wire=self._wire,
                scope=scope,
                receive=receive,
                send=send,
                record=record,
                generation=generation,
                services=services,
            )
            mark_hop(exchange.headers, self._gateway.mark)
            await self.respond(exchange)
        except ClientDisconnect:
            record.broken = True
        except asyncio.CancelledError:
            if not self._gateway.draining:
                raise
            record.broken = True
            if not record.status:  # the drain is over, and nothing was sent
                await self._fail(EndedError(), record, send)
        except Exception as error:
            await self._fail(error, record, send)
        finally:
            self._gateway.finish(record)
            services.close()
            if generation is not None:
                await generation.leave()

    async def _fail(self, error: Exception, record: RequestRecord, send: Send) -> None:
        failed = error_response(self._wire, error, record.model, record.request_id)
        record.status, record.model, record.error = failed.status, "", type(error).__name__
        await failed.send(send)

    async def respond(self, exchange: Exchange) -> None:
        """Answer a request. Raises what its client gets as an error."""
        services = exchange.services
        request, resources = await self.read(exchange)
        turn = await exchange.share.work(len(request.body), partial(Turn, request, resources))
        if services.state is not None and await services.load_state(request.caller):
            turn = await exchange.share.work(len(request.body), partial(Turn, request, resources))
        if services.stored is not None and services.stored.background:
            await self._start(exchange, services.stored, turn)
            return
        await self._answer(exchange, turn, exchange.receive, services.recording(turn.request, exchange.send))

    async def _answer(self, exchange: Exchange, turn: Turn, receive: Receive, send: Send) -> None:
        try:
            if turn.request.stream:
                turn.request.record.stream = True
                await answer_streamed(turn, exchange.generation.settings, receive, send)
            elif (response := await answer_whole(turn, receive)) is not None:
                await response.send(send)
        finally:  # the server may cut it off
            turn.note_end()

    async def _start(self, exchange: Exchange, stored: StoredTurn, turn: Turn) -> None:
        """Run the turn in the background, and answer with its response as it is now, or with its events."""
        await turn.check()
        background, generation = self._gateway.services.background, exchange.generation
        turn.request.record = RequestRecord(self._wire.name, exchange.request_id)
        turn.request.record.key_id = exchange.record.key_id
        turn.request.record.model = turn.request.model
        self._gateway.activity.running.add(turn.request.record)
        generation.in_flight += 1  # it counts until the run ends
        share = exchange.services.hand_over()

        async def run(receive: Receive, send: Send) -> None:
            try:
                await self._answer(exchange, turn, receive, exchange.services.recording(turn.request, send))
            finally:
                share.close()
                self._gateway.finish(turn.request.record)
                await generation.leave()

        try:
            response = await background.start(stored, run, exchange.services.judge(turn.request))
        except BaseException:
            generation.in_flight -= 1
            share.close()
            self._gateway.activity.running.discard(turn.request.record)
            raise
        exchange.record.status = 200
        head = {"x-dragoman-request-id": exchange.request_id}
        reply: Response = JSONResponse(response.response, headers=head)
        if stored.streamed:
            head["cache-control"] = "no-cache"
            reply = StreamingResponse(background.follow(response), media_type="text/event-stream", headers=head)
        departure = DisconnectWatcher(exchange.receive)
        try:
            await reply(exchange.scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            if not departure.seen:
                raise
            exchange.record.broken = True
        finally:
            departure.stop()

    async def read(self, exchange: Exchange) -> tuple[ClientRequest, RequestResources]:
        """Return the request, and what it is asked with. Raises what its client gets as an error."""
        record, headers = exchange.record, exchange.headers
        caller = await exchange.authenticate()
        await self.admit(exchange, caller)
        body = await read_body(exchange.receive, headers, exchange.generation.settings, exchange.share)
        request = await exchange.share.work(len(body), partial(self._parse, exchange, caller, body))
        record.model = exchange.generation.known_name(request.model)
        SPENDER.set(spender_of(caller.key_id, headers.get("x-dragoman-tag", "")))
        resources = await exchange.generation.resources_for(request.requested_model, caller)
        request = await exchange.services.prepare(expand_compactions(request, resources.state_sealer))
        exchange.services.client = exchange.generation.client
        resources.state_store, resources.labels = exchange.services.state, exchange.services.labels
        return request, resources

    async def admit(self, exchange: Exchange, caller: Caller) -> None:
        """Check all that can be checked before the body is read. Raises PermissionDeniedError, and what the access
        raises if nothing is left for any request.
        """
        check_caller(caller, self._wire.name)
        await exchange.generation.access.check(caller, exchange.generation.prices)

    def _parse(self, exchange: Exchange, caller: Caller, body: bytes) -> ClientRequest:
        headers, scope, kept = exchange.headers, exchange.scope, None
        typed = {} if self._wire.untyped_bodies else headers
        if len(body) < repeated.SMALLEST:
            fields = parse_object(body, typed)
        else:
            fields, kept = parse_repeated(body, typed, exchange.generation.repeated, name_owner(caller, scope))
        return self.read_request(
            scope,
            fields,
            headers=headers,
            body=body,
            kept=kept,
            caller=caller,
            request_id=exchange.request_id,
            record=exchange.record,
        )

    def read_request(self, scope: Scope, fields: dict[str, Any], **known: Any) -> ClientRequest:
        """Return the request as its wire writes it: ``known`` and the fields of its body. Raises ClientError if they
        are not those of a request."""
        return ClientRequest(wire=self._wire, fields=check_model(fields), **known)
