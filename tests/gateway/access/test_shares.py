"""What is decided before a body is read, and what one key leaves to the others."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import zstandard

from dragoman_gateway.keys.amounts import Concurrency
from dragoman_gateway.keys.records import Allowance
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.running.shares import Shares
from dragoman_gateway.settings import GatewaySettings
from tests.gateway.app.test_bad_night import wait_until
from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import PATHS, PATIENCE, question, waiting_reply, whole_reply

CHAT = PATHS["chat"]
TEXT = question("chat", "house")
ALL_PATHS = (*PATHS.values(), "/v1/embeddings", "/v1beta/models/house:generateContent", "/api/chat")


@contextmanager
def begun(setup: Keyed, key: int | str, *, sent: bytes = b"{", length: int = 10_000, path: str = CHAT) -> Iterator[Any]:
    """Yield a connection over which a part of a body has arrived."""
    host, port = setup.url.removeprefix("http://").split(":")
    secret = setup.secrets[key] if isinstance(key, int) else key
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secret}\r\ncontent-type: application/json\r\n"
        )
        connection.sendall(f"{head}content-length: {length}\r\n\r\n".encode() + sent)
        yield connection


def answer_of(connection: Any) -> tuple[int, dict[str, str], Any]:
    """Return the status, the headers and the body of a reply that does not wait for the rest."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65_536)
    return int(lines[0].split()[1]), headers, json.loads(body)


def gateway(start: Start, **settings: Any) -> tuple[Keyed, Any]:
    earlier = set(Gateway.running)
    setup = start(settings.pop("script", whole_reply("chat")), **settings)
    (running,) = set(Gateway.running) - earlier
    return setup, running


def test_work_for_one_caller_rests_while_others_ask() -> None:
    """Its next work waits three times as long as the last one took, and not at all if nobody else asks."""

    async def scenario() -> tuple[bool, float]:
        shares, settings = Shares(), GatewaySettings()
        busy, loop = shares.enter("busy", settings), asyncio.get_running_loop()
        await busy.work(100_000, lambda: time.sleep(0.05))
        waits = busy._held.turn.locked()
        other = shares.enter("other", settings)
        await busy.work(100_000, lambda: time.sleep(0.05))
        ended = loop.time()
        await busy.work(100_000, lambda: None)
        for each in (busy, other):
            each.close()
        shares.close()
        return waits, loop.time() - ended

    waits, rested = asyncio.run(scenario())
    assert not waits
    assert rested >= 0.14  # timers may be early by their resolution


def test_slow_bodies_of_one_key_leave_room_for_the_others(start: Start) -> None:
    """Half of all requests are its share. What it has more is refused at once, and the bodies of others are read."""
    setup, running = gateway(start, max_requests=6)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(begun(setup, 0))
        wait_until(lambda: running.in_flight == 3)
        refused = stack.enter_context(begun(setup, 0))
        status, headers, body = answer_of(refused)
        assert (status, headers["retry-after"], body["error"]["type"]) == (429, "1", "requests")
        assert "3" in body["error"]["message"]
        assert setup.http(1).post(CHAT, json=TEXT).status_code == 200
    wait_until(lambda: running.in_flight == 0)
    assert setup.http(0).post(CHAT, json=TEXT).status_code == 200


def test_bodies_of_one_key_leave_memory_for_the_others(start: Start) -> None:
    """Bytes count as soon as their number is known, and without a number as they arrive."""
    setup, running = gateway(start, max_requests=6, max_bodies=2_000_000)
    with ExitStack() as stack:
        stack.enter_context(begun(setup, 0, length=900_000))
        wait_until(lambda: running.in_flight == 1)
        status, headers, _ = answer_of(stack.enter_context(begun(setup, 0, length=200_000)))
        assert (status, headers["retry-after"]) == (429, "1")
        pieces = iter([b" " * 150_000, b"{}"])
        assert setup.http(0).post(CHAT, content=pieces).status_code == 429
        packed = zstandard.ZstdCompressor().compress(json.dumps(TEXT).encode() + b" " * 150_000)
        headers = {"content-encoding": "zstd", "content-type": "application/json"}
        assert setup.http(0).post(CHAT, content=packed, headers=headers).status_code == 429
        assert setup.http(0).post(CHAT, json=TEXT).status_code == 200
        large = {**TEXT, "messages": [{"role": "user", "content": "x" * 500_000}]}
        assert setup.http(1).post(CHAT, json=large).status_code == 200
        assert setup.http(1).post(CHAT, json=large).status_code == 200  # the first has ended
    wait_until(lambda: running.in_flight == 0)
    assert setup.http(0).post(CHAT, json=large).status_code == 200


def test_an_unknown_key_takes_no_room(start: Start) -> None:
    setup, running = gateway(start, max_requests=6)
    with ExitStack() as stack:
        for key in (0, 0, 0, 1, 1, 1):
            stack.enter_context(begun(setup, key))
        wait_until(lambda: running.in_flight == 6)
        assert answer_of(stack.enter_context(begun(setup, "sk-nobody")))[0] == 401
        assert answer_of(stack.enter_context(begun(setup, setup.create_key()[1])))[0] == 503


