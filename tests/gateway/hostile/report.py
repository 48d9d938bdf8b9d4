"""``python -m tests.gateway.hostile [--seconds N] [ATTACK...]``.

A gateway runs as a process, with a model that answers after a quarter of a second. Each attack runs in a loop, and
meanwhile another key asks, four requests at a time, and its 99th percentile is compared with that of a calm time.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from dragoman_gateway.database import Database
from dragoman_gateway.keys.amounts import parse_budget
from dragoman_gateway.keys.key_store import KeyStore
from dragoman_gateway.keys.records import Allowance
from dragoman_gateway.running.state_keys import VARIABLE, new_state_key
from tests.benchmarks.wires import WIRES
from tests.gateway.hostile.attacks import ATTACKS, Attack
from tests.gateway.hostile.senders import send
from tests.gateway.replicas.fleet import Replica
from tests.gateway.replicas.rows import Row, print_rows
from tests.gateway.serving import serving

_THINKS = 0.25
"""Seconds that the model takes: less than real ones do."""
_TIMES = 2.0
_MEMORY = 1024
"""MiB of a worker."""
_GROWTH = 16
"""MiB of the database."""
_TENANTS = 4


class _Model:
    """Answers all requests with a short text, and keeps none of them. It counts those of each wire."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        while (await receive()).get("more_body"):
            pass
        self.asked += 1
        await asyncio.sleep(_THINKS)
        body = json.dumps(WIRES["chat"].text_reply("In Switzerland.")).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@dataclass(frozen=True, slots=True)
class Noted:
    """What another key noticed: seconds of each request, and replies that were not 200."""

    seconds: list[float]
    failed: int

    @property
    def p99(self) -> float:
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)]


@contextmanager
def _gateway(folder: Path, model: str, *, keyed: bool) -> Iterator[tuple[Replica, Path]]:
    database = folder / f"{'keyed' if keyed else 'open'}.db"
    file = folder / f"{database.stem}.toml"
    file.write_text(
        f'[providers.openai-chat]\nbase_url = "{model}/v1"\nmax_retries = 0\n'
        f'[gateway]\nport = 0\nmax_connections = 2500\ndatabase = "sqlite:///{database}"\n'
        f'[gateway.keys]\nrequired = {json.dumps(keyed)}\n[gateway.models]\nhouse = "openai-chat:m"\n'
    )
    environment = {**os.environ, "DRAGOMAN_CONFIG": str(file), VARIABLE: new_state_key(), "OPENAI_API_KEY": "sk-x"}
    replica = Replica(database.stem, folder, environment)
    replica.start()
    try:
        yield replica, database
    finally:
        replica.kill()


def rows(names: Sequence[str], seconds: float) -> Iterator[Row]:
    """Yield what each attack did."""
    cpus = os.sched_getaffinity(0)
    with ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, cpus)
        os.sched_setaffinity(0, cpus - {max(cpus)} or cpus)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = _Model()
        address = stack.enter_context(serving(model))
        keyed, file = stack.enter_context(_gateway(folder, address, keyed=True))
        opened, _ = stack.enter_context(_gateway(folder, address, keyed=False))
        database = Database(f"sqlite:///{file}")
        stack.callback(database.close)
        keys = KeyStore(database)
        secrets = {name: keys.create(name=name)[1] for name in ("tenant", "hostile")}
        secrets["spent"] = keys.create(allowance=Allowance((parse_budget("1 tokens"),)))[1]
        secrets |= {"nobody": "sk-nobody", "page": ""}
        known = _store(keyed.url, secrets)
        _ask(keyed.url, secrets["tenant"], 1.0)  # what the first requests load
        calm = _ask(keyed.url, secrets["tenant"], 2 * seconds)
        yield Row("calm", f"p99 {calm.p99 * 1000:.0f} ms, {_memory(keyed):.0f} MiB", "", not calm.failed)
        for attack in ATTACKS:
            if not names or any(each in attack.name for each in names):
                target = opened if attack.who == "page" else keyed
                asked, size = model.asked, _size(file)
                noted, statuses, memory = _run(attack, target, keyed, secrets, known, max(cpus), seconds)
                tenants = len(noted.seconds) + noted.failed
                answered = 0 if attack.held else model.asked - asked - tenants
                growth = (_size(file) - size) / 2**20
                found = (
                    f"p99 {noted.p99 * 1000:.0f} ms ({noted.p99 / calm.p99:.1f} times), {memory:.0f} MiB,"
                    f" database +{growth:.0f} MiB, {noted.failed} of {tenants} failed; replies {statuses},"
                    f" the model was asked {max(0, answered)} times"
                )
                bound = f"{_TIMES:g} times, {_MEMORY} MiB, no failure" + ("" if attack.passes else ", none asked")
                holds = noted.p99 <= _TIMES * calm.p99 and memory <= _MEMORY and not noted.failed
                holds = holds and (attack.passes or (answered <= 0 and growth < _GROWTH))
                yield Row(attack.name, found, bound, holds)


