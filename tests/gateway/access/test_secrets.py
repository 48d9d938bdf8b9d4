"""No key leaves: neither the provider's nor a client's, in any reply, header, log record or page."""

import logging
from typing import Any

import httpx
import pytest

from dragoman.policy import PluginResult, Step, hook
from dragoman.testing.faults.server import HANG_UP, RESET, HttpReply, json_reply, sse_reply
from dragoman_gateway.database import Database
from dragoman_gateway.keys.ledger import Ledger
from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import KEY, PATHS, PROVIDERS, question, stream_bytes, streamed_reply, whole_reply

LEAKS = ("Traceback", "SELECT ", "sqlite", "/srv/", ".py")


def replies_of(setup: Keyed, secret: str) -> list[httpx.Response]:
    """Return what a client gets on each wire, whole and streamed."""
    found = []
    for wire, path in PATHS.items():
        for streamed in (False, True):
            headers = {"x-api-key": secret}
            try:
                found.append(setup.bare.post(path, json=question(wire, "house", stream=streamed), headers=headers))
            except httpx.RemoteProtocolError:
                continue  # a stream that broke
    return found


def everything(replies: list[httpx.Response], caplog: pytest.LogCaptureFixture) -> str:
    texts = [f"{reply.status_code} {reply.headers} {reply.text}" for reply in replies]
    formatter = logging.Formatter()
    return "\n".join([*texts, *(formatter.format(record) for record in caplog.records)])


@pytest.mark.parametrize("behind", PROVIDERS)
def test_the_key_of_a_provider_reaches_no_client_and_no_log(
    start: Start, behind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A provider that repeats the gateway's key in its errors, headers and streams, or that fails in other ways, tells
    a client nothing about it."""
    echo = {"error": {"message": f"Incorrect API key provided: {KEY}", "type": "invalid_request_error", "code": KEY}}
    scripts: list[HttpReply] = [
        *(json_reply(echo, status, x_api_key=KEY, www_authenticate=KEY) for status in (400, 401, 403, 404, 429, 500)),
        HttpReply(status=502, body=f"<html>{KEY}</html>".encode(), headers={"content-type": "text/html"}),
        sse_reply(b'data: {"error": {"message": "bad key ' + KEY.encode() + b'"}}\n\n'),
        sse_reply(stream_bytes(behind)[:200], RESET),
        HttpReply(before=HANG_UP),
        whole_reply(behind),
        streamed_reply(behind),
    ]
    current: list[HttpReply] = []
    setup = start(lambda _: current[0], behind)
    caplog.set_level(logging.DEBUG, "dragoman")
    replies = []
    for script in scripts:
        current[:] = [script]
        replies += replies_of(setup, setup.secrets[0])
    replies += [setup.http().get(path) for path in ("/metrics", "/openapi.json", "/health", "/v1/models", "/v1/x")]
    assert len(replies) > 40
    assert KEY in str(setup.server.requests[0].headers)  # the test would see it
    seen = everything(replies, caplog)
    assert KEY not in seen
    assert KEY[:12] not in seen


def test_a_client_s_key_is_repeated_nowhere(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Good, foreign, expired and malformed keys are in no reply, log record, metric or request to a provider."""
    setup = start(lambda _: whole_reply("chat"))
    key_id, revoked = setup.create_key("0.01")
    _, poor = setup.create_key("0.01")
    setup.keys.revoke(key_id)
    caplog.set_level(logging.DEBUG, "dragoman")
    secrets = [setup.secrets[0], revoked, poor, revoked[:40], "sk-of-another-service-0123456789abcdef", "x" * 5_000]
    replies = [reply for secret in secrets for reply in replies_of(setup, secret)]
    replies += [
        setup.http(secret).get(path) for secret in secrets for path in ("/v1/models", "/metrics", "/v1/nothing")
    ]
    assert {reply.status_code for reply in replies} >= {200, 401, 402, 429}
    seen = everything(replies, caplog) + "".join(str(request.head) for request in setup.server.requests)
    for secret in secrets:
        assert secret not in seen
        assert secret.removeprefix("sk-dragoman-")[17:] not in seen or len(secret) < 60


@pytest.mark.parametrize("broken", ["database", "ledger", "policy"])
def test_a_fault_inside_says_nothing_about_the_inside(
    start: Start, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that nobody foresaw, in any layer, is a plain sentence with a request id."""

    @hook("cmf.llm_input")
    def fail(step: Step) -> PluginResult:
        raise RuntimeError("SELECT secret FROM /srv/x.py")

    async def boom(*_: Any, **__: Any) -> Any:
        raise RuntimeError("SELECT secret FROM /srv/x.py")

    setup = start(lambda _: whole_reply("chat"), client={"policy": [fail]} if broken == "policy" else {})
    _, secret = setup.create_key("1000000")
    if broken == "database":
        monkeypatch.setattr(Database, "read", boom)
    if broken == "ledger":
        monkeypatch.setattr(Ledger, "reserve", boom)
    for reply in replies_of(setup, secret):
        assert reply.status_code >= 400
        assert not [leak for leak in LEAKS if leak in reply.text], reply.text
        assert reply.headers["x-dragoman-request-id"]
