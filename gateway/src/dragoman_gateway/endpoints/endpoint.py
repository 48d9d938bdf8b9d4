"""The endpoint of one client wire: checks the caller, reads the request, and answers it."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from dragoman_gateway.access import ANYONE, Caller
from dragoman_gateway.access.page_rules import check_body_type
from dragoman_gateway.bodies import repeated
from dragoman_gateway.bodies.read import named_model, parse_object, parse_repeated, read_body, read_headers
from dragoman_gateway.endpoints.compaction import expand_compactions
from dragoman_gateway.errors import EndedError
from dragoman_gateway.running.deferred_store import SPENDER, spender_of
from dragoman_gateway.running.generation import Gateway, Generation
from dragoman_gateway.running.hops import mark_hop
from dragoman_gateway.running.metrics import PRESENT_REQUEST, RequestRecord, new_request_id
from dragoman_gateway.running.services import RequestServices, check_caller
from dragoman_gateway.running.shares import Share, name_holder, name_owner
from dragoman_gateway.server.logs import log_request
from dragoman_gateway.stored.turn import StoredTurn
from dragoman_gateway.turn.answer import answer_streamed, answer_whole
from dragoman_gateway.turn.errors import error_response
from dragoman_gateway.turn.replies import DisconnectWatcher, Response
from dragoman_gateway.turn.request import ClientRequest, RequestResources
from dragoman_gateway.turn.turn import Turn
from dragoman_gateway.wires import RESPONSES, Wire


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One HTTP request that is being answered, as ASGI passes it, and the means to answer it."""

    wire: Wire
    scope: Scope
    receive: Receive
    send: Send
    record: RequestRecord
    headers: dict[str, str]
    generation: Generation
    """The settings and clients with which the request began, whatever is reloaded. Old ones end with their last
    request."""
    gateway: Gateway
    caller: Caller = field(init=False)
    share: Share = field(init=False)
    """What the request holds of what its caller may have under way, as soon as the caller is known. Its `work` keeps
    work on a large body from delaying other requests."""
    closes_share: bool = field(default=False, init=False)
    """Whether the share ends with this exchange."""
    services: RequestServices = field(init=False)
    """The services for a request that was read."""

    @property
    def request_id(self) -> str:
        return self.record.request_id

    async def authenticate(self, *, any_type: bool = False, resumed: str | None = None) -> Caller:
        """Return the caller, whose share the request takes a part of. ``any_type``: whether the body may be a form.
        ``resumed``: the key of the earlier request that this one continues, if its client sends none.

        Raises AuthenticationError, UnavailableError if the key cannot be checked, what `Shares.enter` raises, and
        DeniedError or ContentTypeError if there are no keys, and the request could be that of a page of another site.
        """
        if self.generation.tracing is not None:
            self.generation.tracing.follow(self.headers)
        caller = self.caller = await self.generation.access.authenticate(self.headers, resumed)
        if caller.key_id is None:
            check_body_type(self.headers, untyped=self.wire.untyped_bodies, any_type=any_type)
        self.record.key_id = caller.key_id
        self.share = self.gateway.services.shares.enter(name_holder(caller, self.scope), self.generation.settings)
        self.closes_share = True
        return caller

    async def reply(self, response: Response) -> None:
        """Send the whole reply, and note its status."""
        self.record.status = response.status
        await response.send(self.send)