def _store(url: str, secrets: dict[str, str]) -> dict[str, str]:
    """Return the ids of a stored item of a megabyte, of its response, and of an item of the other key."""
    known = {}
    for name, key, text in (("item", "hostile", "x" * 1_000_000), ("other", "tenant", "A secret.")):
        item = {
            "type": "message",
            "role": "user",
            "id": f"msg_{key}",
            "content": [{"type": "input_text", "text": text}],
        }
        head = {"authorization": f"Bearer {secrets[key]}"}
        reply = httpx.post(f"{url}/v1/responses", json={"model": "house", "input": [item]}, headers=head, timeout=60)
        known |= {name: f"msg_{key}"} | ({"response": reply.json()["id"]} if name == "item" else {})
    return known


def _run(
    attack: Attack,
    target: Replica,
    keyed: Replica,
    secrets: dict[str, str],
    known: dict[str, str],
    cpu: int,
    seconds: float,
) -> tuple[Noted, dict[int, int], float]:
    """Run an attack while the other key asks."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    arguments = (attack.name, target.url, secrets[attack.who], known, cpu, there)
    process = context.Process(target=send, args=arguments)
    process.start()
    here.recv()
    here.send("go")
    time.sleep(min(seconds, 2.0) if attack.held else 0.5)
    most, ends = [0.0], threading.Event()

    def watch() -> None:
        while not ends.wait(0.02):
            most.append(_memory(target))

    watching = threading.Thread(target=watch)
    watching.start()
    noted = _ask(keyed.url, secrets["tenant"], seconds)
    here.send("stop")
    statuses: dict[int, int] = here.recv()
    ends.set()
    watching.join()
    process.join()
    time.sleep(1)
    return noted, statuses, max(most)


def _ask(url: str, secret: str, seconds: float) -> Noted:
    """Ask for some seconds, some requests at a time."""
    noted, until = Noted([], 0), time.monotonic() + seconds
    failures: Counter[int] = Counter()
    body = {"model": "house", "messages": [{"role": "user", "content": "Where is Bern?"}], "max_tokens": 100}

    def ask() -> None:
        with httpx.Client(headers={"authorization": f"Bearer {secret}"}, timeout=60, trust_env=False) as client:
            while time.monotonic() < until:
                began = time.monotonic()
                try:
                    status = client.post(f"{url}/v1/messages", json=body).status_code
                except httpx.HTTPError:
                    status = 0
                if status != 200:
                    failures[status] += 1
                else:
                    noted.seconds.append(time.monotonic() - began)

    threads = [threading.Thread(target=ask) for _ in range(_TENANTS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return Noted(noted.seconds or [60.0], failures.total())


def _memory(replica: Replica) -> float:
    """Return the MiB of a gateway."""
    process = replica._process
    assert process is not None
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _size(database: Path) -> int:
    return sum(each.stat().st_size for each in database.parent.glob(f"{database.name}*"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Returns 1 if something does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.hostile", description=__doc__)
    parser.add_argument("attacks", nargs="*", help="parts of the names of attacks; by default all")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each attack runs; by default 15")
    options = parser.parse_args(arguments)
    if sys.platform != "linux":
        print("the memory of a process is read from /proc: this runs on Linux", file=sys.stderr)
        return 2
    return print_rows(rows(options.attacks, options.seconds))
