"""Three HTTP servers of other projects that answer some paths of a model's API: Python's own, aiohttp and Starlette.

What they answer to every other path, to a wrong scheme and to a wrong method is their own.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dragoman import Message, RequestContext, get_adapter

PATHS = {
    "openai": "/v1/responses",
    "openai-chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "google": "/v1beta/models/gemini-2.5-flash:generateContent",
    "ollama": "/api/chat",
}
"""The path of each wire, from the root of the server."""


def _answer(wire: str, body: bytes) -> bytes:
    adapter, context = get_adapter(f"{wire}:m"), RequestContext.for_model(f"{wire}:m")
    adapter.from_wire_request(json.loads(body), context)
    return adapter.to_wire_response(Message.assistant("Bern"), context).body


@contextmanager
def python_server(wire: str, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Python's http.server: its refusals are pages of HTML."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if self.path != PATHS[wire]:
                self.send_error(404)
                return
            answer = _answer(wire, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Write no log to stderr."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that does not trust the certificate ends the handshake."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def aiohttp_server(wire: str, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """aiohttp: its refusals are plain texts."""
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=_answer(wire, await request.read()), content_type="application/json")

    async def start() -> tuple[web.AppRunner, int]:
        app = web.Application()
        app.router.add_post(PATHS[wire], answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        return runner, runner.addresses[0][1]

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner, port = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def starlette_server(wire: str, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Starlette under uvicorn: its refusals are plain texts, and a path has a method."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def answer(request: Request) -> Response:
        return Response(_answer(wire, await request.body()), media_type="application/json")

    routes = [Route(PATHS[wire], answer, methods=["POST"])]
    config = uvicorn.Config(Starlette(routes=routes), host="127.0.0.1", port=0, log_level="critical", lifespan="off")
    config.load()
    config.ssl = tls
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        threading.Event().wait(0.005)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


SERVERS: dict[str, Callable[..., Any]] = {
    "http.server": python_server,
    "aiohttp": aiohttp_server,
    "starlette": starlette_server,
}
