"""What a client sees when a provider, or the client itself, fails."""

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import anthropic
import httpx
import pytest

from dragoman import Budget, Router
from dragoman.testing.faults.server import RESET, STALL, HttpReply, Pause, ReceivedRequest, json_reply, sse_reply
from dragoman_gateway.models import Deployments
from dragoman_gateway.running.generation import Gateway
from tests.gateway.upstream import (
    PATHS,
    PATIENCE,
    PROVIDERS,
    gateway_before,
    question,
    stream_bytes,
    streamed_reply,
    waiting_reply,
    whole_reply,
)

CASES = [(client, behind) for client in PATHS for behind in PATHS]


def cut(wire: str, share: float = 0.6) -> bytes:
    """Return the first part of a stream, whole events only."""
    frames = stream_bytes(wire, *(f"word{number} " for number in range(20))).split(b"\n\n")
    return b"\n\n".join(frames[: int(len(frames) * share)]) + b"\n\n"


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until something is true. Raises AssertionError if it never is."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def ask_to_the_end(
    url: str, wire: str, body: dict[str, Any], go: threading.Event | None = None, sign: bytes = b""
) -> tuple[bytes, bool]:
    """Return the bytes of a stream, and whether it ended in order. ``go`` is set when they have the sign."""
    received = b""
    try:
        with httpx.stream("POST", url + PATHS[wire], json=body, timeout=PATIENCE) as reply:
            for chunk in reply.iter_raw():
                received += chunk
                if go is not None and sign in received:
                    go.set()
    except httpx.RemoteProtocolError:
        return received, False
    return received, True


ERROR_EVENTS = {"messages": b"event: error", "chat": b'data: {"error"', "responses": b"event: response.failed"}
ENDS = {"messages": b"message_stop", "chat": b"[DONE]", "responses": b"response.completed"}


@pytest.mark.parametrize(("client", "behind"), CASES)
@pytest.mark.parametrize("end", [None, RESET])
def test_a_stream_that_breaks_ends_in_the_wire_s_error_and_a_cut_connection(client: str, behind: str, end: Any) -> None:
    steps = (cut(behind), Pause(0.02), *([end] if end else []))
    with gateway_before(sse_reply(*steps), models={"house": f"{PROVIDERS[behind]}:m"}) as (url, _):
        received, in_order = ask_to_the_end(url, client, question(client, "house", stream=True))
    assert not in_order
    assert b"word3" in received
    assert received.count(ERROR_EVENTS[client]) == 1
    assert ENDS[client] not in received


@pytest.mark.parametrize(("client", "behind"), CASES)
def test_a_provider_s_refusal_keeps_its_meaning(client: str, behind: str) -> None:
    error = {"error": {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "slow down"}}
    refusal = json_reply({"type": "error", **error}, 429, retry_after="7")
    with gateway_before(refusal, models={"house": f"{PROVIDERS[behind]}:m"}) as (url, _):
        replies = [
            httpx.post(url + PATHS[client], json=question(client, "house", stream=stream)) for stream in (False, True)
        ]
    for reply in replies:
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "7")
        assert reply.json()["error"]["message"] == "slow down"
        assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_the_request_to_the_provider(stream: bool) -> None:
    begun = sse_reply(cut("chat", 0.3), STALL) if stream else HttpReply(before=STALL)
    with gateway_before(begun, models={"house": "openai-chat:m"}) as (url, server):
        body = question("messages", "house", stream=stream)
        with (
            pytest.raises(httpx.ReadTimeout),
            httpx.stream("POST", f"{url}/v1/messages", json=body, timeout=0.5) as reply,
        ):
            reply.read()
        assert server.wait_until_closed(seconds=PATIENCE) == 0


def test_what_a_client_that_left_has_used_is_counted() -> None:
    budget = Budget(tokens=1000, per="client")
    begun = sse_reply(cut("messages", 0.8), STALL)
    with gateway_before(begun, models={"house": "anthropic:m"}, client={"budgets": [budget]}) as (url, server):
        body = question("messages", "house", stream=True)
        with httpx.stream("POST", f"{url}/v1/messages", json=body, timeout=PATIENCE) as reply:
            assert next(reply.iter_raw())
        server.wait_until_closed(seconds=PATIENCE)
        wait_until(lambda: budget.spend_of(None).tokens > 0)


