"""The memory of one open stream: `python -m tests.benchmarks.streams.stream_memory [streams]`.

It is compared with httpx alone.

The streams start and then pause, each client in a process of its own; the table shows the growth of the process from
its first stream, which is over by then, until all of them are open.
"""

import asyncio
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.transport import AsyncHttpTransport
from tests.benchmarks.timing import ROOT, mock_provider
from tests.benchmarks.wires import WIRES

_MODEL = WIRES["messages"].model


class OpenStreams:
    """The open streams, until all of them are open."""

    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._count = 0
        self._all = asyncio.Event()
        self.kilobytes = 0.0

    async def one(self) -> None:
        self._count += 1
        if self._count == self._streams:
            self.kilobytes = _kilobytes()
            self._all.set()
        await self._all.wait()


def _kilobytes() -> float:
    """The memory of this process at present."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 1024


async def _memory_growth(stream: Callable[[OpenStreams], Awaitable[None]], streams: int) -> float:
    await stream(OpenStreams(1))
    before, opened = _kilobytes(), OpenStreams(streams)
    await asyncio.gather(*(stream(opened) for _ in range(streams)))
    return (opened.kilobytes - before) / streams


async def _dragoman(base: str, streams: int) -> float:
    async with AsyncHttpTransport(base_url=f"{base}/open", api_key="none", max_connections=streams) as transport:

        async def stream(opened: OpenStreams) -> None:
            adapter, context = get_adapter(_MODEL), RequestContext.for_model(_MODEL)
            options = AdapterOptions(max_output_tokens=100, stream=True, context=context)
            async with transport.stream(adapter, adapter.to_wire([Message.user("Go.")], [], options)) as reply:
                async for event in adapter.stream_response(reply.chunks, context):
                    if event.type == "text_delta":
                        await opened.one()
                        return

        return await _memory_growth(stream, streams)


async def _raw(base: str, streams: int) -> float:
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=streams), timeout=60) as client:
        body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "stream": True}

        async def stream(opened: OpenStreams) -> None:
            async with client.stream("POST", f"{base}/open/v1/messages", json=body) as reply:
                async for line in reply.aiter_lines():
                    if "text_delta" in line:
                        await opened.one()
                        return

        return await _memory_growth(stream, streams)


CLIENTS = {"raw httpx": _raw, "Dragoman": _dragoman}


def main() -> None:
    if len(sys.argv) > 2:
        title, base, streams = sys.argv[1:]
        print(asyncio.run(CLIENTS[title](base, int(streams))))
        return
    wanted = sys.argv[1] if len(sys.argv) > 1 else "300"
    print(f"| streams open | {', KiB each | '.join(CLIENTS)}, KiB each |\n| --- |{' --- |' * len(CLIENTS)}")
    found: list[float] = []
    with mock_provider() as base:
        for title in CLIENTS:
            command = [sys.executable, "-m", "tests.benchmarks.streams.stream_memory", title, base, wanted]
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
            found.append(float(done.stdout))
    print(f"| {wanted} | {' | '.join(f'{each:.0f}' for each in found)} |")


if __name__ == "__main__":
    main()
