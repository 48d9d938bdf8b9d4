"""The concurrency of a key, through the whole gateway: the wire's own refusal, and room when a request has ended."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from dragoman.testing.faults.server import HttpReply, ReceivedRequest
from dragoman_gateway.keys.amounts import Concurrency
from dragoman_gateway.keys.records import Allowance
from tests.gateway.access.test_spending import answer, ask
from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import PATHS, PATIENCE

ONE = Allowance(concurrency=Concurrency(1))


class Held:
    """A server that answers when it is let go."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def __call__(self, request: ReceivedRequest) -> HttpReply:
        self.asked.set()
        assert self.go.wait(PATIENCE)
        return answer("chat")(request)  # type: ignore[no-any-return]  # a script of any kind


@contextmanager
def _in_flight(setup: Keyed, held: Held, secret: str, **more: Any) -> Iterator[Future[httpx.Response]]:
    """Let one request be in flight, and answer it at the end."""
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, setup, "chat", secret, **more)
        assert held.asked.wait(PATIENCE)
        try:
            yield first
        finally:
            held.go.set()


@pytest.mark.parametrize("stream", [False, True])
def test_a_key_with_one_request_in_flight_is_refused_in_its_wire(start: Start, stream: bool) -> None:
    """With 429 and the time to wait; another key passes; and the first one again, when its request has ended."""
    held = Held()
    setup = start(held)
    secret = setup.keys.create(allowance=ONE)[1]
    with _in_flight(setup, held, secret, stream=stream) as first:
        refused = {wire: ask(setup, wire, secret, stream=stream) for wire in PATHS}
        held.go.set()
        assert first.result(PATIENCE).status_code == 200
    assert {(each.status_code, each.headers["retry-after"]) for each in refused.values()} == {(429, "1")}
    assert refused["messages"].json()["error"]["type"] == "rate_limit_error"
    assert refused["chat"].json()["error"]["code"] == "rate_limit_exceeded"
    assert "in flight as it may (1)" in refused["responses"].json()["error"]["message"]
    assert len(setup.server.requests) == 1
    assert ask(setup, "chat", secret).status_code == 200


def test_a_team_shares_its_number(start: Start) -> None:
    held = Held()
    setup = start(held)
    setup.keys.set_allowance("team:*", ONE)
    red, also_red, blue = (setup.keys.create(team=team)[1] for team in ("red", "red", "blue"))
    with _in_flight(setup, held, red):
        refused = ask(setup, "chat", also_red)
        held.go.set()
        assert ask(setup, "chat", blue).status_code == 200
    assert (refused.status_code, "the team red" in refused.text) == (429, True)


def test_a_refused_key_does_not_pause_a_place_for_the_others(start: Start) -> None:
    """Nothing was sent, so nothing is known about the provider."""
    held = Held()
    setup = start(held, models={"places": [{"model": "openai-chat:a"}, {"model": "openai-chat:b", "weight": 0}]},
                  keys={"concurrency": 1})  # fmt: skip
    with _in_flight(setup, held, setup.secrets[0]):
        assert ask(setup, "chat", setup.secrets[0], model="places").status_code == 429
        held.go.set()
    assert ask(setup, "chat", setup.secrets[1], model="places").status_code == 200
    assert b'"model":"a"' in setup.server.requests[-1].body.replace(b" ", b"")
