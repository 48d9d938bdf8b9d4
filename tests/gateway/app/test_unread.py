"""With nothing configured that reads them, the messages of a request are left to the provider of its wire."""

import gc
import json
import threading

import httpx
import pytest

from dragoman import Budget
from dragoman.policy import PluginResult, Step, hook
from dragoman.testing.faults.server import HttpReply, ReceivedRequest, json_reply, sse_reply
from dragoman_gateway.turn.request import ClientRequest
from tests.benchmarks.wires import WIRES, arguments
from tests.gateway import scripted
from tests.gateway.app.test_bad_night import wait_until
from tests.gateway.upstream import (
    PATHS,
    PATIENCE,
    PROVIDERS,
    gateway_before,
    question,
    stream_bytes,
    streamed_reply,
    whole_reply,
)


def new_content(wire: str, *, stream: bool = False) -> dict[str, object]:
    """A request with content that only a provider of tomorrow knows."""
    asked = question(wire, "house", stream=stream)
    content = [{"type": "text" if wire != "responses" else "input_text", "text": 7}]
    return {**asked, ("input" if wire == "responses" else "messages"): [{"role": "user", "content": content}]}


@pytest.mark.parametrize("wire", PATHS)
def test_the_provider_judges_the_content(wire: str) -> None:
    with gateway_before(whole_reply(wire), models={"house": f"{PROVIDERS[wire]}:some-model"}) as (url, server):
        reply = httpx.post(url + PATHS[wire], json=new_content(wire))
        (received,) = server.requests
    assert (reply.status_code, reply.content) == (200, whole_reply(wire).body)
    assert json.loads(received.body) == {**new_content(wire), "model": "some-model"}


@hook("cmf.llm_input")
def look(step: Step) -> PluginResult:
    """Judges requests, so each is read."""
    return PluginResult()


@pytest.mark.parametrize("wire", PATHS)
def test_a_budget_or_a_policy_reads_it(wire: str) -> None:
    for settings in ({"budgets": [Budget(tokens=1000)]}, {"policy": [look]}):
        models = {"house": f"{PROVIDERS[wire]}:some-model"}
        with gateway_before(whole_reply(wire), models=models, client=settings) as (url, server):
            reply = httpx.post(url + PATHS[wire], json=new_content(wire))
            assert (reply.status_code, server.requests) == (400, []), settings


@pytest.mark.parametrize("wire", PATHS)
def test_tokens_of_a_stream_are_counted(wire: str) -> None:
    with gateway_before(streamed_reply(wire, *"abcdefgh"), models={"house": f"{PROVIDERS[wire]}:some-model"}) as (
        url,
        _,
    ):
        reply = httpx.post(url + PATHS[wire], json=new_content(wire, stream=True))
        # The client has its end before the gateway has that of the provider's connection.
        wait_until(lambda: counted_tokens(url).keys() >= {"input_tokens", "output_tokens"})
        counts = counted_tokens(url)
    assert reply.content == stream_bytes(wire, *"abcdefgh")
    assert all(counts[kind] > 0 for kind in ("input_tokens", "output_tokens"))


def counted_tokens(url: str) -> dict[str, float]:
    """Return the tokens in the metrics, by their kind."""
    return {
        line.split('kind="')[1].split('"')[0]: float(line.split()[-1])
        for line in httpx.get(f"{url}/metrics").text.splitlines()
        if line.startswith("dragoman_tokens_total{")
    }


@pytest.mark.parametrize("wire", PATHS)
def test_calls_go_through_to_the_client(wire: str) -> None:
    frames = b"".join(WIRES[wire].call_stream([arguments(100)] * 2))
    tool = {"name": "write", "description": "", "input_schema": {"type": "object"}}
    with gateway_before(sse_reply(frames), models={"house": f"{PROVIDERS[wire]}:some-model"}) as (url, server):
        asked = {**question(wire, "house", stream=True), "tools": [tool]}
        reply = httpx.post(url + PATHS[wire], json=asked)
        assert len(server.requests) == 1
    assert (reply.status_code, reply.content) == (200, frames)


def read_until_cut(url: str, asked: dict[str, object], go: threading.Event | None = None) -> bytes:
    """Return what arrived before the connection was cut. ``go`` is set when something has."""
    received = b""
    with httpx.stream("POST", url, json=asked) as reply:
        try:
            for piece in reply.iter_bytes():
                received += piece
                if go is not None:
                    go.set()
        except httpx.RemoteProtocolError:
            return received
    raise AssertionError("the stream ended in order")


