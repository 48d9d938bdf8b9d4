"""What an agent's requests cost the gateway, with a provider of another wire: CPU, and the longest stop of the loop.

The gateway runs in this process, without a server: what reads HTTP costs each request the same.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import httpx

from dragoman import AsyncClient
from dragoman.policy import Pipeline
from dragoman_gateway import GatewaySettings, create_app
from dragoman_gateway.server.process import collect_old_objects, tune_memory
from tests.benchmarks.agents.requests import body, growing, tools, wire_messages
from tests.benchmarks.policy import readers
from tests.benchmarks.timing import Row
from tests.benchmarks.wires import SENTENCE, WIRES

TARGET = "openai-chat:gpt-5.2"
SIZES = ((30, 100), (100, 400))
"""Tools and messages of a request."""
REQUESTS, SKIPPED = 24, 4
SMALL_WAIT = 0.002
STOPS = 5
_REPLY = json.dumps(WIRES["chat"].text_reply(SENTENCE)).encode()
_TYPES = [(b"content-type", b"application/json"), (b"authorization", b"Bearer none"), (b"host", b"localhost")]


def gateway(*, max_repeated: int = 64 * 1024 * 1024, **settings: Any) -> Any:
    """A gateway whose every model is one of another wire."""

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "application/json"}, content=_REPLY)

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    providers: dict[str, Any] = {"openai-chat": {"client": client, "api_key": "none"}}
    own = GatewaySettings(models={"*": TARGET}, max_repeated=max_repeated)
    return create_app(own, client=AsyncClient(providers=providers, **settings))


async def ask(app: Any, sent: bytes, path: str = "/v1/messages", *, address: str = "127.0.0.1") -> bytes:
    """Return the answer of the application to one request."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": _TYPES,
        "client": (address, 1), "server": ("localhost", 80),
    }  # fmt: skip
    parts: list[bytes] = []
    status, left = 0, [{"type": "http.request", "body": sent, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if left:
            return left.pop()
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    assert status == 200, b"".join(parts)
    return b"".join(parts)


async def next_requests(app: Any, bodies: Sequence[bytes]) -> tuple[float, float]:
    """Return the microseconds of CPU of json.loads and json.dumps, and of the gateway, for an agent's next request."""
    peer, ours = [], []
    for sent in bodies:
        started = time.process_time()
        json.dumps(json.loads(sent))
        middle = time.process_time()
        await ask(app, sent)
        peer.append((middle - started) * 1e6)
        ours.append((time.process_time() - middle) * 1e6)
    return statistics.median(peer[SKIPPED:]), statistics.median(ours[SKIPPED:])


def next_rows() -> list[Row]:
    found = []
    for tool_count, messages in SIZES:
        bodies = growing(messages, tool_count, REQUESTS)
        what = f"gateway, other wire, {tool_count} tools and {messages} messages ({len(bodies[0]) // 1000} KB)"
        found.append(Row(what, "json.loads + dumps", *asyncio.run(_measure(bodies)), "at most 3x"))
        governed = asyncio.run(_measure(bodies, policy=Pipeline(readers(1))))
        found.append(Row(f"{what}, a policy that reads all", "json.loads + dumps", *governed, "measured"))
    return found


async def _measure(bodies: Sequence[bytes], **settings: Any) -> tuple[float, float]:
    app = gateway(**settings)
    async with app.router.lifespan_context(app):
        return await next_requests(app, bodies)


def large_bodies() -> dict[str, bytes]:
    picture = {"type": "base64", "media_type": "image/png", "data": "A" * (20 * 1024 * 1024)}
    shown = {"role": "user", "content": [{"type": "image", "source": picture}, {"type": "text", "text": "What is it?"}]}
    return {
        "10,000 messages": body(wire_messages(10_000), tools(5)),
        "an image of 20 MB": body([shown], []),
        "2,000 tools": body(wire_messages(3), tools(2_000)),
    }


async def longest_stop(app: Any, sent: bytes) -> float:
    """Return the milliseconds for which the loop stood still at most while one request was answered.

    What other programs take of the processor does not count: a stop is no longer than the processor's time of this one.
    """
    longest = 0.0
    ended = asyncio.Event()

    async def watch() -> None:
        nonlocal longest
        while not ended.is_set():
            began, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(SMALL_WAIT)
            stopped = time.perf_counter() - began - SMALL_WAIT
            longest = max(longest, min(stopped, time.process_time() - used))

    watching = asyncio.create_task(watch())
    await asyncio.sleep(3 * SMALL_WAIT)
    await ask(app, sent)
    ended.set()
    await watching
    return longest * 1e3


def stop_rows() -> list[Row]:
    return [
        Row(f"longest stop of the loop, {name}", "aim: 50 ms", 50_000, asyncio.run(_stop(sent)) * 1e3, "at most 50 ms")
        for name, sent in large_bodies().items()
    ]


async def _stop(sent: bytes) -> float:
    tune_memory()  # as a server does
    app = gateway()
    async with app.router.lifespan_context(app):
        await ask(app, body(wire_messages(3), tools(2)))
        longest = 0.0
        for _ in range(STOPS):
            longest = max(longest, await longest_stop(app, sent))
            collect_old_objects(is_busy=False)  # as a server does when nobody waits
        return longest


def rows() -> list[Row]:
    return [*next_rows(), *stop_rows()]
