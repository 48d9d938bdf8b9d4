"""Many clients on open connections, who cost little CPU and read each reply whole."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_LIMIT = 60.0


@dataclass(slots=True)
class Found:
    """What came of the requests of some clients: how often each status, 0 for a broken one, and how long 200 took."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    took: float = 0.0

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.statuses[200] / self.took

    def percentile(self, share: float) -> float:
        """Return a percentile of the times of answers, in milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")

    def others(self) -> dict[int, int]:
        """Return how often another status than 200 came."""
        return {status: number for status, number in sorted(self.statuses.items()) if status != 200}


class Connection:
    """A connection that is opened again after its end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._pair: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Return the status and the body of a reply; the status 0 if it broke off, or never came."""
        try:
            async with asyncio.timeout(_LIMIT):
                if self._pair is None:
                    self._pair = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
                reader, writer = self._pair
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                body = b""
                if b"content-length:" in head:
                    body = await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
                else:
                    while size := int(await reader.readline(), 16):
                        body += (await reader.readexactly(size + 2))[:-2]
                    await reader.readline()
                if b"connection: close" in head:
                    self.close()
                return int(head.split(b" ", 2)[1]), body
        except (TimeoutError, OSError, asyncio.IncompleteReadError, ValueError):
            self.close()
            return 0, b""

    def close(self) -> None:
        if self._pair is not None:
            self._pair[1].close()
        self._pair = None


def post(path: str, secret: str, body: dict[str, Any]) -> bytes:
    """Return the bytes of a request."""
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {secret}\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def question(secret: str, text: str = "Where is Bern?") -> bytes:
    """Return a request of Chat Completions."""
    messages = [{"role": "user", "content": text}]
    return post("/v1/chat/completions", secret, {"model": "house", "messages": messages, "max_tokens": 50})


async def ask_all(
    port: int,
    request: Callable[[int], bytes],
    *,
    clients: int,
    seconds: float,
    rate: float | None = None,
    each: Callable[[int, bytes], None] = lambda status, body: None,
) -> Found:
    """Let clients ask as fast as answers come, or at a rate for each. ``request`` returns the bytes of a number, and
    ``each`` gets each status and body."""
    found, numbers, stop = Found(), iter(range(10**9)), time.perf_counter() + seconds

    async def ask() -> None:
        connection = Connection(port)
        while (begin := time.perf_counter()) < stop:
            status, body = await connection.ask(request(next(numbers)))
            took = time.perf_counter() - begin
            found.statuses[status] += 1
            if status == 200:
                found.seconds.append(took)
            else:
                found.errors[body.decode(errors="replace")[:160]] += 1
            each(status, body)
            if rate is not None:
                await asyncio.sleep(max(0.0, 1 / rate - took))
        connection.close()

    begin = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(clients)))
    found.took = time.perf_counter() - begin
    return found
