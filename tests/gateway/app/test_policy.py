"""A policy judges everything that goes in and comes out, on the client's own wire too."""

import json
import re

import httpx
import pytest

from dragoman.policy import Step, Violation, hook
from dragoman.policy.plugins import Finder, Finding, Redaction
from tests.gateway.upstream import PATHS, PROVIDERS, gateway_before, question, streamed_reply, whole_reply


def staff_numbers(text: str) -> list[Finding]:
    return [Finding(*match.span(), "staff_number") for match in re.finditer(r"S-\d{6}", text)]


def redaction() -> Redaction:
    return Redaction([Finder(staff_numbers, max_length=8)])


CONVERSATION = [
    {"role": "user", "content": "I am S-104233."},
    {"role": "assistant", "content": "Hello, S-104233."},
    {"role": "user", "content": "Who is S-104234?"},
]


@pytest.mark.parametrize("behind", ["messages", "chat"])
@pytest.mark.parametrize("stream", [False, True])
def test_secrets_are_redacted_in_the_whole_conversation_and_in_the_reply(behind: str, stream: bool) -> None:
    text = "S-104234 is new."
    reply = streamed_reply(behind, text[:5], text[5:]) if stream else whole_reply(behind, text)
    settings = {"models": {"house": f"{PROVIDERS[behind]}:m"}, "client": {"policy": [redaction()]}}
    body = {**question("messages", "house", stream=stream), "messages": CONVERSATION}
    with gateway_before(reply, **settings) as (url, server):
        answer = httpx.post(f"{url}/v1/messages", json=body)
        (received,) = server.requests
    assert answer.status_code == 200
    assert b"S-1042" not in received.body
    assert received.body.count(b"[staff_number]") == 3
    assert "S-1042" not in answer.text
    assert "staff_number" in answer.text


def test_what_a_policy_does_not_change_goes_through_as_bytes() -> None:
    settings = {"models": {"house": "anthropic:m"}, "client": {"policy": [redaction()]}}
    sent = json.dumps(question("messages", "house"), indent=1).encode()
    with gateway_before(whole_reply("messages"), **settings) as (url, server):
        httpx.post(f"{url}/v1/messages", content=sent, headers={"content-type": "application/json"})
        (received,) = server.requests
    assert received.body == sent.replace(b'"house"', b'"m"')


@hook("cmf.llm_input", name="no Bern")
def no_bern(step: Step) -> Violation | None:
    return Violation("nobody asks for Bern", code="bern") if "Bern" in step.message.text else None


@pytest.mark.parametrize("wire", PATHS)
def test_a_denied_request_is_refused_in_the_wire_of_the_client(wire: str) -> None:
    settings = {"models": {"house": "openai-chat:m"}, "client": {"policy": [no_bern]}}
    with gateway_before(whole_reply("chat"), **settings) as (url, server):
        replies = [httpx.post(url + PATHS[wire], json=question(wire, "house", stream=each)) for each in (False, True)]
    for reply in replies:
        assert reply.status_code == 400
        assert "nobody asks for Bern" in reply.json()["error"]["message"]
    assert not server.requests
