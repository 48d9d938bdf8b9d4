"""Bodies in many small HTTP chunks, as every provider's streams are."""

import asyncio
import socket
from typing import Any

import pytest

from dragoman.transport.engines import aiohttp_engine
from tests.laws.streams.call_counts import calls_of
from tests.unit.transport.drivers import ADAPTER, AIOHTTP, ENGINES, STREAM_REQUEST, AsyncDriver, Driver
from tests.unit.transport.loopback_servers import LoopbackServer

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
EVENTS = [b"data: %d%s\n\n" % (number, b"x" * (number % 60)) for number in range(2000)]


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


class RawServer(LoopbackServer):
    """Answers each request of a connection with the same bytes, in pieces of ``size``."""

    def __init__(self, answer: bytes, size: int = 1 << 30) -> None:
        super().__init__()
        self.url = f"http://127.0.0.1:{self.port}"
        self._answer = answer
        self._size = size

    def serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while connection.recv(1 << 16):
            for start in range(0, len(self._answer), self._size):
                connection.sendall(self._answer[start : start + self._size])


@pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)
@pytest.mark.parametrize("size", [1 << 30, 999, 37], ids="in pieces of {}".format)
def test_a_body_in_many_chunks_arrives_whole(driver: Driver, size: int) -> None:
    """Wherever a packet is cut."""
    with RawServer(HEAD + chunked(EVENTS) + END, size) as server:
        result = driver.call(STREAM_REQUEST, base_url=server.url)
    assert (result.error, result.body) == (None, b"".join(EVENTS))


@pytest.mark.parametrize("driver", [AIOHTTP])
def test_a_chunk_costs_a_few_calls(driver: AsyncDriver) -> None:
    """Events that arrive together are handed on together, without an account of the HTTP chunks they came in."""

    def work(chunks: int) -> int:
        with RawServer(HEAD + chunked(EVENTS[:chunks]) + END) as server:
            return calls_of(lambda: driver.call(STREAM_REQUEST, base_url=server.url))

    few, many = (min(work(chunks) for _ in range(3)) for chunks in (100, 2000))
    assert (many - few) / 1900 < 16


@pytest.mark.parametrize("driver", [AIOHTTP])
def test_nothing_more_is_read_for_a_reader_that_pauses(driver: AsyncDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more is read for a reader that pauses, not even of chunks with one byte, many of which fit in
    few bytes.
    """
    count = 400_000
    readers: list[Any] = []

    class Chunks(aiohttp_engine._RawChunks):
        def __init__(self, stream: Any) -> None:
            super().__init__(stream)
            readers.append(stream)

    monkeypatch.setattr(aiohttp_engine, "_RawChunks", Chunks)

    async def main(url: str) -> tuple[int, int]:
        async with driver.transport(base_url=url) as transport, transport.stream(ADAPTER, STREAM_REQUEST) as reply:
            body = await anext(reply.chunks)
            before, waiting = -1, 0
            while waiting != before:  # until no more arrives
                await asyncio.sleep(0.2)
                before, waiting = waiting, len(readers[0]._buffer)
            async for chunk in reply.chunks:
                body += chunk
            return waiting, len(body)

    with RawServer(HEAD + chunked([b"x"] * count) + END) as server:
        waiting, read = asyncio.run(main(server.url))
    assert read == count
    assert waiting < count / 4
