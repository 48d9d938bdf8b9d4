"""The middleware that sends each request as an `Attempt`, under what governs the session."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from dragoman.attempt.attempt import Attempt
from dragoman.effects import Observe, Stage
from dragoman.limits.bounds import max_usage
from dragoman.limits.reservation import Governor
from dragoman.session.effects import Effect, Send, SendOutcome, Turn, intercept


def govern(governors: Callable[[Send], Iterable[Governor]], turn: Turn) -> Turn:
    """Wrap a turn. ``governors`` returns what governs one attempt, in the order in which they reserve."""
    return intercept(turn, partial(_send, governors))


def _send(governors: Callable[[Send], Iterable[Governor]], effect: Effect) -> Generator[Effect, Any, Any]:
    if not isinstance(effect, Send):
        return (yield effect)
    send = effect

    def exchange(observers: tuple[Observe, ...], stages: tuple[Stage, ...]) -> Generator[Effect, Any, SendOutcome]:
        outcome: SendOutcome = yield replace(
            send, observers=(*send.observers, *observers), stages=(*send.stages, *stages)
        )
        return outcome

    measure = partial(max_usage, send.adapter, send.messages, send.tools, send.options)
    return (yield from Attempt(governors(send), measure).run(exchange))
