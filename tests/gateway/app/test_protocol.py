"""The head of a reply leaves with the first bytes behind it, and no later than the event loop goes on."""

import asyncio
import socket
from typing import Any

import httpx
import pytest

from dragoman_gateway.server.protocol import Protocol, _JoiningTransport
from tests.gateway.serving import serving
from tests.gateway.upstream import PATIENCE

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Recorded:
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written.append(data)

    def close(self) -> None:
        self.closed = True


async def record_writes(*steps: Any) -> Recorded:
    """Do the steps: bytes are written, None lets the event loop go on, and ``close`` closes."""
    recorded = Recorded()
    transport = _JoiningTransport(recorded, asyncio.get_running_loop())  # type: ignore[arg-type]  # a part of one
    for step in steps:
        if step is None:
            await asyncio.sleep(0)
        elif step == "close":
            transport.close()
        else:
            transport.write(step)
    return recorded


@pytest.mark.parametrize(
    ("steps", "written"),
    [
        ((HEAD, b"body", b"more", None), [HEAD + b"body", b"more"]),
        ((HEAD, None, b"body"), [HEAD, b"body"]),
        ((HEAD, "close", None), [HEAD]),
        ((HEAD, HEAD, None), [HEAD + HEAD]),
        ((b"5\r\nHTTP/\r\n",), [b"5\r\nHTTP/\r\n"]),
    ],
)
def test_writes_are_joined(steps: tuple[Any, ...], written: list[bytes]) -> None:
    assert asyncio.run(record_writes(*steps)).written == written


def test_replies_arrive_whole_and_in_order() -> None:
    """Replies arrive whole and in order, also without a body, in pieces, and over one connection."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        pieces = scope["path"].strip("/").split("-")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if "wait" in pieces:
            await asyncio.sleep(0.01)
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    with serving(app, http=Protocol) as url, httpx.Client(base_url=url) as client:
        for path in ("", "HTTP/", "one-two", "wait-three"):
            assert client.get(f"/{path}").text == path.strip("/").replace("-", "")


@pytest.mark.parametrize("path", ["/whole", "/stream"])
def test_a_client_of_http_1_0_gets_no_chunks(path: str) -> None:
    """It would take them for the body. The end of a stream is that of the connection."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        headers = [(b"content-length", b"8")] if scope["path"] == "/whole" else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, piece in enumerate((b"some", b"more")):
            await send({"type": "http.response.body", "body": piece, "more_body": number == 0 or not headers})
        if not headers:
            await send({"type": "http.response.body", "body": b""})

    with serving(answer, http=Protocol) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nhost: x\r\n\r\n".encode())
            reply = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = reply.partition(b"\r\n\r\n")
    assert body == b"somemore"
    assert b"transfer-encoding" not in head.lower()
    assert b"connection: close" in head.lower()
