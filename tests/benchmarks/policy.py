"""The cost of a policy: turns, streamed deltas and a first question about a long history, against the same session
without one.

The provider answers in this process, so only the session is measured.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from dragoman import Message
from dragoman.canonical.events import TextDelta
from dragoman.policy import Pipeline, Plugin, Step, hook
from dragoman.session import Session
from tests.benchmarks.timing import Row, time_in_turns

MODEL = "anthropic:claude-opus-5-5"
TURNS, DELTAS, MESSAGES = 10, 500, 1000
ANSWER = "The capital of France is Paris."
DELTA = " Paris is the capital."
WINDOW = 64

_START = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_sequence": None,
    "usage": {"input_tokens": 12, "output_tokens": 5},
}  # fmt: skip


def _whole() -> bytes:
    return json.dumps(_START | {"content": [{"type": "text", "text": ANSWER}], "stop_reason": "end_turn"}).encode()


def _stream() -> bytes:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": _START | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": DELTA}}] * DELTAS,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": DELTAS}},
        {"type": "message_stop"},
    ]
    return b"".join(b"event: %s\ndata: %s\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events)


WHOLE, STREAMED = _whole(), _stream()


def _answer(request: httpx.Request) -> httpx.Response:
    if b'"stream":true' in request.content:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=STREAMED)
    return httpx.Response(200, headers={"content-type": "application/json"}, content=WHOLE)


def readers(number: int = 5) -> list[Plugin]:
    """Plugins that read every text: up to three that may deny, one that may change and one that only looks."""

    def look(step: Step) -> None:
        for view in step.views():
            assert "hunter2" not in (view.content or "")

    at = ("cmf.llm_input", "cmf.llm_output")
    modes = ("sequential", "sequential", "sequential", "transform", "audit")
    return [hook(*at, name=f"{index}", mode=mode, window=WINDOW)(look) for index, mode in enumerate(modes[:number])]


def policy() -> list[Row]:
    """A turn of a question and an answer, a delta of a reply of 500, and a first question."""
    kinds: dict[str, Pipeline | None] = {"none": None, "empty": Pipeline(), "five": Pipeline(readers())}
    turns = time_in_turns({name: turns_of(policy) for name, policy in kinds.items()}, rounds=15)
    deltas = time_in_turns({name: _deltas(policy) for name, policy in kinds.items()}, rounds=15)
    goals = {"empty": ("at most 1.05x", "at most 1.1x"), "five": ("at most 1.4x", "at most 4x")}
    titles = {"empty": "an empty pipeline", "five": "five plugins"}
    rows = [
        Row(
            f"one {what}, {titles[name]}", "without a policy", times["none"] / each, times[name] / each, goals[name][at]
        )
        for at, (what, times, each) in enumerate((("turn", turns, TURNS), ("delta", deltas, DELTAS)))
        for name in titles
    ]
    long = time_in_turns({"none": first_ask(None), "three": first_ask(Pipeline(readers(3)))}, rounds=15)
    what = f"a first question after {MESSAGES:,} messages, three plugins"
    return [*rows, Row(what, "without a policy", long["none"], long["three"], "at most 1.5x")]


def _session(policy: Pipeline | None, messages: Sequence[Message] = ()) -> Session:
    client = httpx.Client(transport=httpx.MockTransport(_answer))
    providers = {"anthropic": {"client": client, "api_key": "none"}}
    return Session(MODEL, providers=providers, policy=policy, messages=messages)


def turns_of(policy: Pipeline | None) -> Callable[[], object]:
    def run() -> None:
        session = _session(policy)
        for _ in range(TURNS):
            assert session.ask("What is the capital of France?").text == ANSWER

    return run


def first_ask(policy: Pipeline | None, messages: int = MESSAGES) -> Callable[[], object]:
    history = [
        message
        for number in range(messages // 2)
        for message in (
            Message.user(f"Question {number}: what is the capital of France, and why?" * 3),
            Message.assistant(f"Answer {number}: {ANSWER}" * 5),
        )
    ]

    def run() -> None:
        assert _session(policy, history).ask("What is the capital of France?").text == ANSWER

    return run


def _deltas(policy: Pipeline | None) -> Callable[[], object]:
    def run() -> None:
        shown = "".join(event.text for event in _session(policy).stream("Go") if isinstance(event, TextDelta))
        assert len(shown) == DELTAS * len(DELTA)

    return run