@pytest.mark.parametrize("path", ALL_PATHS)
def test_what_a_key_may_not_do_is_refused_before_its_body_is_read(start: Start, path: str) -> None:
    setup = start(whole_reply("chat"))
    secrets = {
        "admin": (setup.create_key(admin=True)[1], 403),
        "another endpoint": (setup.create_key(endpoints=("embeddings" if "embed" not in path else "chat",))[1], 403),
        "spent": (spent_key(setup), 402 if path in (PATHS["messages"], "/api/chat") else 429),
    }
    for name, (secret, expected) in secrets.items():
        with begun(setup, secret, path=path) as connection:
            status, _, body = answer_of(connection)
        assert status == expected, (name, body)
        assert body["error"], name


def test_a_key_with_as_many_requests_as_it_may_have_is_refused_before_its_body_is_read(start: Start) -> None:
    go = Event()
    setup = start(waiting_reply(go, b"{}", media_type="application/json"))
    _, secret = setup.keys.create(allowance=Allowance(concurrency=Concurrency(1)))
    body = json.dumps(TEXT).encode()
    with begun(setup, secret, sent=body, length=len(body)):
        wait_until(lambda: len(setup.server.requests) == 1)
        with begun(setup, secret) as second:
            assert answer_of(second)[0] == 429
    go.set()


def test_those_who_follow_and_read_responses_of_one_key_leave_room_for_the_others(start: Start) -> None:
    """A response that runs has as many followers as a client opens, and a connection in use is not closed for others.
    What is read is held until the client has taken it."""
    go = Event()
    setup, running = gateway(
        start, max_requests=8, max_bodies=64_000_000, script=lambda _: waiting_reply(go), models={"house": "openai:m"}
    )
    text = "x" * 12_000_000  # more than the buffers of a connection take
    asked = question("responses", "house", background=True, stream=True, instructions=text)
    with ExitStack() as stack:
        with setup.http(0).stream("POST", PATHS["responses"], json=asked, timeout=PATIENCE) as events:
            first = next(line for line in events.iter_lines() if line.startswith("data:"))
            path = f"/v1/responses/{json.loads(first.removeprefix('data:'))['response']['id']}"
        wait_until(lambda: running.in_flight == 1)
        follow = f"{path}?stream=true"
        followers = [stack.enter_context(setup.http(0).stream("GET", follow)).status_code for _ in range(5)]
        assert followers == [200, 200, 200, 429, 429]
        assert setup.http(1).get("/v1/responses/resp_1").status_code == 404
        assert setup.http(1).post(CHAT, json={**TEXT, "model": "other"}).status_code == 404
    wait_until(lambda: setup.http(0).get(path).status_code == 200)
    host, port = setup.url.removeprefix("http://").split(":")
    with ExitStack() as stack:

        def is_full() -> bool:
            """Read a little with one more connection: an earlier one may have been refused while others ended."""
            reader = stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE))
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            head = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {setup.secrets[0]}\r\n\r\n"
            reader.sendall(head.encode())
            return setup.http(0).get(path).status_code == 429

        wait_until(is_full)
        assert setup.http(1).post(CHAT, json={**TEXT, "model": "other"}).status_code == 404
    go.set()


def test_responses_of_one_key_in_the_background_leave_room_for_the_others(start: Start) -> None:
    go = Event()
    setup = start(lambda _: waiting_reply(go), "responses", responses={"max_background": 4})
    asked = question("responses", "house", background=True)
    statuses = [setup.http(key).post(PATHS["responses"], json=asked).status_code for key in (0, 0, 0, 1, 1, 1)]
    assert statuses == [200, 200, 429, 200, 200, 503]
    go.set()


def spent_key(setup: Keyed) -> str:
    """Return a key that has spent its budget."""
    key_id, secret = setup.create_key("10 tokens")
    setup.spend(f"key:{key_id}", 10)
    return secret


@pytest.mark.parametrize("budget", ["spent", "too small"])
def test_a_key_without_budget_stores_nothing(start: Start, tmp_path: Path, budget: str) -> None:
    """Not even for a response that would run in the background, and from a small body."""
    setup = start(whole_reply("chat"))
    secret = spent_key(setup) if budget == "spent" else setup.create_key("100 tokens/day")[1]
    text = json.dumps(question("responses", "house", background=True)).replace("Bern", "B" * 5_000_000)
    body = zstandard.ZstdCompressor().compress(text.encode())
    assert len(body) < 5_000
    headers = {"content-encoding": "zstd", "content-type": "application/json"}
    before = sum(each.stat().st_size for each in tmp_path.iterdir())
    for _ in range(4):
        reply = setup.http(secret).post("/v1/responses", content=body, headers=headers)
        assert reply.status_code == 429, reply.text
        assert reply.json()["error"]["code"] == "insufficient_quota"
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < before + 1_000_000
    assert setup.server.requests == []