@pytest.mark.parametrize("client", PATHS)
def test_silence_is_broken_by_signs_of_life(client: str) -> None:
    go, sign = threading.Event(), b": keep-alive\n\n"
    slow = waiting_reply(go, stream_bytes("chat"))
    settings = {"first_event_seconds": 0.1, "ping_seconds": 0.1}
    with gateway_before(slow, models={"house": "openai-chat:m"}, **settings) as (url, _):
        received, in_order = ask_to_the_end(url, client, question(client, "house", stream=True), go, sign)
    assert in_order
    assert received.startswith(sign)
    assert ENDS[client] in received


def test_pings_of_messages_are_its_own_once_the_reply_has_begun(opened: ExitStack) -> None:
    frames = cut("chat", 0.5)
    rest = stream_bytes("chat", *(f"word{number} " for number in range(20))).removeprefix(frames)
    go, sign = threading.Event(), b"event: ping\n"
    slow = [sse_reply(frames, Pause(0.5), rest), waiting_reply(go, rest, before=frames)]
    with gateway_before(slow, models={"house": "openai-chat:m"}, ping_seconds=0.1) as (url, _):
        with opened.enter_context(anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)).messages.stream(
            **question("messages", "house")
        ) as stream:
            text = stream.get_final_text()
        received, _ = ask_to_the_end(url, "messages", question("messages", "house", stream=True), go, sign)
    assert text == "".join(f"word{number} " for number in range(20))
    assert sign in received
    assert received.startswith(b"event: message_start")


def test_an_error_after_the_headers_went_out_is_an_event() -> None:
    go = threading.Event()
    late = waiting_reply(
        go, b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    )
    with gateway_before(late, models={"house": "anthropic:m"}, first_event_seconds=0.1) as (url, _):
        received, in_order = ask_to_the_end(url, "chat", question("chat", "house", stream=True), go)
    assert not in_order
    assert b"busy" in received


def refusing_then_answering(status: int, wire: str = "chat") -> Callable[[ReceivedRequest], HttpReply]:
    """Refuse the model ``first``, and answer as any other."""

    def answer(request: ReceivedRequest) -> HttpReply:
        if b'"first"' in request.body:
            kind = "invalid_request_error" if status == 400 else "server_error"
            return json_reply({"error": {"message": "not now", "type": kind}}, status)
        return streamed_reply(wire) if b'"stream":' in request.body else whole_reply(wire)

    return answer


@pytest.mark.parametrize("client", PATHS)
@pytest.mark.parametrize("status", [200, 302])
def test_a_page_or_a_redirect_in_place_of_a_reply_is_no_success(client: str, status: int) -> None:
    """A proxy or a login before the provider sends them. The client's own wire is asked, whose statuses are kept."""
    headers = {"content-type": "text/html", "location": "https://elsewhere.example/"}
    page = HttpReply(status=status, headers=headers, body=b"<p>log in</p>")
    with gateway_before(page, models={"house": f"{PROVIDERS[client]}:m"}) as (url, _):
        replies = [
            httpx.post(url + PATHS[client], json=question(client, "house", stream=stream)) for stream in (False, True)
        ]
    for reply in replies:
        assert reply.status_code == 502
        assert reply.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [401, 429, 500, 529])
def test_another_place_answers_if_the_first_one_fails(
    monkeypatch: pytest.MonkeyPatch, status: int, stream: bool
) -> None:
    # The pause may be 2 seconds.
    monkeypatch.setattr("dragoman_gateway.models.Deployments", partial(Deployments, clock=lambda: 0.0))
    places = [{"model": "openai-chat:first"}, {"model": "openai-chat:second", "weight": 0}]
    with gateway_before(refusing_then_answering(status), models={"house": places}) as (url, server):
        body = question("messages", "house", stream=stream)
        replies = [httpx.post(f"{url}/v1/messages", json=body) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 200]
    assert b"Switzerland" in replies[0].content
    asked = [json.loads(request.body)["model"] for request in server.requests]
    assert asked == ["first", "second", "second", "second"]  # the first one pauses


