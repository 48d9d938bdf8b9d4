"""Several answers to one prompt in a session with a policy: each one is judged, whole and streamed."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dragoman.policy import Pipeline, PolicyDeniedError
from tests.unit.session.drivers import Driver, Wire
from tests.unit.session.handwritten_replies import Reply
from tests.unit.session.middleware.policy_plugins import SECRET, DenyingPlugin, RedactingPlugin

MODEL = "openai-chat:gpt-4.1"
ANSWERS = ("Fine", f"It is {SECRET}.", "Good")


def _chunk(**fields: Any) -> bytes:
    return b"data: " + json.dumps({"id": "c", "model": "gpt-4.1", **fields}).encode() + b"\n\n"


def _choice(index: int, key: str, message: Mapping[str, str]) -> dict[str, Any]:
    return {"index": index, key: {"role": "assistant", **message}, "finish_reason": "stop"}


def handwritten_answers() -> Reply:
    usage = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
    whole = [_choice(index, "message", {"content": text}) for index, text in enumerate(ANSWERS)]
    body = json.dumps({"id": "c", "object": "chat.completion", "model": "gpt-4.1", "choices": whole, "usage": usage})
    frames = [_chunk(choices=[_choice(index, "delta", {"content": text})]) for index, text in enumerate(ANSWERS)]
    frames += [_chunk(choices=[], usage=usage), b"data: [DONE]\n\n"]
    return Reply(body.encode(), tuple(frames), "text/event-stream")


@pytest.mark.parametrize("streamed", [False, True])
def test_each_answer_is_judged(driver: Driver, streamed: bool) -> None:
    """A plugin that changes replies changes the other answers too."""
    wire = Wire([handwritten_answers()])
    session = driver.session({"openai-chat": wire}, model=MODEL, policy=Pipeline([RedactingPlugin()]))
    if streamed:
        driver.stream(session, "Hi", n=3)
    else:
        driver.ask(session, "Hi", n=3)
    reply = session.messages[-1]
    assert (reply.text, [each.text for each in reply.alternatives]) == ("Fine", ["It is ***.", "Good"])
    assert SECRET not in session.dump().decode()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_denied_answer_denies_the_reply(driver: Driver, streamed: bool) -> None:
    wire = Wire([handwritten_answers()])
    session = driver.session({"openai-chat": wire}, model=MODEL, policy=Pipeline([DenyingPlugin(SECRET)]))
    with pytest.raises(PolicyDeniedError):
        driver.stream(session, "Hi", n=3) if streamed else driver.ask(session, "Hi", n=3)
    assert SECRET not in session.dump().decode()
