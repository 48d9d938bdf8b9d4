"""Middlewares: what wraps a turn.

A middleware is a function that gets the turn, a generator of effects, and returns another one. The easiest way to write
one is `intercept`, which calls a generator function for each effect:

    replies = {}

    def remember_replies(turn):
        def handle(effect):
            if not isinstance(effect, Send):
                return (yield effect)
            key = str(effect.messages)
            if key in replies:
                return Replied(replies[key])   # nothing is sent
            outcome = yield effect
            if isinstance(outcome, Replied):
                replies[key] = outcome.message
            return outcome
        return intercept(turn, handle)

    session = Session("anthropic:claude-opus-5-5", middleware=[remember_replies])

``dragoman.session.effects`` has the effects and their outcomes. Each effect passes through the program's middlewares
first, and then through the session's own: policy, telemetry, limits with budgets, persistence. So a policy judges what
is really sent.
"""

from collections.abc import Callable, Generator
from typing import Any

Middleware = Callable[[Generator[Any, Any, None]], Generator[Any, Any, None]]
"""Wraps a turn, a generator of `dragoman.session.effects.Effect`."""
