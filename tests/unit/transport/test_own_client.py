"""The caller's own client: it is used as it is, and stays the caller's."""

import asyncio
import gzip

import httpx
import pytest

from dragoman.adapter.errors import NetworkError
from tests.unit.transport.actors import STREAM, WAYS, WHOLE, Broken, Way

pytestmark = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)


def test_a_clients_own_hooks_and_headers_are_used(way: Way) -> None:
    """An injected client sends its headers along, is not closed, and a hook that read the reply does no harm."""
    seen: list[httpx.Headers] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(200, headers={"content-encoding": "gzip"}, content=gzip.compress(b"{}"))

    client = way.client(handler, headers={"x-proxy": "p"})
    for request in (WHOLE, STREAM):
        got = way.call(request, client=client)
        assert (got.body, got.error) == (b"{}", None)
    assert not client.is_closed
    assert [headers["x-proxy"] for headers in seen] == ["p", "p"]
    assert {headers["host"] for headers in seen} == {"api.plain.test"}
    _close(client)


def test_a_bug_shows_itself(way: Way) -> None:
    """An exception that no failing request raises passes through unchanged."""

    def handler(request: httpx.Request) -> httpx.Response:
        raise ZeroDivisionError

    client = way.client(handler)
    assert type(way.call(client=client).error) is ZeroDivisionError
    _close(client)


def test_a_damaged_chunk_midway_ends_the_stream(way: Way) -> None:
    """An exception of the stream below keeps what had been handed out."""
    broken = httpx.RemoteProtocolError("peer closed connection without sending complete message body")
    client = way.client(lambda _: httpx.Response(200, stream=Broken(broken, b"a", b"b")))
    got = way.call(STREAM, client=client)
    assert got.body == b"ab"
    assert type(got.error) is NetworkError
    _close(client)


def _close(client: httpx.Client | httpx.AsyncClient) -> None:
    if isinstance(client, httpx.Client):
        client.close()
    else:
        asyncio.run(client.aclose())
