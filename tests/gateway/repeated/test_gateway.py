"""A gateway that keeps what agents repeat does what one does that keeps nothing."""

import asyncio
import gc
import json
from typing import Any

import httpx
import pytest

from dragoman import AsyncClient
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.policy import Extensions, Pipeline, Step, hook
from dragoman.policy.labels import with_labels
from dragoman_gateway import GatewaySettings, create_app
from dragoman_gateway.bodies import repeated
from tests.benchmarks.agents.gateway import TARGET, ask
from tests.benchmarks.agents.requests import growing
from tests.benchmarks.wires import SENTENCE, WIRES
from tests.gateway.repeated import requests

_REPLY = json.dumps(WIRES["chat"].text_reply(SENTENCE)).encode()
REQUESTS = growing(40, 30, 4)


class _Seen:
    """What left the gateway, and what its policy saw."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.judged: list[Any] = []
        self.labels: set[str] = set()

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request.content)
        return httpx.Response(200, headers={"content-type": "application/json"}, content=_REPLY)

    def policy(self) -> Pipeline:
        def look(step: Step) -> Extensions | None:
            """Look at everything, and label what names the third step."""
            views = [(view.kind, view.role, view.content, view.name) for view in step.views()]
            labels = step.extensions.security.labels if step.extensions.security else frozenset()
            self.judged.append((views, sorted(labels)))
            self.labels |= labels
            return with_labels(step.extensions, {"third"}) if "Step 3" in step.texts() else None

        return Pipeline([hook("cmf.llm_input", "cmf.llm_output", capabilities=["read_labels", "append_labels"])(look)])


async def _run(seen: _Seen, wire: str, bodies: list[bytes], *, judged: bool = True, **settings: Any) -> list[bytes]:
    client = httpx.AsyncClient(transport=httpx.MockTransport(seen.answer))
    providers: dict[str, Any] = {"openai-chat": {"client": client, "api_key": "none"}}
    gateway = create_app(
        GatewaySettings(models={"*": TARGET}, **settings),
        client=AsyncClient(providers=providers, policy=seen.policy() if judged else None),
    )
    async with gateway.router.lifespan_context(gateway):
        return [await ask(gateway, each, requests.PATHS[wire]) for each in bodies]


@pytest.mark.parametrize("wire", ["messages", "responses", "google", "ollama"])
def test_a_provider_and_a_policy_see_the_same(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes for the provider, the views of plugins and the labels are the same, whatever is kept."""
    monkeypatch.setattr(repeated, "SMALLEST", 0)
    body = dict(requests.written_agents())[wire]
    bodies = [json.dumps(each).encode() for each in requests.growing(wire, body, 5)]
    if wire == "messages":
        texts = [{"role": ("user", "assistant")[place % 2], "content": f"Text {place}"} for place in range(9)]
        plain = {"model": body["model"], "max_tokens": 9, "messages": texts}
        bodies += [*REQUESTS, *(json.dumps(each).encode() for each in requests.growing(wire, plain, 9))]
    with_known, as_new = _Seen(), _Seen()
    first = asyncio.run(_run(with_known, wire, bodies))
    second = asyncio.run(_run(as_new, wire, bodies, max_repeated=0))
    assert with_known.sent == as_new.sent
    assert with_known.judged == as_new.judged
    assert with_known.labels == as_new.labels == {"third"}
    assert len(first) == len(second) == len(bodies)
    unjudged = _Seen(), _Seen()  # then texts need no session
    asyncio.run(_run(unjudged[0], wire, bodies, judged=False))
    asyncio.run(_run(unjudged[1], wire, bodies, judged=False, max_repeated=0))
    assert unjudged[0].sent == unjudged[1].sent == as_new.sent


def test_the_next_request_of_an_agent_costs_what_is_new_in_it() -> None:
    """Calls of functions, which no clock and no busy machine changes: at most a third of those without memory."""
    from tests.laws.streams import call_counts

    def counted(**settings: Any) -> int:
        bodies = growing(100, 30, 3)
        one, two = (
            call_counts.calls_of(
                lambda some=some: asyncio.run(_run(_Seen(), "messages", some, judged=False, **settings))
            )  # type: ignore[misc]
            for some in (bodies[:2], bodies)
        )
        return two - one

    assert counted() < counted(max_repeated=0) / 3


@pytest.mark.parametrize("judged", [False, True])
def test_a_request_ends_without_the_collector(judged: bool) -> None:
    """Nothing of a request refers to itself: a long one would stay in memory, and stop all threads when it is found."""
    gc.collect()
    gc.disable()
    try:
        asyncio.run(_run(_Seen(), "messages", REQUESTS, judged=judged))
        left = [type(each) for each in gc.get_objects() if type(each) is RequestBuilder]
    finally:
        gc.enable()
    assert left == []


def test_who_deletes_a_response_deletes_what_is_kept_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "SMALLEST", 0)
    body = dict(requests.written_agents())["responses"]

    async def run() -> None:
        client = httpx.AsyncClient(transport=httpx.MockTransport(_Seen().answer))
        providers: dict[str, Any] = {"openai-chat": {"client": client, "api_key": "none"}}
        app = create_app(GatewaySettings(models={"*": TARGET}), client=AsyncClient(providers=providers))
        async with app.router.lifespan_context(app):
            parts = app.state.gateway.current.repeated
            transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                made = (await http.post("/v1/responses", json=body)).json()
                assert parts.size > 0
                deleted = await http.delete(f"/v1/responses/{made['id']}")
                assert deleted.json()["deleted"] is True
                assert parts.size == 0

    asyncio.run(run())
