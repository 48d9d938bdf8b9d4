"""An endpoint that answers with one JSON object, and holds no conversation."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json
from starlette.datastructures import QueryParams

from dragoman_gateway.access import Caller
from dragoman_gateway.endpoints.endpoint import Endpoint
from dragoman_gateway.endpoints.exchange import Exchange
from dragoman_gateway.running.generation import Gateway, Generation
from dragoman_gateway.running.metrics import RequestRecord
from dragoman_gateway.running.services import check_caller
from dragoman_gateway.turn.body import parse_object
from dragoman_gateway.turn.heads import losses_header, named
from dragoman_gateway.turn.means import Means
from dragoman_gateway.turn.replies import Departure, Response
from dragoman_gateway.wires import Wire

_JSON = (b"content-type", b"application/json")


@dataclass(slots=True, kw_only=True)
class Call:
    """One request to a service."""

    gateway: Gateway
    generation: Generation
    caller: Caller
    record: RequestRecord
    address: Mapping[str, str]
    """What the path names."""
    query: Mapping[str, str]
    fields: dict[str, Any] = field(repr=False)
    """The body; empty if the request has none."""

    async def means_for(self, name: str, endpoint: str) -> Means:
        """Return what to ask the model with. Raises NotFoundError, and PermissionDeniedError for a model or an endpoint
        that the caller may not use."""
        check_caller(self.caller, endpoint)
        return await self.generation.means_for(name, self.caller)


Answer = Callable[[Call], Awaitable[Any]]


class Service(Endpoint):
    """Checks the caller, reads the request, and sends what ``answer`` returns as JSON.

    ``any_type``: the content type of the request does not matter, because the vendor's own server reads none.
    """

    def __init__(self, gateway: Gateway, wire: Wire, answer: Answer, *, any_type: bool = False) -> None:
        super().__init__(gateway, wire)
        self._answer_call = answer
        self._any_type = any_type

    async def respond(self, exchange: Exchange) -> None:
        call = await self._read_call(exchange)
        record, departure = exchange.record, Departure(exchange.receive)
        departure.watch()
        try:
            body = to_json(await self._answer_call(call))
        except asyncio.CancelledError:
            record.broken = True
            if not departure.seen:
                raise
            return
        finally:
            departure.stop()
        head = [*named(self._wire, exchange.request_id), *losses_header(record.losses), _JSON]
        await exchange.reply(Response(200, head, body))

    async def _read_call(self, exchange: Exchange) -> Call:
        caller, scope = await exchange.authenticate(), exchange.scope
        fields: dict[str, Any] = {}
        if scope["method"] == "POST":
            body = await exchange.read_body()
            fields = parse_object(body, {} if self._any_type else exchange.headers)
        return Call(
            gateway=self._gateway,
            generation=exchange.generation,
            caller=caller,
            record=exchange.record,
            address=scope["path_params"],
            query=QueryParams(scope["query_string"]),
            fields=fields,
        )