def test_a_wrong_request_is_not_repeated_elsewhere() -> None:
    places = [{"model": "openai-chat:first"}, {"model": "openai-chat:second", "weight": 0}]
    with gateway_before(refusing_then_answering(400), models={"house": places}) as (url, server):
        reply = httpx.post(f"{url}/v1/messages", json=question("messages", "house"))
    assert reply.status_code == 400
    assert len(server.requests) == 1


def test_a_reply_that_has_begun_goes_to_no_other_place() -> None:
    def answer(request: ReceivedRequest) -> HttpReply:
        return sse_reply(cut("chat"), RESET) if b'"first"' in request.body else streamed_reply("chat")

    places = [{"model": "openai-chat:first"}, {"model": "openai-chat:second", "weight": 0}]
    with gateway_before(answer, models={"house": places}) as (url, server):
        received, in_order = ask_to_the_end(url, "chat", question("chat", "house", stream=True))
    assert not in_order
    assert received.count(b'"role"') == 1
    assert len(server.requests) == 1


def test_while_it_drains_requests_that_began_end_and_new_ones_are_sent_elsewhere() -> None:
    go = threading.Event()
    slow = waiting_reply(go, stream_bytes("chat").split(b"\n\n", 1)[1], before=cut("chat", 0.5))
    with gateway_before([slow], models={"drained": "openai-chat:m"}) as (url, _):
        (gateway,) = (each for each in Gateway.running if "drained" in each.current.settings.models)
        with ThreadPoolExecutor(1) as pool:
            begun = pool.submit(ask_to_the_end, url, "messages", question("messages", "drained", stream=True))
            wait_until(lambda: gateway.in_flight == 1)
            gateway.drain()
            refused = httpx.post(f"{url}/v1/messages", json=question("messages", "drained"))
            assert httpx.get(f"{url}/ready").status_code == 503
            assert httpx.get(f"{url}/health").status_code == 200
            go.set()
            received, in_order = begun.result()
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
    assert refused.json()["type"] == "error"
    assert in_order
    assert b"message_stop" in received
    assert gateway.in_flight == 0


def test_more_requests_than_the_limit_are_asked_to_come_again() -> None:
    settings, go = {"models": {"house": "openai-chat:m"}, "max_requests": 1}, threading.Event()
    with (
        gateway_before(waiting_reply(go, b"{}", media_type="application/json"), **settings) as (url, server),
        ThreadPoolExecutor(1) as pool,
    ):
        pool.submit(httpx.post, f"{url}/v1/chat/completions", json=question("chat", "house"))
        wait_until(lambda: len(server.requests) == 1)
        refused = httpx.post(f"{url}/v1/chat/completions", json=question("chat", "house"))
        go.set()
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def test_a_client_that_reads_nothing_is_left() -> None:
    texts = ["x" * 10_000] * 3_000
    with gateway_before(
        streamed_reply("chat", *texts), models={"house": "openai-chat:m"}, reader_seconds=0.3, ping_seconds=0.1
    ) as (url, server):
        host, port = url.removeprefix("http://").split(":")
        body = json.dumps(question("chat", "house", stream=True)).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n".encode()
        head += f"content-length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head + body)
            wait_until(lambda: len(server.requests) == 1)
            assert server.wait_until_closed(seconds=PATIENCE) == 0  # the gateway has left the provider


def test_the_router_of_the_client_names_a_fallback_and_no_text_chooses_a_model() -> None:
    router = Router(aliases={"house": "openai-chat:first"}, global_default="openai-chat:second", mentions=True)
    with gateway_before(refusing_then_answering(529), client={"router": router}) as (url, server):
        body = question("messages", "house")
        body["messages"][0]["content"] = "@openai-chat:third Where is Bern?"
        reply = httpx.post(f"{url}/v1/messages", json=body)
    assert reply.status_code == 200
    asked = [json.loads(request.body) for request in server.requests]
    assert [each["model"] for each in asked] == ["first", "second"]
    assert asked[1]["messages"][0]["content"].startswith("@openai-chat:third")
