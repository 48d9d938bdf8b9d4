"""`Router(fall_back_on=...)` inside a gateway: the client gets the answer of the next model alone, on every wire."""

import json
from typing import Any

import httpx
import pytest

from dragoman import Router
from dragoman.testing.faults.server import HttpReply, ReceivedRequest
from tests.gateway.upstream import PATHS, gateway_before, question, streamed_reply, whole_reply


def upstream(request: ReceivedRequest) -> HttpReply:
    """The first model says little."""
    asked = json.loads(request.body)
    text = "No." if asked["model"] == "first" else "The capital is Bern."
    return streamed_reply("chat", text) if asked.get("stream") else whole_reply("chat", text)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", ["chat", "messages", "responses"])
def test_the_next_model_answers_after_a_reply_that_a_router_rejects(wire: str, *, stream: bool) -> None:
    """On the provider's own wire, whose bytes pass, and on others."""
    router = Router(
        aliases={"house": "openai-chat:first"},
        global_default="openai-chat:second",
        fall_back_on=[lambda reply: len(reply.text) < 5],
    )
    with gateway_before(upstream, client={"router": router}) as (url, server):
        body: dict[str, Any] = question(wire, "house", stream=stream)
        reply = httpx.post(url + PATHS[wire], json=body)
        assert [json.loads(request.body)["model"] for request in server.requests] == ["first", "second"]
    assert reply.status_code == 200
    assert "Bern" in reply.text
    assert "No." not in reply.text
