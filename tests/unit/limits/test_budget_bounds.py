"""What exactly a budget reserves, up to its last token, and whose account it is."""

import logging
from decimal import Decimal
from typing import Any, Literal

import httpx
import pytest

from dragoman import AdapterOptions, Message, ToolDefinition, get_adapter
from dragoman.adapter.errors import BudgetExceededError
from dragoman.canonical.usage import TokenUsage
from dragoman.limits import Limit, Limits
from dragoman.limits.budget import Spend
from dragoman.pricing import price_table
from dragoman.session import Budget
from tests.unit.session.drivers import ANTHROPIC, NOW, OLLAMA, Driver, Wire
from tests.unit.session.handwritten_replies import handwritten_anthropic

OUTPUT = 100
SMALL = AdapterOptions(max_output_tokens=OUTPUT)
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string", "description": "The answer, in full."}}}
UNCOUNTED = {"model": "qwen3", "message": {"role": "assistant", "content": "One."}, "done": True, "done_reason": "stop"}


def estimate(*tools: ToolDefinition) -> int:
    return get_adapter(ANTHROPIC).estimate_input_tokens([Message.user("Hi")], tools)


def refuse(driver: Driver, budget: Budget, **settings: Any) -> BudgetExceededError:
    """The error of a request that this budget refuses."""
    session = driver.session({"anthropic": Wire([])}, budgets=[budget], **settings)
    with pytest.raises(BudgetExceededError) as caught:
        driver.ask(session, "Hi")
    return caught.value


def ask_once(driver: Driver, budget: Budget, **settings: Any) -> None:
    """Ask once; the reply counts 1,000 and 100 tokens."""
    wire = Wire([handwritten_anthropic("One.", usage=(1000, 100))])
    driver.ask(driver.session({"anthropic": wire}, budgets=[budget], options=SMALL, **settings), "Hi")


def test_a_budget_may_be_used_up_to_its_last_token(driver: Driver) -> None:
    """A request that needs exactly what is left is sent; one token less refuses it."""
    needed = estimate() + OUTPUT
    ask_once(driver, Budget(tokens=needed))
    assert refuse(driver, Budget(tokens=needed - 1), options=SMALL).needed == needed


def test_a_budget_may_be_used_up_to_its_last_cent(driver: Driver) -> None:
    needed = price_table().price(ANTHROPIC, TokenUsage(input_tokens=estimate(), output_tokens=OUTPUT), NOW).cost_usd
    assert needed
    ask_once(driver, Budget(usd=needed))
    assert refuse(driver, Budget(usd=needed - Decimal("1e-12")), options=SMALL).needed == needed


@pytest.mark.parametrize(
    ("cache", "buckets"),
    [
        (None, ("input_tokens",)),
        ("5m", ("cache_creation_input_tokens",)),
        ("1h", ("cache_creation_input_tokens", "cache_creation_1h_input_tokens")),
    ],
)
def test_input_that_is_cached_is_reserved_at_the_price_of_writing_it(
    driver: Driver, cache: Literal["5m", "1h"] | None, buckets: tuple[str, ...]
) -> None:
    """A cache write costs more than plain input, a one-hour write even more, and the whole input may be written."""
    usage = TokenUsage.model_validate(dict.fromkeys(buckets, estimate()) | {"output_tokens": OUTPUT})
    options = AdapterOptions(max_output_tokens=OUTPUT, prompt_cache=cache)
    assert refuse(driver, Budget(usd=0), options=options).needed == price_table().price(ANTHROPIC, usage, NOW).cost_usd


def test_a_schema_is_reserved_like_a_tool(driver: Driver) -> None:
    """Providers count it much like one."""
    options = AdapterOptions(max_output_tokens=OUTPUT, output_schema=SCHEMA)
    needed = refuse(driver, Budget(tokens=0), options=options).needed
    assert needed == estimate(ToolDefinition(name="answer", input_schema=SCHEMA)) + OUTPUT


def test_a_team_has_one_account(driver: Driver) -> None:
    """The users of a team share it, and their own names have none."""
    budget = Budget(tokens=10_000, per="team")
    for user in ("ann", "bob"):
        ask_once(driver, budget, user_id=user, team_id="red")
    assert [budget.spend_of(name).tokens for name in ("red", "ann", "bob", None)] == [2200, 0, 0, 0]


def test_spend_elsewhere_is_added_as_given() -> None:
    budget = Budget(tokens=10, per="user")
    budget.add_spend("ann", usd=Decimal("0.5"))
    assert budget.spend_of("ann") == Spend(Decimal("0.5"), 0)
    budget.add_spend("ann", tokens=3)
    assert budget.spend_of("ann") == Spend(Decimal("0.5"), 3)


@pytest.mark.parametrize(("uncounted", "budgeted"), [(True, True), (True, False), (False, True)])
def test_only_a_budgeted_reply_without_counts_is_logged(
    driver: Driver, caplog: pytest.LogCaptureFixture, uncounted: bool, budgeted: bool
) -> None:
    """Without a budget nothing is estimated, and a reply with counts is settled by them."""
    reply = UNCOUNTED if uncounted else {**UNCOUNTED, "prompt_eval_count": 12, "eval_count": 5}
    session = driver.session({"ollama": Wire([httpx.Response(200, json=reply)])}, OLLAMA, options=SMALL,
                             limits=Limits(Limit(requests=100)),
                             budgets=[Budget(tokens=10_000)] if budgeted else [])  # fmt: skip
    with caplog.at_level(logging.INFO, "dragoman.budget"):
        driver.ask(session, "Hi")
    assert ("dragoman.budget" in [record.name for record in caplog.records]) is (uncounted and budgeted)
