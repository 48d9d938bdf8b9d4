"""What a budget counts for broken, denied and abandoned replies."""

from datetime import date
from decimal import Decimal
from typing import Any

import httpx
import pytest

from dragoman import AdapterOptions, Message, get_adapter
from dragoman.adapter.errors import ProviderError
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.limits.budget import Spend
from dragoman.limits.reservation import BYTES_PER_TOKEN
from dragoman.policy import Pipeline, PolicyDeniedError
from dragoman.pricing import price_table
from dragoman.session import Budget
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Body, Driver, Wire
from tests.unit.session.handwritten_replies import handwritten_anthropic, handwritten_ollama, handwritten_overloaded
from tests.unit.session.middleware.policy_plugins import SECRET, DenyingPlugin

SMALL = AdapterOptions(max_output_tokens=100)
PAID_OLLAMA = price_table().with_overlay(
    {
        "ollama": {
            "source": "https://acme.example/prices",
            "checked": date(2026, 11, 10),
            "model": [
                {"id": "qwen3", "match": {"equals": ["qwen3"]}, "prices": [{"input": "1000000", "output": "1000000"}]}
            ],
        }
    }
)
"""One dollar for each token."""


OPENING = b'{"model":"qwen3","message":{"role":"assistant","content":""},"done":false}\n'
"""The first line of a stream of Ollama, without content."""


def cut_ollama(text: str) -> Body:
    """A stream of Ollama that breaks after this text: counts come in its last frame only."""
    return Body(handwritten_ollama(text).frames[:-1], httpx.ReadError("the connection is gone"))


def overloaded_anthropic(model: bytes = b"claude-opus-5-5") -> tuple[bytes, ...]:
    """A stream of Anthropic that reports its input and some text before the provider fails."""
    opening = handwritten_anthropic("One, two.", usage=(1000, 100)).frames[:5]
    return (*(frame.replace(b"claude-opus-5-5", model) for frame in opening), handwritten_overloaded())


def assert_settled(budget: Budget, *usages: Usage | None) -> None:
    """The budget counts exactly these replies, and reserves nothing."""
    assert budget.account_for(None).reserved == Spend()
    assert budget.spend_of(None) == sum((Spend.of(usage) for usage in usages if usage is not None), Spend())


def test_a_broken_reply_without_counts_is_charged_its_estimated_prompt_and_what_arrived(driver: Driver) -> None:
    """The caller saw a part, so the provider read the prompt: both count in tokens and in dollars. The session's cost
    is unknown."""
    budget = Budget(usd=10_000, tokens=10_000, per="client")
    session = driver.session({"ollama": Wire([cut_ollama("One, two.")])}, OLLAMA, budgets=[budget], options=SMALL,
                             prices=PAID_OLLAMA)  # fmt: skip
    seen: list[Any] = []
    with pytest.raises(ProviderError):
        driver.stream(session, "Hi", seen=seen)
    assert "text_delta" in [event.type for event in seen]
    prompt = get_adapter(OLLAMA).estimate_input_tokens([Message.user("Hi")], [])
    assert prompt > 0
    charged = prompt + len("One, two.") // BYTES_PER_TOKEN
    assert budget.spend_of(None) == Spend(Decimal(charged), charged)
    assert budget.account_for(None).reserved == Spend()
    assert [attempt.usage for attempt in session.attempts] == [None]
    assert (session.cost.usd, session.cost.status) == (None, CostStatus.UNPRICED)


def test_a_reply_that_broke_unseen_and_without_counts_is_not_charged(driver: Driver) -> None:
    """Only the retry counts."""
    budget = Budget(tokens=10_000, per="client")
    wire = Wire([Body([OPENING], httpx.ReadError("the connection is gone")), handwritten_ollama("One.")])
    session = driver.session({"ollama": wire}, OLLAMA, budgets=[budget], options=SMALL)
    driver.stream(session, "Hi")
    assert len(wire.requests) == 2
    assert session.attempts == ()
    assert session.cost.status is CostStatus.FREE
    assert_settled(budget, session.messages[-1].usage)
    assert budget.spend_of(None).tokens == 17


