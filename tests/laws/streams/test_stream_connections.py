"""Streams over real sockets: a stalled one ends, and an abandoned one releases its connection.

`tests/unit/transport/test_streams.py` abandons the transport's streams; here the events are abandoned, and the pool is
full while that happens.
"""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import DragomanError, MalformedReplyError, RequestTimeoutError
from dragoman.adapter.replies.stream_decoder import decode_batches, decode_batches_async
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.events import ErrorEvent, MessageComplete, StreamEvent
from dragoman.canonical.message import Message
from dragoman.testing.event_bytes import split_events
from dragoman.testing.faults.server import (
    HANG_UP,
    RESET,
    STALL,
    FaultyServer,
    HttpReply,
    Pause,
    ReceivedRequest,
    ReplyStep,
    json_reply,
    sse_reply,
)
from dragoman.testing.sample_reply import SHORT
from dragoman.transport import AsyncHttpTransport, HttpTransport, RetryPolicy, close_idle_connections_async
from dragoman.transport.inflate import Inflater
from tests.laws.streams.subjects import create_adapter
from tests.laws.wires import handwritten_anthropic
from tests.sampling import examples
from tests.unit.transport.drivers import requires

ADAPTER = create_adapter("anthropic")
BODY = handwritten_anthropic.handwritten_stream(SHORT)
EVENTS = [event for event in split_events(BODY) if b'"ping"' not in event]
PING = handwritten_anthropic.WIRE.keep_alive
COMMENT = b": keep-alive\n\n"
BUSY = 60
"""Seconds that a busy machine may need; nothing waits so long."""
POOL = 20
WAVES = 15
"""Of as many streams as the pool has connections: three hundred in all, for each way of abandoning them."""

NO_RETRY = RetryPolicy(max_retries=0)


def context() -> RequestContext:
    return RequestContext(model=str(ADAPTER.model_id))


def request(**options: object) -> WireRequest:
    request_options = AdapterOptions(max_output_tokens=9, context=context(), **options)  # type: ignore[arg-type]
    return ADAPTER.to_wire([Message.user("hi")], [], request_options)


STREAM, WHOLE = request(stream=True), request()


# ---- A stalled stream


class VirtualClock:
    """Time moves only while chunks are waited for."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def timed_chunks(self, *chunks: tuple[float, bytes]) -> Iterator[bytes]:
        """Each chunk after its seconds."""
        for seconds, chunk in chunks:
            self.now += seconds
            yield chunk

    async def timed_chunks_async(self, *chunks: tuple[float, bytes]) -> AsyncIterator[bytes]:
        for chunk in self.timed_chunks(*chunks):
            yield chunk


def both_ways(*chunks: tuple[float, bytes]) -> list[list[StreamEvent]]:
    """The events, sync and async, of a reader with a limit of ten seconds."""

    async def collect() -> list[StreamEvent]:
        decoder = ADAPTER.decoder(context())
        return [
            event
            async for batch in decode_batches_async(
                async_clock.timed_chunks_async(*chunks), decoder, idle_timeout=10, clock=async_clock
            )
            for event in batch
        ]

    clock, async_clock = VirtualClock(), VirtualClock()
    return [
        [
            event
            for batch in decode_batches(
                clock.timed_chunks(*chunks), ADAPTER.decoder(context()), idle_timeout=10, clock=clock
            )
            for event in batch
        ],
        asyncio.run(collect()),
    ]


@pytest.mark.parametrize(
    "silent", [PING, COMMENT, b"\n", PING[:9], b":"], ids=["ping", "comment", "blank", "half", "colon"]
)
def test_keep_alives_do_not_keep_a_stalled_stream_open(silent: bytes) -> None:
    """Ten seconds without content are a stall, however many keep-alives the server sends."""
    for events in both_ways((1, EVENTS[0]), *[(3, silent)] * 3, (3, silent), (1, b"".join(EVENTS[1:]))):
        last = events[-1]
        assert isinstance(last, ErrorEvent)
        assert isinstance(last.error, RequestTimeoutError)
        assert "nothing but keep-alives for 10 s" in str(last.error)
        assert last.partial is not None


def test_content_keeps_a_slow_stream_open() -> None:
    """An event every nine seconds is only slow, with pings in between or without; so is one whose pieces take longer
    than the limit, up to twice as long."""
    slow = [(9.0, event) for event in EVENTS]
    with_pings = [pair for event in EVENTS for pair in ((8.0, PING), (1.0, event))]
    huge = BODY.replace(b" it ", b" it " * 1000)
    pieces = [huge[start : start + 500] for start in range(0, len(huge), 500)]
    in_pieces = [(15.0 / len(pieces), piece) for piece in pieces]
    for chunks in (slow, with_pings, in_pieces):
        for events in both_ways(*chunks):
            assert isinstance(events[-1], MessageComplete)


def test_a_reader_without_a_limit_waits() -> None:
    """Without a limit, a stream of pings goes on."""
    clock = VirtualClock()
    chunks = [(1.0, EVENTS[0]), *[(1000.0, PING)] * 20, (1.0, b"".join(EVENTS[1:]))]
    *_, last = decode_batches(clock.timed_chunks(*chunks), ADAPTER.decoder(context()), clock=clock)
    assert isinstance(last[-1], MessageComplete)


def hurrying_clock() -> float:
    """A minute in 1.5 seconds: a stream's limit is reached soon, and those of its sockets are not."""
    return 40 * time.monotonic()