class Endpoint:
    """An ASGI application for the path of one wire."""

    is_billed: ClassVar[bool] = True
    """Whether a caller whose budget is used up is refused."""

    def __init__(self, gateway: Gateway, wire: Wire) -> None:
        self._gateway = gateway
        self._wire = wire

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = RequestRecord(self._wire.name, new_request_id())
        exchange: Exchange | None = None
        PRESENT_REQUEST.set(record.request_id)
        self._gateway.metrics.running.add(record)
        try:
            exchange = Exchange(
                wire=self._wire,
                scope=scope,
                receive=receive,
                send=send,
                record=record,
                headers=read_headers(scope),
                generation=self._gateway.enter(),
                gateway=self._gateway,
            )
            if exchange.generation.deferred_store is not None:
                await exchange.generation.deferred_store.wait_for_room()
            mark_hop(exchange.headers, self._gateway.mark)  # refuses a request that loops
            await self.respond(exchange)
        except ClientDisconnect:
            record.broken = True
        except asyncio.CancelledError:
            if not self._gateway.draining:
                raise
            # The drain is over: the server cancels what still runs. Its client gets an answer if nothing was sent.
            record.broken = True
            if not record.status:
                await self._fail(EndedError(), record, send)
        except Exception as error:
            await self._fail(error, record, send)
        finally:
            self._gateway.metrics.end(record)
            log_request(record)
            if exchange is not None:
                if exchange.closes_share:
                    exchange.share.close()
                await exchange.generation.leave()

    async def _fail(self, error: Exception, record: RequestRecord, send: Send) -> None:
        failed = error_response(self._wire, error, record.model, record.request_id)
        record.status = failed.status
        record.model = ""  # no deployment has answered, and the client may have made the name up
        record.error = type(error).__name__
        await failed.send(send)

    async def respond(self, exchange: Exchange) -> None:
        """Answer a request. Raises what its client gets as an error."""
        request, resources = await self.read(exchange)
        services = exchange.services
        make_turn = partial(Turn, request, resources)
        turn = await exchange.share.work(len(request.body), make_turn)
        # A request that names calls is read twice: the first reading notes which state it needs, the second one has it.
        if services.state is not None and await services.load_state(request.caller):
            turn = await exchange.share.work(len(request.body), make_turn)
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
        finally:  # also if the server cancels this task
            turn.note_end()

    async def _start(self, exchange: Exchange, stored: StoredTurn, turn: Turn) -> None:
        """Run the turn in the background, and answer with its response as it is now, or with its events. The run
        outlives this request: it has a record of its own, and takes over the share."""
        await turn.check()
        background = self._gateway.services.background
        generation = exchange.generation
        turn.request.record = record = RequestRecord(
            self._wire.name, exchange.request_id, key_id=exchange.record.key_id, model=turn.request.model
        )
        self._gateway.metrics.running.add(record)
        generation.in_flight += 1  # it counts until the run ends
        share = exchange.share
        exchange.closes_share = False

        async def run(receive: Receive, send: Send) -> None:
            try:
                await self._answer(exchange, turn, receive, exchange.services.recording(turn.request, send))
            finally:
                share.close()
                self._gateway.metrics.end(record)
                log_request(record)
                await generation.leave()

        try:
            response = await background.start(stored, run, exchange.services.judge(turn.request))
        except BaseException:
            generation.in_flight -= 1  # it cannot be the last one: this request is in flight, too
            share.close()
            self._gateway.metrics.running.discard(record)
            raise
        exchange.record.status = 200
        headers = {"x-dragoman-request-id": exchange.request_id}
        reply: JSONResponse | StreamingResponse
        if stored.streamed:
            headers["cache-control"] = "no-cache"
            reply = StreamingResponse(background.follow(response), media_type="text/event-stream", headers=headers)
        else:
            reply = JSONResponse(response.response, headers=headers)
        with DisconnectWatcher(exchange.receive):
            try:
                await reply(exchange.scope, exchange.receive, exchange.send)
            except asyncio.CancelledError:
                exchange.record.broken = True
                raise

    async def read(self, exchange: Exchange) -> tuple[ClientRequest, RequestResources]:
        """Return the request, and the resources to answer it. Raises what its client gets as an error."""
        record, headers, generation = exchange.record, exchange.headers, exchange.generation
        caller = await exchange.authenticate()
        if caller is not ANYONE:  # what can be checked before the body is read
            check_caller(caller, self._wire.name)
            if self.is_billed:
                await generation.access.check(caller, generation.prices)
        body = await read_body(exchange.receive, headers, generation.settings, exchange.share)
        request = await exchange.share.work(len(body), partial(self._parse, exchange, body))
        record.model = generation.known_name(request.model)
        if generation.deferred_store is not None:
            SPENDER.set(spender_of(caller.key_id, headers.get("x-dragoman-tag", "")))
        resources = await generation.resources_for(request.requested_model or request.model, caller)
        if self._wire is RESPONSES:
            request = expand_compactions(request, resources.state_sealer)
        exchange.services = services = RequestServices(self._gateway.services, generation.client, exchange.share)
        request = await services.prepare(request)
        resources.state_store, resources.labels = services.state, self._gateway.services.labels
        return request, resources

    def _parse(self, exchange: Exchange, body: bytes) -> ClientRequest:
        headers, scope, caller = exchange.headers, exchange.scope, exchange.caller
        typed = {} if self._wire.untyped_bodies else headers  # without headers, the content type is not checked
        kept = None
        if len(body) < repeated.SMALLEST:
            fields = parse_object(body, typed)
        else:  # an agent sends its tools and messages again each time: only what is new is parsed
            fields, kept = parse_repeated(body, typed, exchange.generation.repeated, name_owner(caller, scope))
        return self.read_request(
            scope,
            fields,
            headers=headers,
            body=body,
            kept=kept,
            caller=caller,
            request_id=exchange.record.request_id,
            record=exchange.record,
        )

    def read_request(self, scope: Scope, fields: dict[str, Any], **known: Any) -> ClientRequest:
        """Return the request as its wire writes it: ``known`` and the fields of its body. Raises ClientError if they
        are not those of a request."""
        model, stream = named_model(fields), fields.get("stream") is True
        return ClientRequest(wire=self._wire, model=model, stream=stream, fields=fields, **known)
