"""Budgets: checked before a request is sent, settled by its real usage, and shared without gaps."""

import asyncio
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest

from dragoman import AdapterOptions, Message, Session, get_adapter, tool
from dragoman.adapter.errors import (
    BudgetExceededError,
    CompactionError,
    ConfigurationError,
    ProviderError,
    UnpricedModelError,
)
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.limits.budget import Spend
from dragoman.limits.reservation import DEFAULT_OUTPUT_TOKENS
from dragoman.pricing import price_table
from dragoman.session import Budget
from dragoman.testing.faults.server import STALL, FaultyServer, HttpReply, ReceivedRequest, sse_reply
from tests.unit.session.drivers import ANTHROPIC, NOW, OLLAMA, AsyncDriver, Body, Driver, FakeTime, Wire
from tests.unit.session.handwritten_replies import (
    Call,
    handwritten_anthropic,
    handwritten_ollama,
    handwritten_overloaded,
)

SMALL = AdapterOptions(max_output_tokens=100)
UNPRICED = "anthropic:claude-unheard-of"


@tool
def look(at: str) -> str:
    """Look at something."""
    return f"{at} is fine."


def wire(*texts: str, usage: tuple[int, int] = (1000, 100)) -> dict[str, Wire]:
    return {"anthropic": Wire([handwritten_anthropic(text, usage=usage) for text in texts])}


@pytest.mark.parametrize(
    "limits",
    [{}, {"usd": -1}, {"usd": "NaN"}, {"usd": "five"}, {"usd": 0.5}, {"tokens": -1}, {"usd": 1, "per": "day"}],
)
def test_an_invalid_budget_is_refused(limits: dict[str, Any]) -> None:
    """When it is made, not when it is used."""
    with pytest.raises(ConfigurationError):
        Budget(**limits)


def test_a_request_that_could_cost_too_much_is_not_sent(driver: Driver) -> None:
    """Its worst case counts: the estimated input, and all the output that it may have."""
    provider = wire("One.")
    budget = Budget(usd="0.0001")
    session = driver.session(provider, budgets=[budget], options=SMALL)
    with pytest.raises(BudgetExceededError) as caught:
        driver.ask(session, "Hi")
    error = caught.value
    assert (error.per, error.unit, error.limit, error.spent) == ("session", "usd", Decimal("0.0001"), 0)
    output = price_table().price(ANTHROPIC, TokenUsage(output_tokens=100), NOW).cost_usd
    assert output is not None
    assert output < error.needed < output * 2
    assert provider["anthropic"].requests == []
    assert session.messages == ()
    assert "max_output_tokens" in str(error)


def test_actual_usage_replaces_the_reservation(driver: Driver) -> None:
    """After a reply its own counts apply, and the next request is checked against them."""
    budget = Budget(tokens=2000)
    session = driver.session(wire("One.", "Two."), budgets=[budget], options=SMALL)
    driver.ask(session, "Hi")
    assert session.usage.total_tokens == 1100
    with pytest.raises(BudgetExceededError) as caught:
        driver.ask(session, "word " * 2000)
    assert (caught.value.unit, caught.value.limit, caught.value.spent) == ("tokens", 2000, 1100)
    driver.ask(session, "Hi")
    with pytest.raises(BudgetExceededError) as caught:
        driver.ask(session, "Hi")
    assert caught.value.spent == 2200


def test_a_stream_is_paid_for_alike(driver: Driver) -> None:
    """With its counts if it is read to its end, else with those that had arrived."""
    budget = Budget(tokens=10_000, per="user")
    session = driver.session(wire("One, two, three.", "Two."), budgets=[budget], options=SMALL, user_id="ann")
    driver.stream(session, "Hi")
    assert budget.spend_of("ann").tokens == 1100
    driver.stream(session, "Hi", until="text_delta")
    left = session.messages[-1].usage
    assert left is not None
    assert budget.spend_of("ann").tokens == 1100 + left.total_tokens > 2000
    assert budget.account_for("ann").reserved == Spend()


def test_a_turn_is_checked_in_each_round(driver: Driver) -> None:
    """A budget per turn starts again with each turn; if it runs out, finished rounds stay in the history."""
    replies = [handwritten_anthropic(Call("toolu_A", "look", {"at": "a"}), usage=(1000, 100)),
               handwritten_anthropic("One.", usage=(10, 5)), handwritten_anthropic("Two.", usage=(10, 5))]  # fmt: skip
    provider = {"anthropic": Wire(replies)}
    session = driver.session(provider, tools=[look], budgets=[Budget(tokens=1500, per="turn")], options=SMALL)
    with pytest.raises(BudgetExceededError) as caught:
        driver.ask(session, "Look at a.")
    assert (caught.value.per, caught.value.spent) == ("turn", 1100)
    assert [str(message.role) for message in session.messages] == ["user", "assistant", "tool"]
    assert driver.ask(session, None).text == "One."
    assert driver.ask(session, "Again").text == "Two."


