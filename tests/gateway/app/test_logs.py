"""The log as JSON lines."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from dragoman.testing.faults.server import json_reply
from dragoman_gateway.server.logs import configure_logs
from tests.gateway.upstream import PATHS, PROVIDERS, gateway_before, question, whole_reply


@pytest.fixture(autouse=True)
def own_loggers() -> Iterator[None]:
    names = ("dragoman", "uvicorn")
    before = {
        name: (list(log.handlers), log.level, log.propagate) for name in names if (log := logging.getLogger(name))
    }
    yield
    for name, (handlers, level, propagates) in before.items():
        log = logging.getLogger(name)
        log.handlers[:], log.propagate = handlers, propagates
        log.setLevel(level)


def test_each_line_is_an_object_with_the_id_of_its_request(capsys: pytest.CaptureFixture[str]) -> None:
    with gateway_before(whole_reply("chat"), models={"house": "openai-chat:m", "other": "mistral:m"}) as (url, _):
        configure_logs("info", "json")
        reply = httpx.post(f"{url}/v1/chat/completions", json=question("chat", "house"))
        logging.getLogger("dragoman.other").warning("no request\nruns")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (ended,) = [line for line in lines if line["logger"] == "dragoman.gateway.requests"]
    assert ended["request"] == reply.headers["x-dragoman-request-id"]
    assert (ended["level"], ended["status"], ended["model"]) == ("info", 200, "openai-chat:m")
    (other,) = [line for line in lines if line["logger"] == "dragoman.other"]
    assert (other["message"], "request" in other) == ("no request\nruns", False)


def test_lines_of_the_library_within_a_request_have_its_id(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {**question("messages", "house"), "top_k": 5}  # a loss on this other wire, which the library logs
    with gateway_before(whole_reply("chat"), models={"house": "openai-chat:m"}) as (url, _):
        configure_logs("debug", "json")
        reply = httpx.post(f"{url}/v1/messages", json=asked)
    assert "x-dragoman-losses" in reply.headers
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    losses = [line for line in lines if line["logger"] == "dragoman.session" or "top_k" in line.get("message", "")]
    assert losses
    assert {line["request"] for line in losses} == {reply.headers["x-dragoman-request-id"]}


REFUSALS: dict[str, dict[str, Any]] = {
    "messages": {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}, "request_id": "req_own"},
    "chat": {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}},
}


@pytest.mark.parametrize("behind", REFUSALS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_has_one_id_in_its_body_and_its_headers(behind: str, *, stream: bool) -> None:
    """It is the gateway's own, which the log has, unless a provider of the client's wire has refused the request."""
    refusal = replace(json_reply(REFUSALS[behind], 400), headers={"request-id": "req_own", "x-request-id": "req_own"})
    with gateway_before(lambda _: refusal, models={"house": f"{PROVIDERS[behind]}:m"}) as (url, _):
        for model in ("house", "nothing"):
            reply = httpx.post(url + PATHS["messages"], json=question("messages", model, stream=stream))
            own = reply.headers["x-dragoman-request-id"]
            shown = "req_own" if (model, behind) == ("house", "messages") else own
            assert own.startswith("req_")
            assert (reply.json()["request_id"], reply.headers["request-id"]) == (shown, shown)
