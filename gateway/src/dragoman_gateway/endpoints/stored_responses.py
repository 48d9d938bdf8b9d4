"""The paths under `/v1/responses`: read, cancel and delete stored responses, and list their input."""

import json
import re
from collections.abc import Awaitable, Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Message, Receive, Scope, Send

from dragoman.errors import NotFoundError
from dragoman_gateway.bodies.read import read_headers
from dragoman_gateway.database import DatabaseUnavailableError
from dragoman_gateway.endpoints.pages import error_page
from dragoman_gateway.errors import overloaded
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.running.services import Services, check_caller
from dragoman_gateway.running.shares import name_holder, name_owner
from dragoman_gateway.stored.records import StoredResponse, is_id, with_own_ids
from dragoman_gateway.stored.turn import PROVIDER, invalid
from dragoman_gateway.turn.replies import DisconnectWatcher
from dragoman_gateway.wires import RESPONSES

_MAX_PAGE = 100
_PAGE = 20
_PIECE = 256 * 1024
"""Bytes of a body that are sent at once."""
_NO_WEBSOCKET = {
    "message": "this gateway has no websockets: send POST /v1/responses",
    "type": "invalid_request_error",
    "param": None,
    "code": None,
}


Work = Callable[[Services, Request, StoredResponse], Awaitable[Response]]


def routes(gateway: Gateway) -> list[BaseRoute]:
    """Return the routes of stored responses."""
    endpoint, one = partial(StoredEndpoint, gateway), "/v1/responses/{id}"
    return [
        WebSocketRoute("/v1/responses", _RefusedWebSocket()),
        Route(one, endpoint(retrieve), methods=["GET"]),
        Route(one, endpoint(delete), methods=["DELETE"]),
        Route(f"{one}/cancel", endpoint(cancel), methods=["POST"]),
        Route(f"{one}/input_items", endpoint(list_input), methods=["GET"]),
    ]


class StoredEndpoint:
    """An ASGI application for one path. ``work`` answers for a response that the caller may read."""

    def __init__(self, gateway: Gateway, work: Work) -> None:
        self._gateway = gateway
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        generation, services, share = self._gateway.current, self._gateway.services, None
        try:
            caller = await generation.access.authenticate(read_headers(scope))
            check_caller(caller, RESPONSES.name)
            if scope["method"] == "DELETE":  # what a caller deletes may also be in its requests
                generation.repeated.forget(name_owner(caller, scope))
            share = services.shares.enter(name_holder(caller, scope), generation.settings)
            request = Request(scope, receive)
            response_id = request.path_params["id"]
            stored = await services.responses.find(response_id, caller.owner) if is_id(response_id) else None
            if stored is None:  # or it is another key's
                raise NotFoundError(
                    f"Response with id '{_shorten(response_id)}' not found.",
                    provider=PROVIDER,
                    status=404,
                    code="not_found",
                )
            response = await self._work(services, request, stored)
            share.hold(len(response.body) if hasattr(response, "body") else 0)
        except DatabaseUnavailableError:
            response = error_page(RESPONSES, overloaded("stored responses cannot be read at the moment"))
        except Exception as error:
            response = error_page(RESPONSES, error)
        try:
            with DisconnectWatcher(receive):  # who follows a response may leave long before its next event
                await response(scope, receive, partial(_send_in_pieces, send))
        finally:
            if share is not None:
                share.close()


async def retrieve(services: Services, request: Request, stored: StoredResponse) -> Response:
    if request.query_params.get("stream") != "true":
        return JSONResponse(stored.response)
    if not stored.streamed:
        raise invalid("stream: only a response that was created with background and stream can be followed")
    after = request.query_params.get("starting_after", "-1")
    if not re.fullmatch(r"-1|[0-9]{1,9}", after):
        raise invalid("starting_after must be the number of an event")
    events = services.background.follow(stored, int(after))
    return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-cache"})


async def delete(services: Services, request: Request, stored: StoredResponse) -> Response:
    if stored.is_open:
        await services.background.cancel(stored)
    await services.responses.delete(stored.id, stored.owner)
    return JSONResponse({"id": stored.id, "object": "response", "deleted": True})


async def cancel(services: Services, request: Request, stored: StoredResponse) -> Response:
    if not stored.background:
        raise invalid("Cannot cancel a synchronous response.")
    current = await services.background.cancel(stored) if stored.is_open else stored
    return JSONResponse((current or stored).response)


async def list_input(services: Services, request: Request, stored: StoredResponse) -> Response:
    query = request.query_params
    order, limit, after = query.get("order", "desc"), query.get("limit", str(_PAGE)), query.get("after")
    if order not in ("asc", "desc"):
        raise invalid("order must be asc or desc")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit) <= _MAX_PAGE:
        raise invalid(f"limit must be a number from 1 to {_MAX_PAGE}")
    chain = await services.responses.chain(stored.id, stored.owner) if stored.previous_id else []
    items = [item for each in chain[:-1] for item in (*each.listed_input(), *each.listed_output())]
    items = with_own_ids([*items, *stored.listed_input()])
    items = items if order == "asc" else items[::-1]
    ids = [item["id"] for item in items]
    if after is not None and after not in ids:
        raise invalid(f"after: there is no item '{_shorten(after)}' in this response")
    start = 0 if after is None else ids.index(after) + 1
    page, page_ids = items[start : start + int(limit)], ids[start : start + int(limit)]
    return JSONResponse(
        {
            "object": "list",
            "data": page,
            "first_id": page_ids[0] if page_ids else None,
            "last_id": page_ids[-1] if page_ids else None,
            "has_more": start + len(page) < len(items),
        }
    )


class _RefusedWebSocket:
    """Answers 426, after which Codex sends its requests over HTTP at once. Servers without websockets pass the same
    request on as an ordinary GET.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        body = json.dumps({"error": _NO_WEBSOCKET}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "websocket.http.response.start", "status": 426, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": body})


def _shorten(text: str) -> str:
    """Return a text of a client for an error: short, and without characters that control a terminal or a header."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "?", text[:80])


async def _send_in_pieces(send: Send, message: Message) -> None:
    """Send a large body piece by piece: a server waits with the next until most of the last has been taken, and with
    the whole it would wait for nothing."""
    body = message.get("body", b"")
    last = max(0, len(body) - 1) // _PIECE * _PIECE
    for start in range(0, last, _PIECE):
        await send({**message, "body": body[start : start + _PIECE], "more_body": True})
    await send({**message, "body": body[last:]} if last else message)
