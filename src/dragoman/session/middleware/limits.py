"""The middleware of budgets and limits. It reserves the cost of each attempt, waits until the limits let the attempt
start, and settles both by its outcome."""

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.limits.budget import Budgets, Reservation
from dragoman.limits.limits import Grant, Limits
from dragoman.session.effects import (
    Abandoned,
    Broken,
    Effect,
    Failed,
    Perform,
    Replied,
    Send,
    SendOutcome,
    Turn,
    intercept,
)

logger = logging.getLogger("dragoman.limits")

_ALL_RESERVED = TokenUsage()
"""Stands for everything that was reserved: compared by identity."""


class LimitsMiddleware:
    """``new_budgets`` returns the budgets of a new turn."""

    def __init__(self, limits: Limits | None, new_budgets: Callable[[], Budgets]) -> None:
        self._limits = limits
        self._new_budgets = new_budgets

    def __call__(self, turn: Turn) -> Turn:
        return intercept(turn, partial(self._handle, self._new_budgets()))

    def _handle(self, budgets: Budgets, effect: Effect) -> Generator[Effect, Any, Any]:
        if not isinstance(effect, Send):
            return (yield effect)
        reservation = budgets.reserve(effect.adapter, effect.messages, effect.tools, effect.options)
        try:
            if self._limits is None:
                outcome: SendOutcome = yield effect
            else:
                outcome = yield from self._send_within(self._limits, effect)
            _settle_budgets(reservation, outcome)
            return outcome
        finally:
            reservation.release()

    def _send_within(self, limits: Limits, send: Send) -> Generator[Effect, Any, SendOutcome]:
        model = str(send.adapter.model_id)
        input_tokens = send.adapter.estimate_input_tokens(send.messages, send.tools)
        output_tokens = limits.output_tokens(send.adapter, send.options)
        try:
            grant: Grant = yield Perform(
                partial(limits.acquire, model, input_tokens, output_tokens),
                partial(limits.acquire_async, model, input_tokens, output_tokens),
            )
        except ProviderError as error:  # a limit is reached: another model may have room
            return Failed(error)
        outcome: SendOutcome = yield replace(send, observers=(*send.observers, partial(_observe, limits, model)))
        if isinstance(outcome, Failed) and isinstance(outcome.error, ProviderError):
            yield _observe(limits, model, outcome.error)
        used, requests = _count_use(outcome, input_tokens)
        if used is not _ALL_RESERVED:
            yield _settle_grant(limits, grant, used, requests)
        return outcome


def _settle_budgets(reservation: Reservation, outcome: SendOutcome) -> None:
    """Settle by the usage of the reply.

    If the reply reported none, it counts as its estimated input if the caller saw any of it, and as nothing otherwise.
    """
    match outcome:
        case Replied():
            reservation.settle(outcome.message.usage)
        case Broken():
            usage = _usage(outcome)
            if usage is not None or outcome.seen:
                reservation.settle(usage)
        case Abandoned():
            usage = _usage(outcome)
            if usage is not None or outcome.partial is not None:
                reservation.settle(usage)
        case Failed():
            pass


def _count_use(outcome: SendOutcome, input_tokens: int) -> tuple[TokenUsage | None, int]:
    """Return the tokens and the requests that a limit counts.

    If a reply reported no usage and the caller saw any of it, everything that was reserved counts.
    """
    usage = _usage(outcome)
    if isinstance(outcome, Failed):
        return None, int(isinstance(outcome.error, ProviderError))
    seen = (
        isinstance(outcome, Replied)
        or (isinstance(outcome, Broken) and outcome.seen)
        or (isinstance(outcome, Abandoned) and outcome.partial is not None)
    )
    if seen:
        return usage or _ALL_RESERVED, 1
    if outcome.response is None:
        return usage, 0
    return usage or TokenUsage(input_tokens=input_tokens), 1


def _usage(outcome: SendOutcome) -> Usage | None:
    match outcome:
        case Replied():
            return outcome.message.usage
        case Broken():
            return None if outcome.partial is None else outcome.partial.usage
        case Abandoned():
            reply = outcome.partial or outcome.billed
            return None if reply is None else reply.usage
        case _:
            return None


def _settle_grant(limits: Limits, grant: Grant, used: TokenUsage | None, requests: int) -> Perform:
    return _log_errors_of(
        partial(limits.settle, grant, used, requests=requests),
        partial(limits.settle_async, grant, used, requests=requests),
    )


def _observe(limits: Limits, model: str, headers_or_error: Mapping[str, str] | ProviderError) -> Perform:
    return _log_errors_of(
        partial(limits.observe, model, headers_or_error), partial(limits.observe_async, model, headers_or_error)
    )


def _log_errors_of(work: Callable[[], None], work_async: Callable[[], Awaitable[None]]) -> Perform:
    """Return the work as an effect that logs an error of the counters: the reply is valid without them."""

    def run() -> None:
        try:
            work()
        except DragomanError as error:
            _log_uncounted(error)

    async def run_async() -> None:
        try:
            await work_async()
        except DragomanError as error:
            _log_uncounted(error)

    return Perform(run, run_async)


def _log_uncounted(error: DragomanError) -> None:
    logger.warning("the limits could not count a request: %s", error)
