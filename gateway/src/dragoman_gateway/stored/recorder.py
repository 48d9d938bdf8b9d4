"""Stores a response on its way to the client: it can be continued before the client has its last byte."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Message, Send

from dragoman.logs import get_logger
from dragoman.policy import PolicyDeniedError
from dragoman_gateway.stored.events import ENDS, FrameSplitter, read_event
from dragoman_gateway.stored.records import StoredResponse, is_id
from dragoman_gateway.stored.response_store import ResponseStore
from dragoman_gateway.stored.turn import StoredTurn

logger = get_logger("dragoman.gateway")

_WITH_RESPONSE = b'"response"'
"""Only a few frames of a stream contain it; the others pass without being parsed."""

_DEFAULTS = {"previous_response_id": None, "store": True, "background": False}
"""The values of these fields in a response that lacks them."""


class Recorder:
    """Passes the answer to a request on to the client. Bytes stay unchanged, unless the response has to repeat what
    only the gateway knows.
    """

    def __init__(
        self,
        send: Send,
        turn: StoredTurn,
        store: ResponseStore,
        judge: Callable[[StoredResponse], Awaitable[StoredResponse]] | None = None,
    ) -> None:
        """``judge`` returns what is stored of a response. Raises PolicyDeniedError for one that is not stored."""
        self._send = send
        self._turn = turn
        self._store = store
        self._judge = judge
        self._start: Message | None = None
        self._streams = False
        self._succeeded = False
        self._frames = FrameSplitter()
        self._body: list[bytes] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            self._succeeded = message["status"] == 200
            self._streams = headers.get(b"content-type", b"").startswith(b"text/event-stream")
            if self._succeeded and not self._streams:
                self._start = message  # the length of the body may change
            else:
                await self._send(message)
        elif not self._succeeded or message["type"] != "http.response.body":
            await self._send(message)
        elif self._streams:
            await self._pass_stream(message)
        else:
            await self._pass_whole(message)

    async def _pass_stream(self, message: Message) -> None:
        more = message.get("more_body", False)
        passed = [await self._pass_frame(frame) for frame in self._frames.feed(message.get("body", b""))]
        if not more:
            passed.append(self._frames.finish())
        if passed or not more:
            await self._send({**message, "body": b"".join(passed)})

    async def _pass_frame(self, frame: bytes) -> bytes:
        if _WITH_RESPONSE not in frame or (event := read_event(frame)) is None or event.response is None:
            return frame
        response, changes = event.response, self._changes(event.response)
        if event.type in ENDS:
            await self._save({**response, **changes})
        return event.with_response(changes).encode() if changes else frame

    async def _pass_whole(self, message: Message) -> None:
        self._body.append(message.get("body", b""))
        if message.get("more_body", False):
            return
        body = b"".join(self._body)
        try:
            response = json.loads(body)
        except ValueError:
            response = None
        if isinstance(response, dict) and response.get("object") == "response":
            if changes := self._changes(response):
                response |= changes
                body = json.dumps(response).encode()
            await self._save(response)
        start, self._start = self._start, None
        assert start is not None
        headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
        await self._send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await self._send({**message, "body": body})

    def _changes(self, response: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of the response that differ from what the gateway knows."""
        return {name: value for name, value in self._turn.echo.items() if response.get(name, _DEFAULTS[name]) != value}

    async def _save(self, response: dict[str, Any]) -> None:
        if not (self._turn.store and is_id(response.get("id"))):
            return
        stored = self._turn.to_stored(response)
        try:
            await self._store.save(stored if self._judge is None else await self._judge(stored))
        except PolicyDeniedError as denial:
            logger.warning("the response %.80s is not stored: %s", stored.id, denial.code)
