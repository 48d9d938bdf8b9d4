"""A provider asks for a wait: the gateway waits no longer than it may hold the head, and else passes the wait on."""

import json
from contextlib import ExitStack
from functools import partial
from typing import Any

import httpx
import openai
import pytest

from dragoman import Router
from dragoman.testing.faults.server import HttpReply, ReceivedRequest, json_reply, sse_reply
from dragoman.transport import RetryPolicy
from dragoman_gateway.models import Deployments
from tests.gateway.app.test_late_errors import BODIES, MODELS, OTHER, PATHS, REFUSALS, STREAMS
from tests.gateway.keyed import Start
from tests.gateway.upstream import gateway_before
from tests.unit.transport.drivers import VirtualClock

WAYS = [(wire, behind) for wire in PATHS for behind in (wire, OTHER[wire])]


def retries(clock: VirtualClock) -> dict[str, Any]:
    """Return settings of providers that retry as by default, and wait on that clock."""
    return {"retry": RetryPolicy(), "timing": clock.timing}


def refusal(behind: str, status: int = 429, **headers: str) -> HttpReply:
    error = REFUSALS[behind]
    if behind == "google":
        error = {
            "error": {
                "code": status,
                "message": "slow down",
                "status": "RESOURCE_EXHAUSTED" if status == 429 else "UNAVAILABLE",
            }
        }
    elif behind != "ollama":
        kind = "rate_limit_error" if status == 429 else "overloaded_error"
        error = {**error, "error": {"message": "slow down", "type": kind}}
    return json_reply(error, status, **headers)


def post(url: str, wire: str, *, stream: bool, secret: str = "none") -> httpx.Response:
    path, body = PATHS[wire], {**BODIES[wire]}
    if wire == "google":
        path = path if stream else "/v1beta/models/house:generateContent"
    else:
        body["stream"] = stream
    return httpx.post(url + path, json=body, headers={"authorization": f"Bearer {secret}"})


@pytest.mark.parametrize("status", [429, 503, 529])
@pytest.mark.parametrize(("wire", "behind"), WAYS)
def test_a_long_wait_is_the_client_s(wire: str, behind: str, status: int) -> None:
    """The client gets the provider's status at once, in both forms."""
    clock = VirtualClock()
    script = [refusal(behind, status, retry_after="30"), refusal(behind, status, retry_after_ms="30000")]
    with gateway_before(script * 2, models={"house": MODELS[behind]}, provider=retries(clock)) as (url, server):
        replies = [post(url, wire, stream=stream) for stream in (False, False, True, True)]
        assert len(server.requests) == len(replies)
    for reply in replies:
        assert reply.status_code == status if status == 429 or wire == behind else reply.status_code in (503, 529)
        assert (reply.headers["retry-after"], reply.headers["retry-after-ms"]) == ("30", "30000")
    assert clock.slept == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", PATHS)
def test_a_long_wait_is_that_of_a_client_with_a_key(wire: str, stream: bool, start: Start) -> None:
    clock = VirtualClock()
    script = refusal(wire, retry_after="30")
    keyed = start(script, models={"house": MODELS[wire]}, provider=retries(clock))
    reply = post(keyed.url, wire, stream=stream, secret=keyed.secrets[0])
    assert (reply.status_code, reply.headers["retry-after"], clock.slept) == (429, "30", [])


def answer_after(wire: str, *refusals: HttpReply) -> list[HttpReply]:
    stream = sse_reply(b"".join(STREAMS[wire](["In ", "Switzerland."])))
    return [*refusals, stream]


@pytest.mark.parametrize(("wire", "behind"), [("anthropic", "anthropic"), ("anthropic", "openai-chat")])
def test_a_wait_that_fits_is_the_gateway_s(wire: str, behind: str) -> None:
    clock = VirtualClock()
    script = answer_after(behind, refusal(behind, retry_after="30"))
    patient = {"own_retries": True, "first_event_seconds": 300}
    with gateway_before(script, models={"house": MODELS[behind]}, provider=retries(clock), **patient) as (url, _):
        reply = post(url, wire, stream=True)
    assert (reply.status_code, clock.slept) == (200, [30.0])
    assert b"Switzerland" in reply.content


