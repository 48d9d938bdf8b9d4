"""What budgets do on every road: an unknown price is not free, and a small budget fits without any option."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from dragoman import AdapterOptions, AsyncClient, Budget, Client, get_adapter
from dragoman.adapter.errors import BudgetExceededError
from dragoman.canonical.usage import TokenUsage
from dragoman.pricing import price_table
from tests.unit.client.governed_provider import HARMLESS, MODEL, GovernedProvider

PRIORITY = {"input_tokens": 5000, "output_tokens": 500, "service_tier": "priority"}
PRICE = Decimal("0.0075")
"""US dollars of such a reply at the model's standard price; half of it in a batch."""
SMALL = AdapterOptions(max_output_tokens=100)
ASKED = 20


def _ask(settings: dict[str, Any]) -> int:
    client = Client(**settings)
    return _count(lambda: client.ask(MODEL, HARMLESS))


def _ask_async(settings: dict[str, Any]) -> int:
    async def run() -> int:
        async with AsyncClient(**settings) as client:
            for answered in range(ASKED):
                try:
                    await client.ask(MODEL, HARMLESS)
                except BudgetExceededError:
                    return answered
        return ASKED

    return asyncio.run(run())


def _stream(settings: dict[str, Any]) -> int:
    def ask() -> None:
        with client.session(MODEL) as session, session.stream(HARMLESS) as stream:
            list(stream)

    client = Client(**settings)
    return _count(ask)


def _bulk(settings: dict[str, Any]) -> int:
    with Client(**settings).bulk([HARMLESS] * ASKED, MODEL, concurrency=1) as report:
        assert report.stopped is not None
        return sum(row["answer"] is not None for row in report)


def _batch(settings: dict[str, Any]) -> int:
    with Client(**settings).batches(MODEL) as batches:
        return _count(lambda: batches.fetch(batches.submit({"one": HARMLESS})))


def _count(ask: Callable[[], Any]) -> int:
    for answered in range(ASKED):
        try:
            ask()
        except BudgetExceededError:
            return answered
    return ASKED


@pytest.mark.parametrize("road", [_ask, _ask_async, _stream, _bulk, _batch])
def test_replies_in_a_tier_without_a_price_use_up_a_budget(
    provider: GovernedProvider, settings: dict[str, Any], caplog: pytest.LogCaptureFixture, road: Any
) -> None:
    """The standard price is charged for each, with one warning; the cost of the reply stays unknown."""
    price = PRICE / 2 if road is _batch else PRICE
    provider.usage, budget = PRIORITY, Budget(usd="0.05" if road is not _batch else "0.025")
    with caplog.at_level(logging.WARNING, "dragoman.budget"):
        answered = road({**settings, "budgets": [budget], "options": SMALL})
    assert answered == 7
    assert (budget.spend_of().usd, budget.spend_of().tokens) == (7 * price, 7 * 5500)
    warnings = [each for each in caplog.records if "has no known price" in each.message]
    assert (len(warnings), HARMLESS in caplog.text) == (7, False)


@pytest.mark.parametrize("road", [_ask, _ask_async, _stream, _bulk, _batch])
def test_a_budget_below_the_price_of_the_longest_reply_answers(
    provider: GovernedProvider, settings: dict[str, Any], road: Any
) -> None:
    """A request that names no maximum of output reserves a default, whoever sends it."""
    adapter = get_adapter(MODEL)
    longest = TokenUsage(output_tokens=adapter.output_limit(AdapterOptions()))
    price = price_table().price(MODEL, longest, datetime.now(UTC)).cost_usd
    provider.usage, budget = {"input_tokens": 5000, "output_tokens": 500}, Budget(usd="0.05")
    assert price is not None
    assert price > Decimal("0.10")  # also at half of it, in a batch
    assert 0 < road({**settings, "budgets": [budget]}) < ASKED
    assert 0 < budget.spend_of().usd <= Decimal("0.05")


def test_the_cost_of_such_a_reply_stays_unknown(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """The budget has an estimate, and the usage has none."""
    provider.usage = PRIORITY
    reply = Client(**settings, budgets=[Budget(usd=1)], options=SMALL).ask(MODEL, HARMLESS)
    assert reply.message.usage is not None
    assert reply.message.usage.cost_usd is None


def test_an_unpriced_model_that_is_allowed_costs_nothing(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """Nothing is known that could be charged, and the program has agreed to that."""
    budget = Budget(usd=1, allow_unpriced=True)
    Client(**settings, budgets=[budget], options=SMALL).ask("anthropic:claude-unheard-of", HARMLESS)
    assert (budget.spend_of().usd, budget.spend_of().tokens) == (0, 1100)
