"""The middleware that sends each request as an `Attempt`, under what governs the session."""

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any

from dragoman.attempt.attempt import Attempt
from dragoman.effects import Observe, Stage
from dragoman.limits.bounds import max_usage
from dragoman.limits.budget import Budgets
from dragoman.limits.limits import LimitGovernor
from dragoman.limits.reservation import Governor
from dragoman.session.config import SessionConfig
from dragoman.session.effects import Effect, Send, SendOutcome, Turn, intercept


def govern(config: SessionConfig, new_budgets: Callable[[], Budgets | None], turn: Turn) -> Turn:
    """Wrap a turn. The budgets reserve first, then the limits, and then the governors of the program."""
    budgets = new_budgets()

    def handle(effect: Effect) -> Generator[Effect, Any, Any] | None:
        if not isinstance(effect, Send):
            return None
        limits = None if config.limits is None else LimitGovernor(config.limits, str(effect.adapter.model_id))
        return _send(effect, [each for each in (budgets, limits, *config.governors) if each is not None])

    return intercept(turn, handle)


def _send(send: Send, governors: list[Governor]) -> Generator[Effect, Any, Any]:
    def exchange(observers: tuple[Observe, ...], stages: tuple[Stage, ...]) -> Generator[Effect, Any, SendOutcome]:
        governed = send
        if observers or stages:
            governed = replace(send, observers=(*send.observers, *observers), stages=(*send.stages, *stages))
        outcome: SendOutcome = yield governed
        return outcome

    measure = partial(max_usage, send.adapter, send.messages, send.tools, send.options)
    return (yield from Attempt(governors, measure).run(exchange))
