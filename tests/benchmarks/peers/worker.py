"""One client in a process of its own. Reads orders from stdin, one per line, and answers with the CPU that they
took.
"""

import asyncio
import importlib
import json
import resource
import sys
import time
from typing import Any

from tests.benchmarks.peers.tasks import CALLING, Client, is_expected


async def _once(client: Client, base: str, shape: str) -> None:
    where = f"{base}/{shape}"
    if shape in ("call", "slow"):
        found = await client.call(where)
    else:
        found = await client.stream(where, tools=shape in CALLING)
    if not is_expected(shape, found):
        raise SystemExit(f"{shape}: not what was sent, but {found[:80]!r}")


async def _timed(client: Client, base: str, order: dict[str, Any]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(order["repeat"]):
        if order["together"] == 1:
            await _once(client, base, order["shape"])
        else:
            await asyncio.gather(*(_once(client, base, order["shape"]) for _ in range(order["together"])))
    times = order["repeat"] * order["together"]
    return {
        "cpu": (time.process_time() - cpu) / times,
        "wall": (time.perf_counter() - wall) / times,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def _main(name: str, wire: str, base: str) -> None:
    started = time.process_time()
    client: Client = importlib.import_module(f"tests.benchmarks.peers.{name}_client").connect(wire)
    answers = sys.__stdout__
    assert answers is not None
    sys.stdout = sys.stderr
    answers.write(json.dumps({"import": time.process_time() - started}) + "\n")
    answers.flush()
    while line := await asyncio.to_thread(sys.stdin.readline):
        answers.write(json.dumps(await _timed(client, base, json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
