"""Bytes behind a response never become the answer to the next request: the connection is not used again."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.unit.transport.drivers import (
    ADAPTER,
    AIOHTTP,
    DRIVERS,
    HTTPX2,
    PLAIN_REQUEST,
    STREAM_REQUEST,
    Driver,
    SyncDriver,
)
from tests.unit.transport.loopback_servers import Authority, LoopbackServer, authority

__all__ = ["authority"]

DRIVERS_OF_ALL_ENGINES = (*DRIVERS, AIOHTTP, *HTTPX2)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def sized(body: bytes) -> bytes:
    return HEAD + b"content-length: %d\r\n\r\n" % len(body) + body


def chunked(body: bytes) -> bytes:
    return HEAD + b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


EXTRA = {
    "a whole response": sized(b"POISON"),
    "two responses": sized(b"POISON") * 2,
    "the start of a response": HEAD + b"content-length: 6\r\n",
    "an interim response": b"HTTP/1.1 103 Early Hints\r\n\r\n",
    "a line end": b"\r\n",
    "one byte": b"H",
    "garbage": b"\x00\xff" * 20,
}


SAMPLE = ("a whole response", "the start of a response")


def sample(exhaustive: bool) -> list[tuple[str, bytes]]:
    return [(name, extra) for name, extra in EXTRA.items() if exhaustive or name in SAMPLE]


@dataclass(frozen=True)
class Sending:
    """How the extra bytes arrive: with the response, or later."""

    name: str
    encode: Callable[[bytes], bytes]
    seconds: float


SENDINGS = (
    Sending("in the same packet", sized, 0),
    Sending("behind chunks", chunked, 0),
    Sending("later", sized, 0.02),
)


class PoisonServer(LoopbackServer):
    """Answers each request with its number, and sends extra bytes behind the first one."""

    def __init__(self, extra: bytes, sending: Sending, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls=tls)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._extra, self._sending = extra, sending
        self._answers = 0
        self.connections = 0
        self.sent = threading.Event()

    def serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the extra bytes wait for the request
        self.connections += 1
        extra = self._extra if self.connections == 1 else b""
        while self._read_request(connection):
            self._answers += 1
            answer = self._sending.encode(b"answer %d" % self._answers)
            if not self._sending.seconds:
                answer += extra
            connection.sendall(answer)
            if self._sending.seconds and extra:
                time.sleep(self._sending.seconds)
                with contextlib.suppress(OSError):
                    connection.sendall(extra)
            self.sent.set()
            extra = b""

    @staticmethod
    def _read_request(connection: socket.socket) -> bool:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (received := connection.recv(65536)):
                return False
            data += received
        head, _, body = data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        while len(body) < size:
            body += connection.recv(65536)
        return True


def bodies(driver: Driver, server: PoisonServer, *, stream: bool, **settings: object) -> list[bytes]:
    """Make three calls, one after the other; before the second, the extra bytes have arrived."""
    request = STREAM_REQUEST if stream else PLAIN_REQUEST
    found: list[bytes] = []
    if isinstance(driver, SyncDriver):
        with driver.transport(base_url=server.url, timeout=60, **settings) as transport:
            for _ in range(3):
                if stream:
                    with transport.stream(ADAPTER, request) as reply:
                        found.append(b"".join(reply.chunks))
                else:
                    found.append(transport.send(ADAPTER, request).body)
                server.sent.wait(60)
                time.sleep(0.01)
        return found

    async def main() -> None:
        async with driver.transport(base_url=server.url, timeout=60, **settings) as transport:
            for _ in range(3):
                if stream:
                    async with transport.stream(ADAPTER, request) as reply:
                        found.append(b"".join([chunk async for chunk in reply.chunks]))
                else:
                    found.append((await transport.send(ADAPTER, request)).body)
                await asyncio.to_thread(server.sent.wait, 60)
                await asyncio.sleep(0.01)

    asyncio.run(main())
    return found


def check_answers(found: list[bytes], name: str) -> None:
    """Check that each request had an answer of its own. A request may be repeated: aiohttp refuses some answers."""
    assert all(body.startswith(b"answer ") for body in found), name
    numbers = [int(body.removeprefix(b"answer ")) for body in found]
    assert len(numbers) == 3, name
    assert numbers == sorted(set(numbers)), name


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("sending", SENDINGS, ids=lambda sending: sending.name)
@pytest.mark.parametrize("driver", DRIVERS_OF_ALL_ENGINES, ids=lambda driver: driver.name)
def test_extra_bytes_answer_no_request(driver: Driver, sending: Sending, stream: bool, exhaustive: bool) -> None:
    """Each request has its own answer, whatever follows an earlier one."""
    for name, extra in sample(exhaustive):
        with PoisonServer(extra, sending) as server:
            check_answers(bodies(driver, server, stream=stream), name)


@pytest.mark.parametrize("sending", SENDINGS, ids=lambda sending: sending.name)
@pytest.mark.parametrize("driver", DRIVERS_OF_ALL_ENGINES, ids=lambda driver: driver.name)
def test_extra_bytes_over_tls_answer_no_request(
    driver: Driver, sending: Sending, authority: Authority, exhaustive: bool
) -> None:
    """Extra bytes over TLS answer no request, also those that are received and not yet decrypted."""
    for name, extra in sample(exhaustive):
        with PoisonServer(extra, sending, authority.server()) as server:
            check_answers(bodies(driver, server, stream=False, verify=authority.client()), name)


@pytest.mark.parametrize("driver", DRIVERS_OF_ALL_ENGINES, ids=lambda driver: driver.name)
def test_a_clean_connection_is_used_again(driver: Driver) -> None:
    """Without extra bytes, one connection serves all requests."""
    with PoisonServer(b"", SENDINGS[0]) as server:
        assert bodies(driver, server, stream=False) == [b"answer 1", b"answer 2", b"answer 3"]
        assert server.connections == 1
