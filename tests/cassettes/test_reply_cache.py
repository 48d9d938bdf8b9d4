"""A cache of replies as a middleware, over a cassette: the second session plays nothing."""

from collections.abc import Generator
from typing import Any

import httpx

from dragoman.bundled import bundled_path
from dragoman.cli import demo_script
from dragoman.cli.demo import replay_settings
from dragoman.messages import Message
from dragoman.session import Session
from dragoman.session.effects import Effect, Replied, Send, Turn, intercept
from dragoman.testing import Cassette, CassetteTransport

MODEL = f"openai-chat:{demo_script.RECORDED_MODEL}"
QUESTION = "What is the capital of France?"


class ReplyCache:
    """Gives a question that was asked before the reply that it had."""

    def __init__(self) -> None:
        self._replies: dict[str, Message] = {}

    def __call__(self, turn: Turn) -> Turn:
        return intercept(turn, self._handle)

    def _handle(self, effect: Effect) -> Generator[Effect, Any, Any]:
        if not isinstance(effect, Send):
            return (yield effect)
        question = effect.messages[-1].text
        if question in self._replies:
            return Replied(self._replies[question])
        outcome = yield effect
        if isinstance(outcome, Replied):
            self._replies[question] = outcome.message
        return outcome


def test_a_cached_reply_is_the_recorded_one() -> None:
    """Both sessions have the same answer and the same cost; one exchange is played."""
    cassette = Cassette.load(bundled_path("cassettes") / "llama-server" / "answers" / "openai-chat-plain.yaml")
    cache = ReplyCache()
    with httpx.Client(transport=CassetteTransport(cassette)) as client:
        providers = {"openai-chat": replay_settings("openai-chat", client)}
        replies = [
            Session(MODEL, providers=providers, middleware=[cache]).ask(QUESTION, max_output_tokens=32)
            for _ in range(2)
        ]
    first, second = replies
    assert cassette.unplayed == 0
    assert "Paris" in first.text
    assert second.message == first.message
    assert second.response is None
    assert first.response is not None
    assert first.cost == second.cost
