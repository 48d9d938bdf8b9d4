"""The middleware that sends each request as an `Attempt`, under what governs the session."""

from collections.abc import Generator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from dragoman.adapter.contract import bundled_prices
from dragoman.attempt.attempt import Attempt
from dragoman.effects import Observe, Stage
from dragoman.limits.bounds import max_usage
from dragoman.limits.budget import BudgetAccounts, Budgets, Spend
from dragoman.limits.limits import LimitGovernor
from dragoman.limits.reservation import Governor
from dragoman.session.config import SessionConfig
from dragoman.session.effects import Effect, Send, SendOutcome, Turn, intercept
from dragoman.session.history import History, MessageFactory


def govern(
    config: SessionConfig, accounts: BudgetAccounts | None, who: MessageFactory, history: History, turn: Turn
) -> Turn:
    """Wrap a turn. The budgets reserve first, then the limits, and then the governors of the program. ``accounts`` are
    those of the session's budgets, if it has some; ``who`` knows whose messages they are."""

    def spent() -> Spend:
        return Spend(history.cost.usd or Decimal(0), history.usage.total_tokens)

    budgets = None
    if accounts is not None:
        prices = config.prices if config.prices is not None else bundled_prices()
        budgets = Budgets(accounts.for_turn(who.user_id, who.team_id, spent), prices, config.clock)

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
