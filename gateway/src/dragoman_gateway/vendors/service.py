"""An endpoint that answers with one JSON object, and holds no conversation."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_core import to_json

from dragoman_gateway.access.wire_fields import check_spelling
from dragoman_gateway.bodies.read import parse_object, read_body
from dragoman_gateway.endpoints.endpoint import Endpoint, Exchange
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.running.services import check_caller
from dragoman_gateway.turn.replies import DisconnectWatcher, json_response, losses_header
from dragoman_gateway.wires import Wire

Answer = Callable[[Exchange, dict[str, Any]], Awaitable[Any]]
"""Answers a request with these fields; none if it has no body."""


class Service(Endpoint):
    """Checks the caller, reads the request, and sends what ``answer`` returns as JSON.

    ``any_type``: the content type of the request does not matter, because the vendor's own server reads none.
    ``endpoint``: its name for a key's rights, if it asks a model.
    """

    def __init__(
        self, gateway: Gateway, wire: Wire, answer: Answer, *, any_type: bool = False, endpoint: str | None = None
    ) -> None:
        super().__init__(gateway, wire)
        self._answer_call = answer
        self._any_type = any_type
        self._endpoint = endpoint

    async def respond(self, exchange: Exchange) -> None:
        caller, scope = await exchange.authenticate(), exchange.scope
        fields: dict[str, Any] = {}
        if self._endpoint is not None:
            check_caller(caller, self._endpoint)
            await exchange.generation.access.check(caller, exchange.generation.prices)
        if scope["method"] == "POST":
            body = await read_body(exchange.receive, exchange.headers, exchange.generation.settings, exchange.share)
            headers = {} if self._any_type else exchange.headers
            fields = await exchange.share.work(len(body), lambda: parse_object(body, headers))
            if caller.key_id is not None:
                check_spelling(fields, self._wire.name)
        with DisconnectWatcher(exchange.receive) as departure:
            try:
                answer = to_json(await self._answer_call(exchange, fields))
            except asyncio.CancelledError:
                exchange.record.broken = True
                raise
        if not departure.seen:
            lost = losses_header(exchange.record.losses)
            await exchange.reply(json_response(self._wire, exchange.request_id, answer, lost))
