"""How long a hostile stream keeps the event loop from other tasks, in CPU time of its thread."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import httpx

from dragoman import AsyncSession
from dragoman.errors import DragomanError
from tests.hardening.hostile_streams import STREAMS, HostileStream

MAX_STALL = 0.05
"""Seconds of CPU that a stream may take at once."""
KEY = "key-of-a-test"


@dataclass(frozen=True)
class Stall:
    """``turns``: how often other tasks ran. ``error``: the class of the typed error, or of a bare one."""

    name: str
    mebibytes: float
    longest: float
    cpu: float
    turns: int
    error: str
    typed: bool

    @property
    def enough(self) -> bool:
        return self.typed and self.longest <= MAX_STALL


class _Body(httpx.AsyncByteStream):
    """A body of which everything has already arrived: reading it never waits."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


class _Ticker:
    """Another task of the loop: notes the CPU time between two of its turns."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.turns = 0

    async def run(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.turns, self.longest, last = self.turns + 1, max(self.longest, now - last), now


def measure(stream: HostileStream, size: int) -> Stall:
    """Read one stream in a session to its end.

    What the process already holds is hidden from the garbage collector: its pauses grow with that, not with the stream.
    """
    gc.collect()
    gc.freeze()
    try:
        return _measure(stream, size)
    finally:
        gc.unfreeze()


def _measure(stream: HostileStream, size: int) -> Stall:
    chunks = list(stream.chunks(size))
    headers = {"content-encoding": "gzip"} if stream.compressed or stream.name == "empty compressed parts" else {}

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers=headers, stream=_Body(chunks))

    async def main() -> tuple[float, int, Exception | None]:
        ticker, error = _Ticker(), None
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            settings = {"client": client, "api_key": KEY, "max_retries": 0}
            provider = stream.model.partition(":")[0]
            async with AsyncSession(stream.model, providers={provider: settings}) as session:
                task = asyncio.create_task(ticker.run())
                await asyncio.sleep(0)
                try:
                    async with session.stream("Hi") as events:
                        async for _ in events:
                            pass
                except Exception as raised:
                    error = raised
                await asyncio.sleep(0)
                task.cancel()
        return ticker.longest, ticker.turns, error

    started = time.process_time()
    longest, turns, error = asyncio.run(main())
    return Stall(
        stream.name, sum(map(len, chunks)) / 2**20, longest, time.process_time() - started, turns,
        type(error).__name__ if error else "-", error is None or isinstance(error, DragomanError),
    )  # fmt: skip


def rows(size: int, names: list[str] | None = None) -> Iterator[Stall]:
    for stream in STREAMS:
        if not names or stream.name in names:
            yield measure(stream, size)


def lines(stalls: Iterator[Stall]) -> Iterator[str]:
    """The table, line by line as it is measured."""
    yield f"{'hostile stream':<34}{'MiB sent':>10}{'longest stall ms':>18}{'CPU s':>8}{'turns':>9}  ends with"
    for row in stalls:
        yield (
            f"{row.name:<34}{row.mebibytes:>10.2f}{1000 * row.longest:>18.1f}{row.cpu:>8.2f}{row.turns:>9}"
            f"  {row.error}{'' if row.typed else ' (NOT TYPED)'}{'' if row.longest <= MAX_STALL else ' TOO LONG'}"
        )
