"""A policy sees everything that goes in and out for every key, on every wire, whole and streamed."""

import json
from typing import Any

import httpx
import pytest

from dragoman.policy import PluginResult, Step, Violation, hook
from dragoman.testing.faults.server import HttpReply, ReceivedRequest
from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import PATHS, question, streamed_reply, whole_reply


@hook("cmf.llm_input")
def deny_input(step: Step) -> PluginResult:
    """Denies prompts with a forbidden word, also those of a stored history."""
    return _judge(step, "forbidden question")


@hook("cmf.llm_output", window=40)
def deny_output(step: Step) -> PluginResult:
    """Denies replies with a forbidden word."""
    return _judge(step, "forbidden answer")


def _judge(step: Step, word: str) -> PluginResult:
    if word in step.message.text:
        return PluginResult(continue_processing=False, violation=Violation(reason="no", description="no", code="no"))
    return PluginResult()


def answer(wire: str, text: str) -> Any:
    def reply(request: ReceivedRequest) -> HttpReply:
        return streamed_reply(wire, text) if json.loads(request.body).get("stream") else whole_reply(wire, text)

    return reply


def ask(setup: Keyed, wire: str, text: str, **more: Any) -> tuple[int, bytes]:
    field = {"input": text} if wire == "responses" else {"messages": [{"role": "user", "content": text}]}
    received = b""
    body = {**question(wire, "house"), **field, **more}
    with setup.http().stream("POST", PATHS[wire], json=body) as reply:
        try:
            for chunk in reply.iter_raw():
                received += chunk
        except httpx.RemoteProtocolError:
            received += b"<cut>"
    return reply.status_code, received


@pytest.mark.parametrize("behind", PATHS)
def test_a_policy_judges_what_every_key_sends_and_gets(start: Start, behind: str) -> None:
    """A forbidden prompt reaches no provider and a forbidden reply no client, on each pair of wires, whole and
    streamed; the error is the wire's own."""
    policy = {"client": {"policy": [deny_input, deny_output]}}
    setup = start(answer(behind, "a forbidden answer, and more of it " * 3), behind, **policy)
    for wire in PATHS:
        for streamed in (False, True):
            status, body = ask(setup, wire, "a forbidden question", stream=streamed)
            assert (status, b"error" in body) == (400, True), body
    assert setup.server.requests == []
    for wire in PATHS:
        for streamed in (False, True):
            status, body = ask(setup, wire, "a harmless question", stream=streamed)
            assert b"forbidden answer" not in body
            assert b"error" in body or b"refus" in body, body
    assert len(setup.server.requests) == 6


def test_a_stored_history_is_judged_again(start: Start) -> None:
    """What was stored before a policy came is judged when it is continued."""
    before = start(answer("chat", "fine"))
    made = before.sdk().responses.create(model="house", input="a forbidden question")
    after = start(answer("chat", "fine"), client={"policy": [deny_input]})
    reply = after.http().post("/v1/responses", json=question("responses", "house", previous_response_id=made.id))
    assert reply.status_code == 400
    assert after.server.requests == []


def test_a_denied_reply_is_not_stored(start: Start) -> None:
    """A reply that a policy denies leaves nothing that could be read later."""
    setup = start(answer("chat", "a forbidden answer"), client={"policy": [deny_output]})
    queued = setup.sdk().responses.create(model="house", input="Hi", background=True)
    while (found := setup.sdk().responses.retrieve(queued.id)).status in ("queued", "in_progress"):
        pass
    assert (found.status, found.output) == ("failed", [])
