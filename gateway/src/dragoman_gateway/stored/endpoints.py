"""The paths under `/v1/responses`: read, cancel and delete stored responses, and list their input."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.errors import NotFoundError, OverloadedError
from dragoman_gateway.access import Caller
from dragoman_gateway.database import DatabaseUnavailableError
from dragoman_gateway.running.shares import Share
from dragoman_gateway.stored.background import Background
from dragoman_gateway.stored.records import StoredResponse, is_id, with_own_ids
from dragoman_gateway.stored.response_store import ResponseStore
from dragoman_gateway.stored.turn import PROVIDER, invalid
from dragoman_gateway.turn.replies import DisconnectWatcher

_MAX_PAGE = 100
_PAGE = 20
_PIECE = 256 * 1024
"""Bytes of a body that are sent at once."""
_RETRY_AFTER = 5.0
_NO_WEBSOCKET = {
    "message": "this gateway has no websockets: send POST /v1/responses",
    "type": "invalid_request_error",
    "param": None,
    "code": None,
}


class Enter(Protocol):
    """Returns the caller of a request to `/v1/responses`, and what the request holds of its share, or raises."""

    def __call__(self, scope: Scope, /) -> Awaitable[tuple[Caller, Share]]: ...


Work = Callable[[Request, StoredResponse], Awaitable[Response]]
Fail = Callable[[Exception], Response]
"""Writes an error as the wire's provider would."""


class StoredEndpoints:
    def __init__(self, store: ResponseStore, background: Background, enter: Enter, fail: Fail) -> None:
        self._store = store
        self._background = background
        self._enter = enter
        self._fail = fail

    def routes(self) -> list[BaseRoute]:
        one = "/v1/responses/{id}"
        return [
            WebSocketRoute("/v1/responses", _RefusedWebSocket()),
            Route(one, self._handle(self._retrieve), methods=["GET"]),
            Route(one, self._handle(self._delete), methods=["DELETE"]),
            Route(f"{one}/cancel", self._handle(self._cancel), methods=["POST"]),
            Route(f"{one}/input_items", self._handle(self._list_input), methods=["GET"]),
        ]

    def _handle(self, work: Work) -> ASGIApp:
        return _Endpoint(partial(self._answer, work))

    async def _answer(self, work: Work, scope: Scope, receive: Receive, send: Send) -> None:
        share = None
        try:
            caller, share = await self._enter(scope)
            request = Request(scope, receive)
            response = await work(request, await self._find(request.path_params["id"], caller))
            share.hold(len(response.body) if hasattr(response, "body") else 0)
        except DatabaseUnavailableError:
            busy = "stored responses cannot be read at the moment"
            response = self._fail(OverloadedError(busy, status=503, retry_after=_RETRY_AFTER))
        except Exception as error:
            response = self._fail(error)
        departure = DisconnectWatcher(receive)  # who follows a response may leave long before its next event
        try:
            await response(scope, receive, partial(_send_in_pieces, send))
        except asyncio.CancelledError:
            if not departure.seen:
                raise
        finally:
            departure.stop()
            if share is not None:
                share.close()

    async def _find(self, response_id: str, caller: Caller) -> StoredResponse:
        """Return a response of the caller. Another key's response is answered as one that does not exist."""
        found = await self._store.find(response_id, caller.owner) if is_id(response_id) else None
        if found is None:
            raise NotFoundError(
                f"Response with id '{_shorten(response_id)}' not found.",
                provider=PROVIDER,
                status=404,
                code="not_found",
            )
        return found

    async def _retrieve(self, request: Request, stored: StoredResponse) -> Response:
        if request.query_params.get("stream") != "true":
            return JSONResponse(stored.response)
        if not stored.streamed:
            raise invalid("stream: only a response that was created with background and stream can be followed")
        after = request.query_params.get("starting_after", "-1")
        if not re.fullmatch(r"-1|[0-9]{1,9}", after):
            raise invalid("starting_after must be the number of an event")
        events = self._background.follow(stored, int(after))
        return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-cache"})

    async def _delete(self, request: Request, stored: StoredResponse) -> Response:
        if stored.is_open:
            await self._background.cancel(stored)
        await self._store.delete(stored.id, stored.owner)
        return JSONResponse({"id": stored.id, "object": "response", "deleted": True})

    async def _cancel(self, request: Request, stored: StoredResponse) -> Response:
        if not stored.background:
            raise invalid("Cannot cancel a synchronous response.")
        current = await self._background.cancel(stored) if stored.is_open else stored
        return JSONResponse((current or stored).response)

    async def _list_input(self, request: Request, stored: StoredResponse) -> Response:
        query = request.query_params
        order, limit, after = query.get("order", "desc"), query.get("limit", str(_PAGE)), query.get("after")
        if order not in ("asc", "desc"):
            raise invalid("order must be asc or desc")
        if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit) <= _MAX_PAGE:
            raise invalid(f"limit must be a number from 1 to {_MAX_PAGE}")
        chain = await self._store.chain(stored.id, stored.owner) if stored.previous_id else []
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


class _Endpoint:
    """An ASGI application. Routes take a function for something else."""

    def __init__(self, answer: ASGIApp) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)


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
