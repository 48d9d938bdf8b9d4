"""The machine that opens, cuts, leaves and counts. `python -m tests.laws.money` runs it for longer."""

import asyncio
import contextlib
import json
import random
import select
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import httpx
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from dragoman import AdapterOptions, AsyncClient, Client
from dragoman.errors import DragomanError
from dragoman.limits import Budget
from dragoman.testing.faults.server import FaultyServer
from dragoman_gateway.database import Database
from tests.gateway.keyed import Keyed
from tests.gateway.upstream import PATIENCE
from tests.laws.money.gateway import PRICE, client_settings, gateway, gateway_process
from tests.laws.money.provider import INPUT_TOKENS, PROVIDERS, WORD, Plan, Provider

BUDGET = 20_000 * PRICE
MAX_WORDS = 200
BOUND = 1 * PRICE
"""What one request may deliver above what is booked: the output is counted in whole tokens."""
LEAST_INPUT, MOST_INPUT = 5, 60
"""Between these is each estimate of the machine's prompt, in tokens."""
WIRES = tuple(PROVIDERS)
PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
}

SECONDS = 30.0
"""How long a word may take that its provider has sent."""
ROADS = ("key", "key", "key", "sync", "async", "row")


class World:
    """A provider, the gateways before it, and what a client of it is set to."""

    def __init__(self, provider: Provider, urls: Sequence[str], keys: Keyed, settings: dict[str, Any]) -> None:
        self.provider = provider
        self.urls = urls
        self.keys = keys
        self.settings = settings


@contextlib.contextmanager
def world(database: str | None = None, processes: int = 0) -> Iterator[World]:
    """Yield a world with a gateway in this process, or with so many in processes of their own, on one database: a
    file, if none is named.
    """
    provider = Provider()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        place = database or f"sqlite:///{folder / 'gateway.db'}"
        server = stack.enter_context(FaultyServer(provider))
        start = gateway_process if processes else gateway
        urls = [stack.enter_context(start(server.url, place)) for _ in range(processes or 1)]
        opened = Database(place)
        stack.callback(opened.close)
        yield World(provider, urls, Keyed(urls[0], server, opened, [], stack), client_settings(server.url))