def test_a_broken_reply_with_counts_is_charged_a_lower_bound(driver: Driver) -> None:
    """The output that came after the last count is unknown, so the session's cost says that it is incomplete."""
    budget = Budget(usd=1, per="client")
    session = driver.session({"anthropic": Wire([overloaded_anthropic()])}, budgets=[budget], options=SMALL)
    with pytest.raises(ProviderError):
        driver.stream(session, "Hi")
    (attempt,) = session.attempts
    assert attempt.usage is not None
    assert (attempt.usage.cost_status, attempt.usage.unpriced) == (CostStatus.PARTIAL, ("output_tokens",))
    assert (session.cost.usd, session.cost.status) == (attempt.usage.cost_usd, CostStatus.PARTIAL)
    assert attempt.usage.cost_usd is not None
    assert budget.spend_of(None).tokens == attempt.usage.total_tokens + 1  # a second token had arrived
    assert budget.spend_of(None).usd > attempt.usage.cost_usd
    assert budget.account_for(None).reserved == Spend()


def test_a_broken_reply_of_an_unpriced_model_stays_unpriced(driver: Driver) -> None:
    """No part of its cost is known, so there is no lower bound."""
    budget = Budget(usd=1, per="client", allow_unpriced=True)
    wire = Wire([overloaded_anthropic(b"claude-unheard-of")])
    session = driver.session({"anthropic": wire}, "anthropic:claude-unheard-of", budgets=[budget], options=SMALL)
    with pytest.raises(ProviderError):
        driver.stream(session, "Hi")
    assert (session.cost.usd, session.cost.status) == (None, CostStatus.UNPRICED)
    assert budget.spend_of(None) == Spend(tokens=1002)


@pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])
def test_a_denied_reply_that_arrived_whole_has_its_exact_cost(driver: Driver, streamed: bool) -> None:
    """It is not kept, but its whole usage is known."""
    budget = Budget(usd=1, per="client")
    reply = handwritten_anthropic(f"It is {SECRET}.", usage=(1000, 100))
    session = driver.session({"anthropic": Wire([reply])}, budgets=[budget], options=SMALL,
                             policy=Pipeline([DenyingPlugin(SECRET, hooks=["cmf.llm_output"])]))  # fmt: skip
    with pytest.raises(PolicyDeniedError):
        (driver.stream if streamed else driver.ask)(session, "Hi")
    (attempt,) = session.attempts
    assert (attempt.content, session.cost.status) == ((), CostStatus.PRICED)
    assert_settled(budget, attempt.usage)
    assert budget.spend_of(None).tokens == 1100


def test_a_reply_that_the_caller_left_is_charged_what_had_arrived(driver: Driver) -> None:
    """Its counts if it reported any; otherwise, its estimated prompt and what had arrived."""
    budget = Budget(tokens=10_000, per="client")
    session = driver.session({"anthropic": Wire([handwritten_anthropic("One.", usage=(1000, 100))])}, ANTHROPIC,
                             budgets=[budget], options=SMALL)  # fmt: skip
    driver.stream(session, "Hi", until="text_delta")
    left = session.messages[-1].usage
    assert left is not None
    assert (left.cost_status, left.unpriced) == (CostStatus.PARTIAL, ("output_tokens",))
    assert_settled(budget, left)
    assert budget.spend_of(None).tokens == 1001
    budget = Budget(tokens=10_000, per="client")
    session = driver.session({"ollama": Wire([handwritten_ollama("One, two.")])}, OLLAMA, budgets=[budget],
                             options=SMALL)  # fmt: skip
    driver.stream(session, "Hi", until="text_delta")
    assert session.messages[-1].usage is None
    assert budget.spend_of(None).tokens == get_adapter(OLLAMA).estimate_input_tokens([Message.user("Hi")], []) + 1
    assert budget.account_for(None).reserved == Spend()
