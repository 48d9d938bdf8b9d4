"""Why bulk runs do without Ray Data: `python -m tests.bulk.ray_data --rows N`; it needs ``ray[data]``.

The same rows, on the same two nodes, through `map_batches` with an asynchronous actor, whose workers are killed twice
with signal 9. It prints how many rows were paid for when the first answer came back to the program, which could record
none of them before, and how many were requested again, next to how many were in flight in both workers at a kill.
"""

import argparse
import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

from tests.bulk import scale
from tests.bulk.cluster import Nodes, cluster
from tests.bulk.mock_provider import mock_provider

KILLS = 2
_BATCH = 32
_BLOCK = 500


class Ask:
    """Asks the rows of a batch concurrently."""

    def __init__(self, url: str) -> None:
        import httpx

        self._client = httpx.AsyncClient(timeout=30.0)
        self._url = url

    async def __call__(self, batch: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        async def ask(row: int) -> str:
            reply = await self._client.post(self._url, json={"prompt": f"row {row}"})
            return str(reply.json()["content"][0]["text"])

        yield {"id": batch["id"], "answer": await asyncio.gather(*map(ask, batch["id"]))}


def kill_twice(nodes: Nodes, url: str, rows: int, in_flight: list[int], over: threading.Event) -> None:
    """At a quarter of the rows, and at half of them, while a worker is busy."""
    while len(in_flight) < KILLS and not over.wait(0.05):
        counts = scale.request_counts(url)
        workers = sorted(nodes.workers(b"ray::MapWorker"))
        if workers and counts["under_way"] and counts["rows"] >= (len(in_flight) + 1) * rows / 4:
            in_flight.append(counts["under_way"])
            os.kill(workers[0], signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bulk.ray_data", description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000)
    rows = parser.parse_args().rows
    with cluster(cpus=3) as nodes, mock_provider(0.05) as url:
        ray: Any = import_module("ray")
        data: Any = import_module("ray.data")
        ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
        data.DataContext.get_current().enable_progress_bars = False
        in_flight: list[int] = []
        over = threading.Event()
        killing = threading.Thread(target=kill_twice, args=(nodes, url, rows, in_flight, over))
        killing.start()
        dataset = data.range(rows, override_num_blocks=max(1, rows // _BLOCK)).map_batches(
            Ask, fn_constructor_args=(url,), batch_size=_BATCH, compute=data.ActorPoolStrategy(size=2)
        )
        came, paid, began = 0, 0, time.monotonic()
        for _ in dataset.iter_rows():
            paid = paid or scale.request_counts(url)["requests"]
            came += 1
        over.set()
        killing.join()
        again = scale.request_counts(url)["requests"] - rows
        ray.shutdown()
    print(f"{came:,} of {rows:,} rows came back in {time.monotonic() - began:.0f} s")
    print(f"{paid:,} requests were paid for when the first of them did")
    print(
        f"{len(in_flight)} kills: {again:,} rows requested again, and {sum(in_flight):,} were under way in both workers"
    )
    return 0 if came == rows else 1


if __name__ == "__main__":
    sys.exit(main())