class Money(RuleBasedStateMachine):
    """Each run has a key and a client with budgets of their own. ``world`` outlives the runs: it starts slowly."""

    world: ClassVar[World]

    @initialize()
    def open(self) -> None:
        self.key_id, self.secret = self.world.keys.create_key(f"{BUDGET:f}")
        self.world.keys.spend(f"key:{self.key_id}", 0)
        self.budget = Budget(usd=BUDGET, per="client")
        self.booked = {"key": Decimal(0), "client": Decimal(0)}

    @rule(seed=st.integers(0, 2**32 - 1))
    def ask(self, seed: int) -> None:
        """Ask once. A seed draws evenly: drawn one by one, nearly all replies would be short and whole."""
        draw = random.Random(seed)
        plan = Plan(
            words=draw.choice([1, 3, 60, MAX_WORDS]),
            ending=draw.choice(["whole", "cut", "left"]),
            share=draw.choice([draw.random(), 0.9, 1.0]),
            tier=draw.choice([None, None, "priority"]),
            renamed=draw.random() < 0.3,
        )
        road, streams, most = draw.choice(ROADS), draw.random() < 0.7, draw.choice([None, MAX_WORDS])
        leaves = None
        if plan.ending == "left":
            leaves = min(draw.choice([0, 1, 50, MAX_WORDS]), plan.sent_words) if streams else 0
        self.world.provider.begin(plan)
        wire, behind = draw.choice(WIRES), draw.choice(WIRES)
        if road == "row" and leaves is None:
            is_answered, words = self._send_row(behind)
        elif road == "key":
            path, body = _request(wire, f"house-{behind}", streams, most)
            is_answered, words = self._ask_gateway(draw.choice(self.world.urls), path, body, streams, leaves)
            words = min(words, plan.words)  # the last events of a stream repeat them
        else:
            settings = {} if most is None else {"options": AdapterOptions(max_output_tokens=most)}
            asked = (f"{PROVIDERS[behind]}:m", settings, streams, leaves)
            # What leaves a request that blocks is another thread: it is cancelled in a loop.
            in_loop = road == "async" or (leaves is not None and not streams)
            is_answered, words = asyncio.run(self._ask_async(*asked)) if in_loop else self._ask_sync(*asked)
        self.world.provider.left.set()
        self._check("key" if road == "key" else "client", words, plan, is_answered)

    def _send_row(self, behind: str) -> tuple[bool, int]:
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            Client(**self.world.settings, budgets=[self.budget]) as client,
            client.bulk(
                ["Where is Bern?"], f"{PROVIDERS[behind]}:m", to=Path(folder) / "rows.jsonl",
                options=AdapterOptions(max_output_tokens=MAX_WORDS),
            ) as report,
        ):  # fmt: skip
            words = sum((row["answer"] or "").count(WORD) for row in report)
        return bool(words), words

    def _ask_gateway(
        self, url: str, path: str, body: dict[str, Any], streams: bool, leaves: int | None
    ) -> tuple[bool, int]:
        if leaves is not None and not streams:
            self._leave(url, path, body)
            return False, 0
        headers = {"x-api-key": self.secret}
        with httpx.Client(base_url=url, headers=headers, timeout=SECONDS) as client:
            return _read(client, path, body, leaves)

    def _check(self, who: str, words: int, plan: Plan, is_answered: bool) -> None:
        spent = self.world.keys.spent(f"key:{self.key_id}") if who == "key" else self.budget.spend_of(None)
        booked = spent.usd
        charged = booked - self.booked[who]
        self.booked[who] = booked
        seen = f"{charged / PRICE} tokens are booked, and {words} were read: {plan}"
        if words:
            assert charged + BOUND >= (LEAST_INPUT + words) * PRICE, seen
        if plan.ending == "left" and self.world.provider.arrived.is_set():
            assert charged >= LEAST_INPUT * PRICE, seen
        if plan.ending == "whole" and is_answered:
            assert charged == (INPUT_TOKENS + plan.words) * PRICE, seen
        assert charged <= (MOST_INPUT + plan.words) * PRICE, seen

    def _ask_sync(self, model: str, settings: Any, streams: bool, leaves: int | None) -> tuple[bool, int]:
        words = 0
        with contextlib.suppress(DragomanError), Client(**self.world.settings, budgets=[self.budget]) as client:
            if not streams:
                return True, client.ask(model, "Where is Bern?", **settings).text.count(WORD)
            with client.session(model, **settings) as session, session.stream("Where is Bern?") as stream:
                if leaves == 0:
                    return False, 0
                for event in stream:
                    words += getattr(event, "text", "").count(WORD) if event.type == "text_delta" else 0
                    if leaves is not None and words >= leaves:
                        return False, words
                return True, words
        return False, words

    async def _ask_async(self, model: str, settings: Any, streams: bool, leaves: int | None) -> tuple[bool, int]:
        words = 0
        with contextlib.suppress(DragomanError):
            async with AsyncClient(**self.world.settings, budgets=[self.budget]) as client:
                if not streams:
                    asked = asyncio.ensure_future(client.ask(model, "Where is Bern?", **settings))
                    if leaves is not None:
                        await self._cancel(asked)
                        return False, 0
                    return True, (await asked).text.count(WORD)
                async with client.session(model, **settings) as session, session.stream("Where is Bern?") as stream:
                    async for event in stream:
                        words += getattr(event, "text", "").count(WORD) if event.type == "text_delta" else 0
                        if leaves is not None and words >= leaves:
                            return False, words
                    return True, words
        return False, words

    def _leave(self, url: str, path: str, body: dict[str, Any]) -> None:
        """Ask for a whole reply, and leave when the provider has been asked; or when the gateway has refused."""
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: gateway\r\nx-api-key: {self.secret}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        address = httpx.URL(url)
        with socket.create_connection((address.host, address.port or 80)) as connection:
            connection.sendall(head.encode() + data)
            while not self.world.provider.arrived.wait(0.01):
                if select.select([connection], [], [], 0)[0]:
                    break

    async def _cancel(self, asked: "asyncio.Future[Any]") -> None:
        arrived = self.world.provider.arrived
        asked.add_done_callback(lambda _: arrived.set())
        await asyncio.to_thread(arrived.wait, PATIENCE)
        asked.cancel()
        await asyncio.wait([asked])


def _request(wire: str, model: str, streams: bool, most: int | None) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a short request. On Messages a maximum of output is required."""
    asked = "Where is Bern?"
    if wire == "google":
        method = "streamGenerateContent?alt=sse" if streams else "generateContent"
        body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": asked}]}]}
        limit = {} if most is None else {"generationConfig": {"maxOutputTokens": most}}
        return f"/v1beta/models/{model}:{method}", body | limit
    said = {"input": asked} if wire == "responses" else {"messages": [{"role": "user", "content": asked}]}
    if wire == "messages":
        most = most or 4 * MAX_WORDS
    limit = {} if most is None else _limit(wire, most)
    return PATHS[wire], {"model": model, "stream": streams, **said, **limit}


def _limit(wire: str, most: int) -> dict[str, Any]:
    if wire == "ollama":
        return {"options": {"num_predict": most}}
    return {"max_output_tokens" if wire == "responses" else "max_tokens": most}


def _read(client: httpx.Client, path: str, body: dict[str, Any], leaves: int | None = None) -> tuple[bool, int]:
    """Return whether the reply came to its end, and the words that were read. Leave when there are so many."""
    received = bytearray()
    try:
        with client.stream("POST", path, json=body) as reply:
            if reply.status_code != 200:
                return False, 0
            if leaves == 0:
                return False, 0
            for data in reply.iter_raw():
                received += data
                if leaves is not None and received.count(WORD.encode()) >= leaves:
                    return False, leaves
    except httpx.ReadTimeout:
        raise AssertionError(f"{path} {body}: {leaves} words do not arrive, but {received!r:.2000}") from None
    except httpx.RemoteProtocolError:
        return False, received.count(WORD.encode())
    return b"error" not in received, received.count(WORD.encode())


def run(machine: type[RuleBasedStateMachine], runs: int, steps: int) -> None:
    """Raises AssertionError if the law is broken."""
    how = settings(
        max_examples=runs, stateful_step_count=steps, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=how)
