"""A form that is forwarded while its client leaves, and while the gateway ends."""

import asyncio
import signal
import socket

import httpx
import pytest

from dragoman import AsyncClient
from dragoman.testing.faults.server import FaultyServer, ReceivedRequest
from dragoman_gateway import GatewaySettings, create_app
from tests.gateway.app.test_bad_night import wait_until
from tests.gateway.app.test_end import alone, new_server
from tests.gateway.upstream import PATIENCE, gateway_before
from tests.gateway.vendors.forwarded_calls import record

__all__ = ["alone"]  # for all tests here
_BEGIN = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + b"x" * 100_000
_END = b"\r\n--b--\r\n"
_HEADERS = {"content-type": "multipart/form-data; boundary=b", "authorization": "Bearer any"}


def _head(size: int) -> bytes:
    lines = ["POST /v1/files HTTP/1.1", "host: localhost", f"content-length: {size}", "connection: close"]
    return "\r\n".join([*lines, *map(": ".join, _HEADERS.items()), "\r\n"]).encode()


def _is_whole(request: ReceivedRequest) -> bool:
    return len(request.body) == int(request.headers["content-length"])


def test_a_client_that_leaves_in_the_middle_of_a_form_leaves_nothing_behind() -> None:
    with gateway_before(record, forward=("files",)) as (url, server):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(_head(1_000_000) + _BEGIN)
            wait_until(lambda: server.open_connections == 1)
        assert server.wait_until_closed() == 0
        assert not any(map(_is_whole, server.requests))
        with httpx.Client(base_url=url) as http:
            wait_until(lambda: "dragoman_requests_in_flight 0.0" in http.get("/metrics").text)
            form = {"content": _BEGIN + _END, "headers": _HEADERS}
            assert http.post("/v1/files", **form).status_code == 200


@pytest.mark.parametrize("is_in_time", [True, False])
def test_a_form_that_has_begun_is_forwarded_to_its_end_or_told_to_ask_again(*, is_in_time: bool) -> None:
    """Its client is answered within the drain. After that, its vendor gets no whole form."""

    async def scenario() -> bytes:
        listener = socket.create_server(("127.0.0.1", 0))
        server = new_server(app)
        ended = asyncio.create_task(server.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(_head(len(_BEGIN + _END)) + _BEGIN)
        while not provider.open_connections:
            await asyncio.sleep(0.01)
        server.handle_exit(signal.SIGTERM, None)
        if is_in_time:
            writer.write(_END)
        reply = await reader.read()
        writer.close()
        await ended
        return reply

    with FaultyServer(record) as provider:
        client = AsyncClient(providers={"openai": {"base_url": f"{provider.url}/v1", "api_key": "sk"}})
        settings = GatewaySettings(forward=("files",), drain_seconds=PATIENCE if is_in_time else 0.01)
        app = create_app(settings, client=client)
        reply = asyncio.run(scenario())
        assert reply.startswith(b"HTTP/1.1 200 " if is_in_time else b"HTTP/1.1 503 ")
        assert any(map(_is_whole, provider.requests)) == is_in_time
    assert is_in_time or b"retry-after: 2\r\n" in reply
