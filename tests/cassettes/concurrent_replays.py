"""Sixty-four concurrent requests, from threads and tasks, over one cassette, a thousand times: each gets its own reply.

`python -m tests.cassettes.concurrent_replays [ROUNDS]`
"""

import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from dragoman.testing import cassette
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes.file import dump_exchanges

AT_ONCE = 64
ROUNDS = 1_000
SAME = 8
"""The number of requests that repeat another one: they share its replies, each of which is played once."""
URL = "http://replayed.invalid/v1/messages"


def body(number: int) -> dict[str, object]:
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": f"question {number}"}]}


def question(number: int) -> int:
    return number if number < AT_ONCE - SAME else number - SAME


def write_cassette(path: Path) -> Path:
    """As many exchanges as requests; the last ones repeat questions, with different replies."""
    exchanges = [
        Exchange(
            RecordedRequest("POST", "/v1/messages", json.dumps(body(question(number))).encode()),
            RecordedResponse(200, json.dumps({"reply": number}).encode(), {"content-type": "application/json"}),
        )
        for number in range(AT_ONCE)
    ]
    path.write_text(dump_exchanges(exchanges, server="by hand"), encoding="utf-8")
    return path


def expected() -> Counter[tuple[int, int]]:
    return Counter((question(number), number) for number in range(AT_ONCE))


def ask_in_threads(order: list[int], pool: ThreadPoolExecutor, client: httpx.Client) -> Counter[tuple[int, int]]:
    def ask(number: int) -> tuple[int, int]:
        return number, int(client.post(URL, json=body(number)).json()["reply"])

    return Counter(pool.map(ask, order))


async def ask_in_tasks(order: list[int], client: httpx.AsyncClient) -> Counter[tuple[int, int]]:
    async def ask(number: int) -> tuple[int, int]:
        await asyncio.sleep(0)
        return number, int((await client.post(URL, json=body(number))).json()["reply"])

    return Counter(await asyncio.gather(*map(ask, order)))


async def main(rounds: int = ROUNDS) -> int:
    wrong = 0
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool, httpx.Client() as client:
        path = write_cassette(Path(folder) / "c.yaml")
        async with httpx.AsyncClient() as async_client:
            for number in range(rounds):
                order = list(map(question, range(AT_ONCE)))
                rng.shuffle(order)
                with cassette(path) as recorder:
                    if number % 2:
                        found = await ask_in_tasks(order, async_client)
                    else:
                        found = ask_in_threads(order, pool, client)
                wrong += found != expected() or recorder.unplayed > 0 or bool(recorder.misses)
    print(f"{rounds} rounds of {AT_ONCE} requests at once, threads and tasks in turn: {wrong} were not as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*map(int, sys.argv[1:]))))
