"""Records the traffic as cassettes, and answers from them without any provider: `dragoman serve --record` and
`--replay`. Every request of a client is an exchange, so a replay gives the client the bytes that it got."""

import asyncio
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman import AsyncClient, DragomanError
from dragoman.errors import ConfigurationError
from dragoman.testing import CassetteMissError
from dragoman.testing.cassettes.file import RecordedResponse
from dragoman.testing.cassettes.folder import CassetteReader, CassetteWriter
from dragoman.testing.cassettes.labels import Labels
from dragoman_gateway.bodies.inflate import inflate
from dragoman_gateway.bodies.read import read_body, read_headers
from dragoman_gateway.endpoints.pages import error_page
from dragoman_gateway.errors import ClientError, DeniedError
from dragoman_gateway.log import logger
from dragoman_gateway.running.services import page_rules
from dragoman_gateway.running.shares import Shares
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.wires import wire_of_path

RECORD_VARIABLE = "DRAGOMAN_GATEWAY_RECORD"
REPLAY_VARIABLE = "DRAGOMAN_GATEWAY_REPLAY"
"""Environment variables with a folder, for workers and for other servers than `dragoman serve`."""

_CAP = 64 * 1024 * 1024
"""Bytes of a request and its reply above which they are not recorded."""
_UNRECORDED = frozenset({"/", "/health", "/ready", "/metrics", "/openapi.json"})
_METHODS = ["GET", "POST", "DELETE"]


class Recorder:
    """An ASGI middleware that writes each exchange into a file of its own, in the order in which they end.

    What looks like a secret is masked. If one cannot be masked, the exchange is not written, and the log says so. Under
    a policy, which a reload may bring, nothing is written.
    """

    def __init__(self, app: ASGIApp, folder: Path, client: Callable[[], AsyncClient]) -> None:
        """``client`` returns the present client of the gateway."""
        self._app = app
        self._client = client
        self._writer = CassetteWriter(folder, server="dragoman gateway")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _UNRECORDED:
            await self._app(scope, receive, send)
            return
        traffic = _Traffic(receive, send)
        await self._app(scope, traffic.receive, traffic.send)
        try:
            check_policy(self._client())
        except ConfigurationError as error:
            logger.error("%s was not recorded: %s", scope["path"], error)
            return
        if traffic.is_complete:
            await asyncio.to_thread(self._write, scope, traffic, self._writer.new_number())
        else:
            logger.warning("%s was not recorded: the reply did not end, or is too large", scope["path"])

    def _write(self, scope: Scope, traffic: "_Traffic", number: int) -> None:
        body = b"".join(traffic.sent)
        response = RecordedResponse(traffic.status, b"".join(traffic.received), traffic.headers)
        try:
            headers = read_headers(scope)
            if encoding := headers.get("content-encoding", ""):
                body = inflate(body, encoding, _CAP, _CAP)
            self._writer.write(number, scope["method"], _address(scope), headers, body, response)
        except (DragomanError, OSError) as error:
            logger.error("%s was not recorded: %s", scope["path"], error)


class _Traffic:
    """One exchange in progress."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._size = 0
        self._ended = False
        self.sent: list[bytes] = []
        self.received: list[bytes] = []
        self.status = 0
        self.headers: dict[str, str] = {}

    @property
    def is_complete(self) -> bool:
        return self._ended and self._size <= _CAP

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._keep(self.sent, message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
        elif message["type"] == "http.response.body":
            self._keep(self.received, message.get("body", b""))
            self._ended = not message.get("more_body", False)
        await self._send(message)

    def _keep(self, pieces: list[bytes], data: bytes) -> None:
        self._size += len(data)
        if self._size <= _CAP:
            pieces.append(data)


def check_policy(client: AsyncClient) -> None:
    """Raise ConfigurationError if a policy judges the traffic."""
    policy = client.config.policy
    if policy is not None and policy.plugins:
        raise ConfigurationError(
            "a recording would hold what clients send, including what the policy removes: record without [[plugins]]"
        )


def replay_app(folder: Path, settings: GatewaySettings | None = None) -> Starlette:
    """Return an application that answers from the cassettes of a folder, and checks no keys. No page of another site
    gets an answer.

    Raises ConfigurationError if the folder has no cassette, or one cannot be read.
    """
    settings = (settings or GatewaySettings()).model_copy(update={"share": 1.0})
    labels = Labels.known(settings.replay.ignored_fields, settings.replay.ignored_patterns)
    reader, shares = CassetteReader(folder, labels), Shares()
    rules = page_rules(settings)

    async def answer(request: Request) -> Response:
        try:
            headers = read_headers(request.scope)
            rules.check(headers)
            with closing(shares.enter("", settings)) as share:
                body = await read_body(request.receive, headers, settings, share)
                reply = await asyncio.to_thread(reader.find, request.method, _address(request.scope), body)
        except (CassetteMissError, ClientError, DeniedError) as error:
            shown = ClientError(f"no recorded reply fits: {error}") if isinstance(error, CassetteMissError) else error
            return error_page(wire_of_path(request.url.path, request.headers), shown)
        return Response(reply.body, reply.status, dict(reply.headers))

    async def health(request: Request) -> Response:
        return PlainTextResponse("ok")

    return Starlette(
        routes=[
            *(Route(path, health, methods=["GET"]) for path in ("/", "/health", "/ready")),
            Route("/{path:path}", answer, methods=_METHODS),
        ]
    )


def cassette_folder(variable: str) -> Path | None:
    """Return the folder that a variable names, from which the process answers or into which it records; None without
    one."""
    value = os.environ.get(variable, "")
    return Path(value) if value else None


def _address(scope: Scope) -> str:
    """Return the URL of a request, with a neutral host."""
    query = scope["query_string"].decode("latin-1")
    return f"http://gateway{scope['path']}" + (f"?{query}" if query else "")
