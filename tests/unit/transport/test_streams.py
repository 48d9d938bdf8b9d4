"""Streams that are abandoned in every possible way: the next call must find a free connection."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from dragoman.adapter.errors import NetworkError
from dragoman.adapter.wire import WireRequest
from dragoman.testing.faults.server import (
    RESET,
    STALL,
    FaultyServer,
    HttpReply,
    Pause,
    ReceivedRequest,
    json_reply,
    sse_reply,
)
from dragoman.transport import AsyncHttpTransport, HttpTransport, RetryPolicy
from tests.unit.transport.connections.drain_time import PATIENCE, drain_time
from tests.unit.transport.drivers import (
    ADAPTER,
    AIOHTTP,
    DRIVERS,
    ENGINES,
    KEY,
    PLAIN_REQUEST,
    STREAM_REQUEST,
    AsyncDriver,
    Driver,
    SyncDriver,
)

__all__ = ["drain_time"]  # the fixture

ROUNDS, SAMPLED_ROUNDS = 50, 15
POOL = 5
NO_RETRY = RetryPolicy(max_retries=0)
ASYNC_DRIVERS = (DRIVERS[1], AIOHTTP)
ENDLESS = [step for number in range(3) for step in (b"data: %d\n\n" % number, Pause(0.001))]


def script(received: ReceivedRequest) -> HttpReply:
    """An endless stream for streaming requests, nothing at all for waiting ones, a whole reply for the others."""
    if received.path == "/silence":
        return HttpReply(before=STALL)
    return sse_reply(*ENDLESS, STALL) if received.headers["accept-encoding"] == "identity" else json_reply({"ok": 1})


def never_entered(transport: HttpTransport) -> None:
    transport.stream(ADAPTER, STREAM_REQUEST)


def never_iterated(transport: HttpTransport) -> None:
    with transport.stream(ADAPTER, STREAM_REQUEST):
        pass


def left_after_one(transport: HttpTransport) -> None:
    with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
        next(reply.chunks)
        raise StopReadingError


def kept_after_leaving(transport: HttpTransport, kept: list[Iterator[bytes]] = []) -> None:  # noqa: B006
    """The caller keeps the iterator, which must not keep the connection."""
    with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
        kept.append(reply.chunks)


def raised_inside(transport: HttpTransport) -> None:
    with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
        for _ in reply.chunks:
            raise StopReadingError


def dropped(transport: HttpTransport) -> None:
    """Entered by hand and never left: the garbage collector closes it."""
    context = transport.stream(ADAPTER, STREAM_REQUEST)
    next(context.__enter__().chunks)
    del context


class StopReadingError(Exception):
    pass


SYNC: list[Callable[[HttpTransport], None]] = [
    never_entered, never_iterated, left_after_one, kept_after_leaving, raised_inside, dropped,
]  # fmt: skip


@pytest.mark.parametrize("leave", SYNC, ids=lambda leave: leave.__name__)
def test_many_streams_abandoned_by_a_sync_caller(leave: Callable[[HttpTransport], None], exhaustive: bool) -> None:
    """However streams are abandoned, five connections are enough for fifty of them and the calls in between."""
    with (
        FaultyServer(script) as server,
        HttpTransport(api_key=KEY, base_url=server.url, max_connections=POOL, retry=NO_RETRY) as transport,
    ):
        for _ in range(ROUNDS if exhaustive else SAMPLED_ROUNDS):
            with contextlib.suppress(StopReadingError):
                leave(transport)
            assert transport.send(ADAPTER, PLAIN_REQUEST, timeout=PATIENCE).status == 200
        assert server.wait_until_closed(at_most_open=1) <= 1


async def a_never_iterated(transport: AsyncHttpTransport) -> None:
    async with transport.stream(ADAPTER, STREAM_REQUEST):
        pass


async def a_left_after_one(transport: AsyncHttpTransport) -> None:
    async with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
        await anext(reply.chunks)
        raise StopReadingError


async def a_kept_after_leaving(transport: AsyncHttpTransport, kept: list[AsyncIterator[bytes]] = []) -> None:  # noqa: B006
    async with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
        kept.append(reply.chunks)


async def a_cancelled_midway(transport: AsyncHttpTransport) -> None:
    started = asyncio.Event()

    async def read() -> None:
        async with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
            async for _ in reply.chunks:
                started.set()

    task = asyncio.create_task(read())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def a_cancelled_twice(transport: AsyncHttpTransport) -> None:
    task = asyncio.create_task(a_left_waiting(transport))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def a_cancelled_twice_with_one_taken_back(transport: AsyncHttpTransport) -> None:
    """As `asyncio.timeout` takes its own back."""
    task = asyncio.create_task(a_left_waiting(transport))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    task.uncancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def a_cancelled_twice_before_the_head(transport: AsyncHttpTransport) -> None:
    task = asyncio.create_task(transport.send(ADAPTER, WireRequest("POST", "/silence", b"{}")))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def a_left_waiting(transport: AsyncHttpTransport) -> None:
    async with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
        async for _ in reply.chunks:
            pass


async def a_cancelled_while_connecting(transport: AsyncHttpTransport) -> None:
    task = asyncio.create_task(a_left_waiting(transport))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def a_timed_out_from_outside(transport: AsyncHttpTransport) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await a_left_waiting(transport)


async def a_dropped(transport: AsyncHttpTransport) -> None:
    """Entered by hand and never left: the event loop closes what the garbage collector finds."""
    context = transport.stream(ADAPTER, STREAM_REQUEST)
    await anext((await context.__aenter__()).chunks)
    del context
    await asyncio.sleep(0.005)


ASYNC: list[Callable[[AsyncHttpTransport], Awaitable[None]]] = [
    a_never_iterated, a_left_after_one, a_kept_after_leaving, a_cancelled_midway, a_cancelled_twice,
    a_cancelled_twice_with_one_taken_back,
    a_cancelled_twice_before_the_head, a_cancelled_while_connecting, a_timed_out_from_outside, a_dropped,
]  # fmt: skip


@pytest.mark.parametrize("driver", ASYNC_DRIVERS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("leave", ASYNC, ids=lambda leave: leave.__name__)
def test_many_streams_abandoned_by_an_async_caller(
    leave: Callable[[AsyncHttpTransport], Awaitable[None]], driver: AsyncDriver, exhaustive: bool
) -> None:
    async def main() -> None:
        async with driver.transport(base_url=server.url, max_connections=POOL, retry=NO_RETRY) as transport:
            for _ in range(ROUNDS if exhaustive else SAMPLED_ROUNDS):
                with contextlib.suppress(StopReadingError):
                    await leave(transport)
                assert (await transport.send(ADAPTER, PLAIN_REQUEST, timeout=PATIENCE)).status == 200
            assert await asyncio.to_thread(server.wait_until_closed, 1) <= 1

    with FaultyServer(script) as server:
        asyncio.run(main())


@pytest.mark.parametrize("driver", ASYNC_DRIVERS, ids=lambda driver: driver.name)
def test_a_loop_ends_with_its_connections(driver: AsyncDriver) -> None:
    """A loop that ends right after a double cancellation leaves no task and no connection behind."""

    async def main() -> None:
        await a_cancelled_twice(driver.transport(base_url=server.url))

    with FaultyServer(script) as server:
        for _ in range(10):
            asyncio.run(main())
        assert server.wait_until_closed() == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("driver", ASYNC_DRIVERS, ids=lambda driver: driver.name)
def test_a_thousand_calls_share_the_connections(driver: AsyncDriver) -> None:
    """A hundred callers at once over five connections: none starves, and there are never more than five connections."""
    max_open = 0

    def count_connections(received: ReceivedRequest) -> HttpReply:
        nonlocal max_open
        max_open = max(max_open, received.connection + 1)
        return json_reply({})

    async def main() -> None:
        async with driver.transport(base_url=server.url, max_connections=POOL) as transport:
            for _ in range(10):
                replies = await asyncio.gather(*[transport.send(ADAPTER, PLAIN_REQUEST) for _ in range(100)])
                assert {reply.status for reply in replies} == {200}

    with FaultyServer(count_connections) as server:
        asyncio.run(main())
    assert max_open == POOL


@pytest.mark.usefixtures("drain_time")
@pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)
def test_a_finished_stream_releases_its_connection(driver: Driver) -> None:
    """A caller who stops at the terminal event leaves the end of the stream unread; the connection is reused."""
    with FaultyServer(sse_reply(b"data: 1\n\n", b"data: last\n\n")) as server:
        if isinstance(driver, SyncDriver):
            with driver.transport(base_url=server.url) as transport:
                for _ in range(10):
                    with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
                        for chunk in reply.chunks:
                            if b"last" in chunk:
                                break
        else:

            async def main() -> None:
                async with driver.transport(base_url=server.url) as transport:
                    for _ in range(10):
                        async with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
                            async for chunk in reply.chunks:
                                if b"last" in chunk:
                                    break

            asyncio.run(main())
        assert len(server.requests) == 10
        assert server.connections == 1


@pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)
@pytest.mark.parametrize("end", [STALL, RESET, b"data: more\n\n" * 100_000], ids=["stall", "reset", "much more"])
def test_an_endless_stream_is_disconnected(driver: Driver, end: object) -> None:
    """After the last event that the caller wanted, nothing that the provider does is an error or takes long."""
    with FaultyServer(sse_reply(b"data: last\n\n", end, STALL)) as server:  # type: ignore[arg-type]
        if isinstance(driver, SyncDriver):
            with (
                driver.transport(base_url=server.url) as transport,
                transport.stream(ADAPTER, STREAM_REQUEST) as reply,
            ):
                assert next(reply.chunks).startswith(b"data: last")
        else:

            async def main() -> None:
                async with (
                    driver.transport(base_url=server.url) as transport,
                    transport.stream(ADAPTER, STREAM_REQUEST) as reply,
                ):
                    assert (await anext(reply.chunks)).startswith(b"data: last")

            asyncio.run(main())
        assert server.wait_until_closed() == 0


def test_chunks_cannot_be_read_after_the_context() -> None:
    """Reading on is an error or gives nothing, and never the rest of another reply."""
    with FaultyServer(script) as server, HttpTransport(api_key=KEY, base_url=server.url) as transport:
        with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
            chunks = reply.chunks
        with contextlib.suppress(NetworkError):
            assert b"".join(chunks) in (b"", ENDLESS[0])


def test_bytes_arrive_when_they_are_sent() -> None:
    """The first chunk is returned while the second is still to be written."""
    with FaultyServer(sse_reply(b"data: 1\n\n", STALL)) as server:
        transport = HttpTransport(api_key=KEY, base_url=server.url)
        context = transport.stream(ADAPTER, STREAM_REQUEST)
        assert next(context.__enter__().chunks) == b"data: 1\n\n"
        transport.close()