@pytest.mark.parametrize("budget", [Budget(usd=1), Budget(usd=1, per="turn"), Budget(usd=1, per="client")], ids=str)
def test_an_unpriced_model_is_refused_under_a_limit_in_money(driver: Driver, budget: Budget) -> None:
    """It is unknown when the limit is reached. An option allows such models, and a limit in tokens needs no price."""
    provider = wire("One.", "Two.")
    session = driver.session(provider, UNPRICED, budgets=[budget], options=SMALL)
    with pytest.raises(UnpricedModelError, match="claude-unheard-of"):
        driver.ask(session, "Hi")
    assert provider["anthropic"].requests == []
    for other in (Budget(usd=1, allow_unpriced=True), Budget(tokens=10_000)):
        assert driver.ask(driver.session(wire("One."), UNPRICED, budgets=[other], options=SMALL), "Hi").text == "One."


def test_a_free_model_costs_nothing(driver: Driver) -> None:
    """Free is a price."""
    session = driver.session({"ollama": Wire([handwritten_ollama("One.")])}, OLLAMA, budgets=[Budget(usd=0)])
    assert driver.ask(session, "Hi").text == "One."


def test_a_reply_without_counts_is_charged_its_estimated_prompt(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    """Its cost is unknown, and the budget reports that."""
    body = {"model": "qwen3", "message": {"role": "assistant", "content": "One."}, "done": True, "done_reason": "stop"}
    budget = Budget(tokens=10_000, per="client")
    session = driver.session(
        {"ollama": Wire([httpx.Response(200, json=body)])}, OLLAMA, budgets=[budget], options=SMALL
    )
    driver.ask(session, "Hi")
    assert session.messages[-1].usage is None
    assert 0 < budget.spend_of(None).tokens < 100
    assert "has no token counts" in caplog.text


def test_users_have_separate_accounts(driver: Driver) -> None:
    """One budget has an account for each user, across all sessions; spending elsewhere counts."""
    budget = Budget(tokens=2500, per="user")

    def session(user: str) -> Any:
        return driver.session(wire("One.", "Two."), budgets=[budget], options=SMALL, user_id=user)

    for _ in range(2):
        driver.ask(session("ann"), "Hi")
    with pytest.raises(BudgetExceededError):
        driver.ask(session("ann"), "word " * 300)
    driver.ask(session("bob"), "word " * 300)
    assert (budget.spend_of("ann").tokens, budget.spend_of("bob").tokens) == (2200, 1100)
    assert budget.spend_of("ann").usd == 2 * budget.spend_of("bob").usd > 0
    budget.add_spend("bob", tokens=1400)
    with pytest.raises(BudgetExceededError):
        driver.ask(session("bob"), "Hi")


def test_a_failed_request_releases_its_reservation(driver: Driver) -> None:
    """An error by status is not billed."""
    budget = Budget(tokens=10_000, per="client")
    provider = {
        "anthropic": Wire([httpx.Response(400, json={"type": "error", "error": {"type": "invalid_request_error"}})])
    }
    session = driver.session(provider, budgets=[budget], options=SMALL)
    with pytest.raises(ProviderError):
        driver.ask(session, "Hi")
    assert budget.spend_of(None) == budget.account_for(None).reserved == Spend()
    assert session.attempts == ()


def broken_stream(frames: int) -> tuple[bytes, ...]:
    """A stream that reports its input, and some text or none, before the provider fails."""
    return (*handwritten_anthropic("One, two.", usage=(1000, 100)).frames[:frames], handwritten_overloaded())


def test_a_retry_pays_for_the_attempt_before_it(driver: Driver) -> None:
    """A broken stream that reported its usage was billed: it counts in the cost, and in the budget of the turn."""
    provider = {"anthropic": Wire([broken_stream(2), handwritten_anthropic("One.", usage=(1000, 100))])}
    budget = Budget(tokens=10_000, per="client")
    session = driver.session(provider, budgets=[budget], options=SMALL, fake_time=FakeTime())
    driver.stream(session, "Hi")
    (attempt,) = session.attempts
    assert attempt.usage is not None
    assert (attempt.usage.input_tokens, attempt.content) == (1000, ())
    reply = session.messages[-1].usage
    assert reply is not None
    assert reply.cost_usd is not None
    assert attempt.usage.cost_usd is not None
    assert session.cost.usd == reply.cost_usd + attempt.usage.cost_usd
    assert session.cost.status is CostStatus.PARTIAL
    assert session.cost.replies == 2
    assert budget.spend_of(None).tokens == session.usage.total_tokens > 2000


def test_a_broken_reply_that_was_seen_is_paid_for(driver: Driver) -> None:
    """The turn fails and the history is as before, but the cost counts."""
    session = driver.session({"anthropic": Wire([broken_stream(5)])}, budgets=[Budget(tokens=10_000)], options=SMALL)
    with pytest.raises(ProviderError):
        driver.stream(session, "Hi")
    assert session.messages == ()
    assert session.usage.input_tokens == 1000
    assert session.cost_on(OLLAMA).replies == 1


def test_a_reply_abandoned_before_its_first_word_is_paid_for() -> None:
    """The provider has read the prompt by then."""
    body = Body(handwritten_anthropic("One.", usage=(1000, 100)).frames[:2], "stall")
    provider = {"anthropic": Wire([body])}
    budget = Budget(tokens=10_000, per="client")
    driver = AsyncDriver()
    session = driver.session(provider, budgets=[budget], options=SMALL)

    async def main() -> None:
        async def read() -> None:
            async for _ in session.stream("Hi"):
                raise AssertionError("nothing was said")

        task = asyncio.create_task(read())
        while not provider["anthropic"].bodies:
            await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    with driver.runner:
        driver.runner.run(main())
    assert session.messages == ()
    assert session.usage.input_tokens == 1000
    assert budget.spend_of(None).tokens == session.usage.total_tokens
    assert budget.account_for(None).reserved == Spend()


def test_attempts_are_stored(driver: Driver) -> None:
    """A budget per session has them when it is loaded again; a session without a budget is stored as before."""
    session = driver.session({"anthropic": Wire([broken_stream(5)])}, options=SMALL)
    assert b"attempts" not in session.dump()
    with pytest.raises(ProviderError):
        driver.stream(session, "Hi")
    again = type(session).load(session.dump(), budgets=[Budget(tokens=1050)], options=SMALL)
    assert again.attempts == session.attempts
    assert again.cost == session.cost
    assert again.dump() == session.dump()
    with pytest.raises(BudgetExceededError) as caught:
        driver.ask(again, "Hi")
    assert caught.value.spent == session.usage.total_tokens


def test_compaction_is_paid_for(driver: Driver) -> None:
    """By the budgets, whether or not the summary is used."""
    history = [Message.user("One?"), Message.assistant("One."), Message.user("Two?"), Message.assistant("Two.")]
    budget = Budget(tokens=100_000, per="client")
    session = driver.session(wire(" "), budgets=[budget], messages=history)
    with pytest.raises(CompactionError):
        driver.compact(session, keep_last=2)
    assert budget.spend_of(None).tokens == 1100
    assert session.usage.total_tokens == 1100
    poor = driver.session(wire("Short."), budgets=[Budget(tokens=10)], messages=history)
    with pytest.raises(BudgetExceededError):
        driver.compact(poor, keep_last=2)


def test_a_first_question_fits_under_a_small_budget_in_dollars(driver: Driver) -> None:
    """Without a limit of output a stated default is reserved, and the request is the same as without a budget."""
    most = TokenUsage(output_tokens=get_adapter(ANTHROPIC).output_limit(AdapterOptions()))
    cost = price_table().price(ANTHROPIC, most, NOW).cost_usd
    assert cost is not None
    assert cost > Decimal("0.40")
    providers = wire("One."), wire("One.")
    for provider, budgets in zip(providers, ([], [Budget(usd="0.40")]), strict=True):
        assert driver.ask(driver.session(provider, budgets=budgets), "Hi").text == "One."
    free, counted = (provider["anthropic"].requests[0] for provider in providers)
    assert free == counted


def test_a_stream_reserves_more_as_it_grows(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrives beyond the reservation is reserved before it goes on, in all budgets or in none."""
    monkeypatch.setattr("dragoman.limits.reservation.DEFAULT_OUTPUT_TOKENS", 10)
    words = "word " * 100  # 500 bytes, 125 tokens
    roomy = Budget(tokens=10_000, per="client")
    session = driver.session(wire(words, usage=(20, 125)), budgets=[roomy])
    driver.stream(session, "Hi")
    assert roomy.spend_of(None) == Spend(roomy.spend_of(None).usd, 145)
    assert roomy.account_for(None).reserved == Spend()

    tight = Budget(tokens=110, per="client")
    session = driver.session(wire(words, usage=(20, 125)), budgets=[roomy, tight])
    seen: list[Any] = []
    with pytest.raises(BudgetExceededError) as caught:
        driver.stream(session, "Hi", seen=seen)
    assert (caught.value.limit, caught.value.reserved > 0, caught.value.sent) == (110, True, True)
    assert tight.spend_of(None).tokens >= 20  # what the provider had reported
    assert roomy.account_for(None).reserved == tight.account_for(None).reserved == Spend()


def test_a_refusal_says_whether_requests_in_flight_are_in_the_way(driver: Driver) -> None:
    """What they hold and do not use is free again when they end."""
    budget = Budget(tokens=500, per="client")
    account = budget.account_for(None)
    account.reserved = Spend(tokens=300)
    for spent, may_fit in ((0, True), (400, False)):
        account.spent = Spend(tokens=spent)
        session = driver.session(wire("One."), budgets=[budget], options=AdapterOptions(max_output_tokens=200))
        with pytest.raises(BudgetExceededError) as caught:
            driver.ask(session, "Hi")
        error = caught.value
        assert (error.spent, error.reserved, error.may_fit) == (spent + 300, 300, may_fit)
        assert ("has ended" in str(error)) is may_fit
    assert not UnpricedModelError("a:b", "client").may_fit


def test_a_schema_and_the_default_output_count() -> None:
    """Without a limit a reply is reserved with a default, and a schema counts like a tool."""
    limit = DEFAULT_OUTPUT_TOKENS
    needed = []
    for schema in (None, {"type": "object", "properties": {"answer": {"type": "string"}}}):
        session = Session(ANTHROPIC, budgets=[Budget(tokens=limit)], options=AdapterOptions(output_schema=schema))
        with pytest.raises(BudgetExceededError) as caught:
            session.ask("Hi")
        needed.append(caught.value.needed)
    assert limit < needed[0] < needed[1]


@pytest.mark.parametrize(("model", "second"), [(ANTHROPIC, Budget(tokens=10)), (UNPRICED, Budget(usd=1))])
def test_several_budgets_reserve_together_or_not_at_all(driver: Driver, model: str, second: Budget) -> None:
    """If the second one refuses, the first one gets its reservation back."""
    wide = Budget(tokens=100_000, per="client")
    session = driver.session(wire("One."), model, budgets=[wide, second], options=SMALL)
    with pytest.raises(BudgetExceededError):
        driver.ask(session, "Hi")
    assert wide.account_for(None).reserved == wide.spend_of(None) == Spend()


@pytest.fixture
def slow() -> Iterator[FaultyServer]:
    """Answers when the test allows it, and stalls in a stream."""
    with FaultyServer(_answer) as server:
        yield server


go = threading.Event()


def _answer(request: ReceivedRequest) -> HttpReply:
    go.wait(60)
    if b'"stream":true' in request.body:
        return sse_reply(*handwritten_anthropic("One.", usage=(600, 50)).frames[:4], STALL)
    return HttpReply(
        headers={"content-type": "application/json"}, body=handwritten_anthropic("One.", usage=(600, 50)).body
    )


def test_concurrent_requests_cannot_pass_one_check_together(slow: FaultyServer) -> None:
    """Reservations count: of many sessions of one user, only as many ask as there is room for."""
    go.clear()
    budget = Budget(tokens=250, per="user")  # one request may use some 110 to 130
    settings = {"anthropic": {"base_url": slow.url, "api_key": "none"}}
    refused: list[BudgetExceededError] = []
    answered: list[str] = []
    start = threading.Barrier(8)

    def run() -> None:
        with Session(ANTHROPIC, providers=settings, budgets=[budget], options=SMALL, user_id="ann") as session:
            start.wait(60)
            try:
                answered.append(session.ask("Hi").text)
            except BudgetExceededError as error:
                refused.append(error)
            if len(refused) == 6:
                go.set()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(answered), len(refused)) == (2, 6)
    assert len(slow.requests) == 2
    assert budget.spend_of("ann").tokens == 1300
    assert budget.account_for("ann").reserved == Spend()


def test_abandoning_a_stream_releases_the_rest(slow: FaultyServer) -> None:
    """What had arrived is settled; a turn that is over holds no reservation."""
    go.set()
    budget = Budget(tokens=5000, per="client")
    settings = {"anthropic": {"base_url": slow.url, "api_key": "none"}}
    with Session(ANTHROPIC, providers=settings, budgets=[budget], options=SMALL) as session:
        for event in session.stream("Hi"):
            if event.type == "text_delta":
                assert budget.account_for(None).reserved.tokens > 100
                break
    assert budget.account_for(None).reserved == Spend()
    assert budget.spend_of(None).tokens >= 600


def test_repr_shows_the_settings_of_a_budget() -> None:
    assert repr(Budget(usd="2.50", tokens=9, per="user")) == "Budget(usd=2.50, tokens=9, per='user')"
