"""The caller's own client: it is used as it is, and stays the caller's."""

import asyncio
import gzip

import httpx
import pytest

from dragoman.adapter.errors import NetworkError
from tests.unit.transport.drivers import DRIVERS, PLAIN_REQUEST, STREAM_REQUEST, BreakingStream, Driver

pytestmark = pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)


def test_a_clients_own_hooks_and_headers_are_used(driver: Driver) -> None:
    """Its headers are sent, it is not closed, and a hook that read the reply does no harm."""
    seen: list[httpx.Headers] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(200, headers={"content-encoding": "gzip"}, content=gzip.compress(b"{}"))

    client = driver.client(handler, headers={"x-proxy": "p"})
    for request in (PLAIN_REQUEST, STREAM_REQUEST):
        result = driver.call(request, client=client)
        assert (result.body, result.error) == (b"{}", None)
    assert not client.is_closed
    assert [headers["x-proxy"] for headers in seen] == ["p", "p"]
    assert {headers["host"] for headers in seen} == {"api.plain.test"}
    _close(client)


def test_a_bug_is_not_hidden(driver: Driver) -> None:
    """An exception that no failing request raises passes through unchanged."""

    def handler(request: httpx.Request) -> httpx.Response:
        raise ZeroDivisionError

    client = driver.client(handler)
    assert type(driver.call(client=client).error) is ZeroDivisionError
    _close(client)


def test_a_damaged_chunk_ends_the_stream(driver: Driver) -> None:
    """An exception of the stream below keeps what had been returned."""
    broken = httpx.RemoteProtocolError("peer closed connection without sending complete message body")
    client = driver.client(lambda _: httpx.Response(200, stream=BreakingStream(broken, b"a", b"b")))
    result = driver.call(STREAM_REQUEST, client=client)
    assert result.body == b"ab"
    assert type(result.error) is NetworkError
    _close(client)


def _close(client: httpx.Client | httpx.AsyncClient) -> None:
    if isinstance(client, httpx.Client):
        client.close()
    else:
        asyncio.run(client.aclose())
