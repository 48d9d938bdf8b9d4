"""Load on a gateway: requests over connections that stay open, counted and checked to their last byte."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.gateway.servers import Target

QUESTION = "What is the capital of France?"
SYSTEM = "You are a helpful assistant. " * 40
ENDS = {"chat": b"[DONE]", "messages": b"message_stop", "responses": b'"total_tokens"'}
_TAIL = 4000
"""The bytes at the end of a reply that are searched: a response repeats its request behind the counts."""
PATHS = {"chat": "/chat/completions", "messages": "/messages", "responses": "/responses"}


@dataclass(slots=True)
class Load:
    """What came of a load: ``latencies`` are of the requests that ended well, in seconds."""

    seconds: float = 0.0
    failed: int = 0
    latencies: list[float] = field(default_factory=list)

    @property
    def done(self) -> int:
        return len(self.latencies)

    def percentile(self, share: float) -> float:
        """Return a percentile of the latencies in milliseconds."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def request_bytes(target: Target, wire: str, model: str, *, stream: bool) -> bytes:
    """Return a request of some 1.5 KB with its headers."""
    body: dict[str, Any] = {"model": model, **({"stream": True} if stream else {})}
    if wire == "messages":
        body |= {"max_tokens": 1000, "system": SYSTEM, "messages": [{"role": "user", "content": QUESTION}]}
    elif wire == "responses":
        body |= {"instructions": SYSTEM, "input": QUESTION}
    else:
        body |= {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]}
    content = json.dumps(body).encode()
    headers = {
        "host": f"127.0.0.1:{target.port}", "content-type": "application/json", "authorization": "Bearer none",
        "x-api-key": "none", "anthropic-version": "2023-06-01", "content-length": str(len(content)), **target.headers,
    }  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {target.prefix}{PATHS[wire]} HTTP/1.1\r\n{lines}\r\n".encode() + content


class Connection:
    """One connection that is opened again after a failure."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, request: bytes, end: bytes = b"", limit: float = 30.0) -> bool:
        """Return whether the reply was whole: the status 200, and the end that the wire's streams have."""
        try:
            async with asyncio.timeout(limit):
                return await self._send(request, end)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, ValueError):
            await self.close()
            return False

    async def _send(self, request: bytes, end: bytes) -> bool:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        if b"content-length:" in head:
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            tail = (await self._reader.readexactly(length))[-_TAIL:]
        else:
            tail = b""
            while not tail.endswith(b"0\r\n\r\n"):
                piece = await self._reader.read(1 << 16)
                if not piece:
                    raise ConnectionError
                tail = (tail + piece)[-_TAIL:]
        if b"connection: close" in head:
            await self.close()
        return head.split(b" ", 2)[1] == b"200" and end in tail

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def full_load(port: int, request: bytes, end: bytes, seconds: float, connections: int = 32) -> Load:
    """Ask as fast as answers come."""
    load = Load()
    stop = time.perf_counter() + seconds

    async def ask() -> None:
        connection = Connection(port)
        while (begin := time.perf_counter()) < stop:
            if await connection.send(request, end):
                load.latencies.append(time.perf_counter() - begin)
            else:
                load.failed += 1
        await connection.close()

    begin = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(connections)))
    load.seconds = time.perf_counter() - begin
    return load


async def steady_load(port: int, request: bytes, rate: float, seconds: float) -> Load:
    """Ask at a fixed rate, whether answers come or not."""
    load = Load()
    idle: list[Connection] = []
    asked: set[asyncio.Task[None]] = set()

    async def ask() -> None:
        connection = idle.pop() if idle else Connection(port)
        begin = time.perf_counter()
        if await connection.send(request):
            load.latencies.append(time.perf_counter() - begin)
        else:
            load.failed += 1
        idle.append(connection)

    begin = time.perf_counter()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
        task = asyncio.ensure_future(ask())
        asked.add(task)
        task.add_done_callback(asked.discard)
    await asyncio.gather(*asked)
    load.seconds = time.perf_counter() - begin
    for connection in idle:
        await connection.close()
    return load


async def open_streams(port: int, request: bytes, end: bytes, count: int, sampled: "asyncio.Event") -> Load:
    """Hold that many streams open at once; ``sampled`` is set when all of them have begun."""
    load = Load()
    begun = 0

    async def ask() -> None:
        nonlocal begun
        try:
            async with asyncio.timeout(120):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
                begin = time.perf_counter()
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                tail = await reader.read(1 << 16)
                load.latencies.append(time.perf_counter() - begin)
                begun += 1
                if begun == count:
                    sampled.set()
                while piece := await reader.read(1 << 16):
                    tail = (tail + piece)[-_TAIL:]
                    if tail.endswith(b"0\r\n\r\n"):
                        break
                writer.close()
                if b" 200" not in head or end not in tail:
                    load.failed += 1
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            load.failed += 1

    begin = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(count)))
    sampled.set()
    load.seconds = time.perf_counter() - begin
    return load