def test_a_stream_of_pings_ends_at_the_time_limit_of_its_transport() -> None:
    """A server that would ping for a minute is abandoned long before, sync and async."""
    pings: list[ReplyStep] = [step for _ in range(1200) for step in (PING, Pause(0.05))]

    async def read_async() -> list[StreamEvent]:
        async with (
            AsyncHttpTransport(api_key="k", base_url=server.url, timeout=BUSY) as transport,
            transport.stream(ADAPTER, STREAM) as reply,
        ):
            decoder = ADAPTER.decoder(context())
            return [
                event
                async for batch in decode_batches_async(
                    reply.chunks, decoder, idle_timeout=reply.idle_timeout, clock=hurrying_clock
                )
                for event in batch
            ]

    with FaultyServer(sse_reply(EVENTS[0], *pings)) as server:
        with (
            HttpTransport(api_key="k", base_url=server.url, timeout=BUSY) as transport,
            transport.stream(ADAPTER, STREAM) as reply,
        ):
            decoder = ADAPTER.decoder(context())
            batches = decode_batches(reply.chunks, decoder, idle_timeout=reply.idle_timeout, clock=hurrying_clock)
            sync = [event for batch in batches for event in batch]
        for events in (sync, asyncio.run(read_async())):
            last = events[-1]
            assert isinstance(last, ErrorEvent)
            assert isinstance(last.error, RequestTimeoutError)
        assert server.wait_until_closed(seconds=BUSY) == 0


def test_a_streamed_bomb_stops_at_the_cap() -> None:
    """A gigabyte of blank lines in a megabyte of gzip members is inflated no further than a fixed ratio."""
    member = gzip.compress(b" " * (8 * 1024 * 1024) + b"\n", compresslevel=9)
    ollama = create_adapter("ollama")
    request_options = AdapterOptions(stream=True, context=RequestContext(model="ollama:m"))
    bomb = HttpReply(headers={"content-encoding": "gzip"}, body=member * 128)
    with (
        FaultyServer(bomb) as server,
        HttpTransport(base_url=server.url) as transport,
        transport.stream(ollama, ollama.to_wire([Message.user("hi")], [], request_options)) as reply,
    ):
        (event,) = ollama.iter_stream(reply.chunks, RequestContext(model="ollama:m"))
    assert isinstance(event, ErrorEvent)
    assert isinstance(event.error, MalformedReplyError)


@given(
    sizes=st.lists(st.sampled_from([1, 262_143, 262_144, 262_145, 700_000]), min_size=1, max_size=4),
    cut=st.integers(50, 900),
)
@examples(30)
def test_members_of_any_size_are_inflated_once(sizes: list[int], cut: int) -> None:
    """In a body of several gzip members, of which some fill a piece to the last byte, no byte appears twice."""
    packed = b"".join(gzip.compress(b"x" * size) for size in sizes)
    inflater, opened = Inflater("gzip"), 0
    for start in range(0, len(packed), cut):
        for piece in inflater.feed(packed[start : start + cut]):
            opened += len(piece)
            assert opened <= sum(sizes)
    inflater.finish()
    assert opened == sum(sizes)


# ---- Abandoned streams


OVERLOADED = handwritten_anthropic.WIRE.errors[0][0]

ENDINGS: dict[str, HttpReply] = {
    "stall": sse_reply(EVENTS[0], EVENTS[1], STALL),
    "reset": sse_reply(EVENTS[0], EVENTS[1], RESET),
    "hang up": sse_reply(EVENTS[0], HANG_UP),
    "error event": sse_reply(EVENTS[0], OVERLOADED, STALL),
    "error status": json_reply({"type": "error", "error": {"type": "overloaded_error", "message": "no"}}, status=529),
    "whole": sse_reply(*EVENTS),
    "whole and on": sse_reply(*EVENTS, PING * 20_000, STALL),
}
"""How the server answers each streaming request. It answers every other request with a whole reply."""


def server_of(ending: str) -> FaultyServer:
    def script(received: ReceivedRequest) -> HttpReply:
        if b'"stream":true' in received.body:
            return ENDINGS[ending]
        return HttpReply(body=handwritten_anthropic.handwritten_whole(SHORT))

    return FaultyServer(script)


