"""The log as JSON lines."""

import json
import logging
from collections.abc import Iterator

import httpx
import pytest

from dragoman_gateway.server.logs import configure_logs
from tests.gateway.upstream import gateway_before, question, whole_reply


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
