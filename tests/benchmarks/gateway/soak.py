"""A long mixed load on our gateway: whole and streamed, both wires, errors, clients that leave, large bodies."""

import asyncio
import itertools
import json
import time

from tests.benchmarks.gateway.load import ENDS, Connection, request_bytes
from tests.benchmarks.gateway.servers import Target, resident_bytes, running

_WARM_SHARE = 0.2
"""The share of the time after which the memory has to be flat."""
MOST_GROWTH = 1.0
"""MiB a minute that the memory may grow."""


def main(upstream: str, seconds: float) -> int:
    """Print the memory over time and its slope. Returns 1 if it grows."""
    with running("dragoman", upstream) as target:
        samples, done, failed = asyncio.run(_soak(target, seconds))
    for moment, size in samples[:: max(1, len(samples) // 20)]:
        print(f"{moment:7.0f} s  {size / 2**20:8.1f} MiB")
    grown = slope([(moment, size) for moment, size in samples if moment > _WARM_SHARE * seconds])
    print(f"{done:,} requests, {failed} failed; memory grows by {grown:.2f} MiB a minute (most {MOST_GROWTH})")
    return int(grown > MOST_GROWTH or failed > 0)


async def _soak(target: Target, seconds: float) -> tuple[list[tuple[float, int]], int, int]:
    requests = [
        (request_bytes(target, wire, model, stream=stream), ENDS[wire] if stream else b"")
        for wire in ("chat", "messages", "responses") for model in ("chat", "claude") for stream in (False, True)
    ]  # fmt: skip
    begin, done, failed = time.monotonic(), 0, 0
    samples: list[tuple[float, int]] = []
    stop = begin + seconds

    async def ask() -> None:
        nonlocal done, failed
        connection = Connection(target.port)
        for request, end in itertools.cycle(requests):
            if time.monotonic() > stop:
                break
            failed += not await connection.send(request, end)
            done += 1
        await connection.close()

    async def misbehave() -> None:
        """Send what is refused, a large body, and leave in the middle of streams."""
        large = json.dumps({"model": "nobody", "messages": ["x" * 500_000]}).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        head += b"content-length: "
        while time.monotonic() < stop:
            connection = Connection(target.port)
            await connection.send(head + str(len(large)).encode() + b"\r\n\r\n" + large)
            await connection.send(head + b"1\r\n\r\n{")
            await connection.close()
            _, writer = await asyncio.open_connection("127.0.0.1", target.port)
            writer.write(requests[3][0])
            await asyncio.sleep(0.01)
            writer.close()

    async def sample() -> None:
        while (now := time.monotonic()) < stop:
            samples.append((now - begin, resident_bytes(target.pid)))
            await asyncio.sleep(min(1.0, seconds / 50))

    await asyncio.gather(sample(), misbehave(), *(ask() for _ in range(16)))
    return samples, done, failed


def slope(samples: list[tuple[float, int]]) -> float:
    """Return the growth in MiB a minute, by least squares."""
    if len(samples) < 2:
        return 0.0
    middle = sum(moment for moment, _ in samples) / len(samples)
    mean = sum(size for _, size in samples) / len(samples)
    above = sum((moment - middle) * (size - mean) for moment, size in samples)
    below = sum((moment - middle) ** 2 for moment, _ in samples)
    return above / below * 60 / 2**20