@pytest.mark.parametrize("wire", PATHS)
def test_a_stream_that_breaks_off_ends_in_the_wire_s_error(wire: str) -> None:
    whole = [*WIRES[wire].text_stream(list("abcdefgh"))]
    with gateway_before(sse_reply(b"".join(whole[:6])), models={"house": f"{PROVIDERS[wire]}:some-model"}) as (url, _):
        received = read_until_cut(url + PATHS[wire], new_content(wire, stream=True))
    assert received.startswith(b"".join(whole[:6]))
    assert b"error" in received.removeprefix(b"".join(whole[:6]))


def test_another_place_reads_the_request_first() -> None:
    """The first place fails, and the second one has another wire: it gets the messages, not a stand-in."""
    places = [{"model": "anthropic:m"}, {"model": "openai-chat:m", "weight": 0}]

    def answer(request: ReceivedRequest) -> HttpReply:
        return json_reply({}, status=503) if "messages" in request.path else whole_reply("chat")

    with gateway_before(answer, models={"house": places}) as (url, server):
        reply = httpx.post(url + PATHS["messages"], json=question("messages", "house"))
    assert reply.status_code == 200
    assert json.loads(server.requests[-1].body)["messages"] == [{"role": "user", "content": "Where is Bern?"}]


@pytest.mark.parametrize("wire", PATHS)
def test_an_expired_reference_is_the_client_s_to_replace(wire: str) -> None:
    """Nothing but the client's own request is sent, which the gateway has not read."""
    gone = json_reply({"error": {"type": "invalid_request_error", "message": "Container is expired."}}, status=400)
    with gateway_before(gone, models={"house": f"{PROVIDERS[wire]}:some-model"}) as (url, server):
        reply = httpx.post(url + PATHS[wire], json=question(wire, "house"))
        assert (reply.status_code, len(server.requests)) == (400, 1)
    assert "Container is expired." in reply.text


def test_a_request_that_no_other_place_can_read_ends_in_an_error_after_signs_of_life() -> None:
    """The second place has another wire, so the request is read, after the stream to the client has begun."""
    places = [{"model": "anthropic:m"}, {"model": "openai-chat:m", "weight": 0}]
    go = threading.Event()

    def refuse_late(request: ReceivedRequest) -> HttpReply:
        go.wait(PATIENCE)
        return json_reply({}, status=503)

    with gateway_before(refuse_late, models={"house": places}, first_event_seconds=0.05) as (url, server):
        received = read_until_cut(url + PATHS["messages"], new_content("messages", stream=True), go)
        assert len(server.requests) == 1
    assert b"invalid_request_error" in received


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_of_another_place_is_not_taken_for_the_bytes_of_the_first(stream: bool) -> None:
    """The first place has the wire of the client and fails; the second one's reply is written for the client."""
    places = [{"model": "anthropic:m"}, {"model": "openai-chat:m", "weight": 0}]
    good = streamed_reply("chat") if stream else whole_reply("chat")
    script = [json_reply({}, status=503), good]
    with gateway_before(script, models={"house": places}, client={"budgets": [Budget(tokens=10**9)]}) as (url, server):
        reply = httpx.post(url + PATHS["messages"], json=question("messages", "house", stream=stream))
        assert len(server.requests) == 2
    assert reply.status_code == 200
    assert b"message_stop" in reply.content if stream else reply.json()["content"][0]["text"] == "In Switzerland."


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_waits_for_its_reply_holds_no_conversation(stream: bool) -> None:
    upstream, held = scripted.Upstream(), list[tuple[bytes, object]]()
    earlier = _client_requests()

    def look(request: scripted.Received) -> scripted.Answer:
        waiting = (found for found in _client_requests() if found not in earlier)
        held.extend((found.body, found.fields["messages"]) for found in waiting)
        return scripted.says("It rains.")(request)

    upstream.script = look
    with scripted.gateway_before(upstream) as url:
        reply = httpx.post(url + PATHS["chat"], json=question("chat", "chat-model", stream=stream))
    assert reply.status_code == 200
    assert held == [(b"", [])]


def _client_requests() -> list[ClientRequest]:
    return [found for found in gc.get_objects() if type(found) is ClientRequest]