@pytest.mark.parametrize("behind", ["anthropic", "openai-chat"])
def test_all_waits_together_are_no_longer(behind: str) -> None:
    clock = VirtualClock()
    script = answer_after(behind, *[refusal(behind, retry_after="50")] * 2)
    patient = {"own_retries": True, "first_event_seconds": 90}
    with gateway_before(script, models={"house": MODELS[behind]}, provider=retries(clock), **patient) as (url, _):
        reply = post(url, "anthropic", stream=True)
    assert (reply.status_code, reply.headers["retry-after"], clock.slept) == (429, "50", [50.0])


@pytest.mark.parametrize("stream", [False, True])
def test_if_all_places_refuse_the_client_comes_back_to_the_first_that_is_free(
    monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    monkeypatch.setattr("dragoman_gateway.models.Deployments", partial(Deployments, draw=lambda: 0.0))
    clock, waits = VirtualClock(), {"first": "12", "second": "30"}

    def answer(request: ReceivedRequest) -> HttpReply:
        return refusal("openai-chat", retry_after=waits[json.loads(request.body)["model"]])

    places = [{"model": "openai-chat:first"}, {"model": "openai-chat:second", "weight": 0}]
    with gateway_before(answer, models={"house": places}, provider=retries(clock)) as (url, server):
        reply = post(url, "anthropic", stream=stream)
        assert len(server.requests) == 2
    assert (reply.status_code, reply.headers["retry-after"], clock.slept) == (429, "12", [])


@pytest.mark.parametrize("stream", [False, True])
def test_if_all_models_of_a_router_refuse_the_client_waits(stream: bool) -> None:
    clock = VirtualClock()
    router = Router(aliases={"house": "openai-chat:first"}, global_default="openai-chat:second")
    script = refusal("openai-chat", retry_after="30")
    with gateway_before(script, client={"router": router}, provider=retries(clock)) as (url, server):
        reply = post(url, "anthropic", stream=stream)
        assert len(server.requests) == 2
    assert (reply.status_code, reply.headers["retry-after"], clock.slept) == (429, "30", [])


def test_a_long_wait_for_embeddings_is_the_client_s() -> None:
    clock = VirtualClock()
    script = refusal("openai", retry_after="30")
    models = {"house": "openai:text-embedding-3-small"}
    with gateway_before(script, models=models, provider=retries(clock)) as (url, _):
        reply = httpx.post(f"{url}/v1/embeddings", json={"model": "house", "input": "Bern"})
    assert (reply.status_code, reply.headers["retry-after"], clock.slept) == (429, "30", [])


def test_a_background_response_waits_as_long_as_the_provider_says(start: Start) -> None:
    """Its client has the head already."""
    clock = VirtualClock()
    script = answer_after("openai", refusal("openai", retry_after="30"))
    keyed = start(script, models={"house": MODELS["openai"]}, provider=retries(clock))
    asked = {"model": "house", "input": "Hi", "background": True, "stream": True}
    reply = keyed.http().post("/v1/responses", json=asked)
    assert b"response.completed" in reply.content
    assert clock.slept == [30.0]


@pytest.mark.parametrize("wire", ["openai", "openai-chat"])
def test_the_official_client_waits_as_the_provider_says(wire: str, opened: ExitStack) -> None:
    """It gets a 429 for a stream too, and retries it by itself."""
    clock = VirtualClock()
    script = answer_after(wire, refusal(wire, retry_after="6", retry_after_ms="5010"))
    with gateway_before(script, models={"house": MODELS[wire]}, provider=retries(clock)) as (url, server):
        client = opened.enter_context(openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
        create: Any = client.responses.create if wire == "openai" else client.chat.completions.create
        with pytest.raises(openai.RateLimitError, match="slow down") as caught:
            create(**BODIES[wire])
        assert len(server.requests) == 1
    assert caught.value.response.headers["retry-after-ms"] == "5010"
