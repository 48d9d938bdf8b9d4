"""A middleware of a program, as docs/middleware.md has it: a cache of replies."""

from collections.abc import Generator
from typing import Any

from dragoman.messages import Message
from dragoman.session.effects import Effect, Replied, Send, Turn, intercept


class ReplyCache:
    """Answers a repeated question without sending a request."""

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