def read_all_events(transport: HttpTransport) -> None:
    with transport.stream(ADAPTER, STREAM, timeout=0.05) as reply:
        list(ADAPTER.iter_stream(reply.chunks, context()))


def read_no_event(transport: HttpTransport) -> None:
    with transport.stream(ADAPTER, STREAM) as reply:
        ADAPTER.iter_stream(reply.chunks, context())


def keep_events(transport: HttpTransport, kept: list[Iterator[StreamEvent]] = []) -> None:  # noqa: B006
    """The caller keeps the events, which must not keep the connection."""
    with transport.stream(ADAPTER, STREAM) as reply:
        kept.append(ADAPTER.iter_stream(reply.chunks, context()))
        next(kept[-1], None)


@pytest.mark.parametrize("leave", [read_all_events, read_no_event, keep_events], ids=lambda leave: leave.__name__)
@pytest.mark.parametrize("ending", ENDINGS)
def test_events_abandoned_by_a_sync_caller(
    ending: str, leave: Callable[[HttpTransport], None], exhaustive: bool
) -> None:
    """More streams than connections, and afterwards every connection is free or closed."""
    pool, rounds = (POOL, POOL + 5) if exhaustive else (2, 4)
    with (
        server_of(ending) as server,
        HttpTransport(api_key="k", base_url=server.url, max_connections=pool, retry=NO_RETRY) as transport,
    ):
        for _ in range(rounds):
            with suppress(DragomanError):
                leave(transport)
        assert transport.send(ADAPTER, WHOLE, timeout=BUSY).status == 200
        assert server.wait_until_closed(at_most_open=1, seconds=BUSY) <= 1


async def cancel(transport: AsyncHttpTransport) -> None:
    await _cancel_stream(transport, times=1)


async def cancel_twice(transport: AsyncHttpTransport) -> None:
    await _cancel_stream(transport, times=2)


async def _cancel_stream(transport: AsyncHttpTransport, *, times: int) -> None:
    async def read() -> None:
        async with transport.stream(ADAPTER, STREAM) as reply:
            async for _ in ADAPTER.stream_response(reply.chunks, context()):
                started.set()
                await asyncio.sleep(0)

    started = asyncio.Event()
    task = asyncio.create_task(read())
    await asyncio.wait([task, asyncio.create_task(started.wait())], return_when=asyncio.FIRST_COMPLETED)
    started.set()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with suppress(asyncio.CancelledError, DragomanError):
        await task


async def leave_at_once(transport: AsyncHttpTransport) -> None:
    async with transport.stream(ADAPTER, STREAM) as reply:
        async for _ in ADAPTER.stream_response(reply.chunks, context()):
            break


async def never_iterate(transport: AsyncHttpTransport) -> None:
    async with transport.stream(ADAPTER, STREAM) as reply:
        ADAPTER.stream_response(reply.chunks, context())


ASYNC = [cancel, cancel_twice, leave_at_once, never_iterate]


@pytest.mark.parametrize(("engine", "waves"), [("httpx", WAVES), pytest.param("aiohttp", 3, marks=requires("aiohttp"))])
@pytest.mark.parametrize("leave", ASYNC, ids=lambda leave: leave.__name__)
@pytest.mark.parametrize("ending", ["stall", "reset", "error status", "whole and on"])
def test_three_hundred_streams_abandoned_by_async_callers(
    ending: str, leave: Callable[..., object], engine: str, waves: int, exhaustive: bool
) -> None:
    """Twenty at a time, so that the pool is full; then twenty concurrent calls find a connection each."""

    async def main() -> None:
        async with AsyncHttpTransport(
            api_key="k", base_url=server.url, engine=engine, max_connections=POOL, retry=NO_RETRY
        ) as transport:
            for _ in range(waves if exhaustive else 1):
                left = await asyncio.gather(*[leave(transport) for _ in range(POOL)], return_exceptions=True)  # type: ignore[call-overload]
                assert all(error is None or isinstance(error, DragomanError) for error in left), left
            replies = await asyncio.gather(*[transport.send(ADAPTER, WHOLE, timeout=BUSY) for _ in range(POOL)])
            assert {reply.status for reply in replies} == {200}
            assert await asyncio.to_thread(server.wait_until_closed, POOL, BUSY) <= POOL
        await close_idle_connections_async()
        assert await asyncio.to_thread(server.wait_until_closed, 0, BUSY) == 0
        async with asyncio.timeout(BUSY):  # a task ends after its connection
            while asyncio.all_tasks() != {asyncio.current_task()}:
                await asyncio.sleep(0.01)

    with server_of(ending) as server:
        asyncio.run(main())
