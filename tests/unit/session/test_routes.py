"""A session with a router: which model answers, which is the fallback, what replies record, what the router learns."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import (
    AuthenticationError,
    BudgetExceededError,
    ConfigurationError,
    InvalidRequestError,
    MissingKeyError,
    ServerError,
    StreamTruncatedError,
    UnknownProviderError,
)
from dragoman.canonical.message import Message, MessageStatus
from dragoman.canonical.message_fields import RoutingDecisionRecord, RoutingMode
from dragoman.limits.budget import Spend
from dragoman.routing import NoModelError, Router, Rule, When
from dragoman.session import Budget, Session, tool
from dragoman.store import Store
from tests.unit.session.drivers import ANTHROPIC, NOW, OLLAMA, Body, Driver, Wire, texts, types
from tests.unit.session.handwritten_replies import (
    Call,
    handwritten_anthropic,
    handwritten_ollama,
    handwritten_overloaded,
)

OPUS = handwritten_anthropic("Opus says so.")
QWEN = handwritten_ollama("Qwen says so.")
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    500: "api_error",
    529: "overloaded_error",
}
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])


@tool(side_effects="none")
def look(at: str) -> str:
    """Look at something."""
    return f"{at}: fine"


def router(**settings: Any) -> Router:
    return Router(**{"aliases": {"house": OLLAMA}, "clock": lambda: NOW, **settings})


def wires(anthropic: list[Any] | None = None, ollama: list[Any] | None = None) -> dict[str, Wire]:
    return {
        "anthropic": Wire([OPUS] * 3 if anthropic is None else anthropic),
        "ollama": Wire([QWEN] * 3 if ollama is None else ollama),
    }


def failing_responses(status: int) -> list[httpx.Response]:
    """A provider that fails in this way for all tries of one call."""
    error = {"type": "error", "error": {"type": KINDS[status], "message": "no"}}
    return [httpx.Response(status, json=error) for _ in range(30)]


def network_errors() -> list[Exception]:
    return [httpx.ConnectError("nobody there") for _ in range(30)]


def routing_record(reply: Message) -> RoutingDecisionRecord:
    assert reply.metadata.routing is not None
    return reply.metadata.routing


def record(session: Any) -> tuple[str, str, str]:
    """The model that answered last, by which policy and why."""
    routing = routing_record(session.messages[-1])
    return routing.chosen_model, str(routing.mode), routing.reason


def test_a_mention_applies_to_one_turn_and_is_not_sent(driver: Driver) -> None:
    """It is removed from the request and the history; the next turn uses the session's model."""
    provider = wires()
    session = driver.session(provider, router=router(mentions=True))
    assert driver.ask(session, "@house Who says so?").text == "Qwen says so."
    assert record(session) == (OLLAMA, "override", "the text begins with @house")
    assert provider["ollama"].requests[0]["messages"][-1]["content"] == "Who says so?"
    assert texts(session)[0] == ("user", "Who says so?")
    assert driver.ask(session, "And now?").text == "Opus says so."
    assert record(session) == (ANTHROPIC, "manual", "the session's model")


def test_a_mention_of_an_unknown_model_is_an_error_and_leaves_no_trace(driver: Driver) -> None:
    """A typo is not answered by another model."""
    provider = wires()
    session = driver.session(provider, router=router(mentions=True))
    with pytest.raises(UnknownProviderError, match="backslash"):
        driver.ask(session, "@hose Hi")
    assert session.messages == ()
    assert provider["anthropic"].requests == []
    driver.ask(session, "\\@hose Hi")
    assert texts(session)[0] == ("user", "@hose Hi")


@STREAMED
@pytest.mark.parametrize(
    "text", ["@anna Who says so?", "@house Hi", "@openai:gpt-5.5-pro Hi", "\\@house Hi", "@ollama:"]
)
def test_a_router_for_fallbacks_lets_no_text_choose_a_model(driver: Driver, streamed: bool, text: str) -> None:
    """A mention is text, unless the program turns mentions on."""
    provider = wires()
    session = driver.session(provider, router=router(global_default=OLLAMA))
    (driver.stream if streamed else driver.ask)(session, text)
    assert record(session) == (ANTHROPIC, "manual", "the session's model")
    assert texts(session)[0] == ("user", text)
    assert provider["ollama"].requests == []


@STREAMED
def test_an_argument_applies_to_one_turn(driver: Driver, streamed: bool) -> None:
    """It takes precedence over the session's model, and may be an alias."""
    session = driver.session(wires(), router=router())
    (driver.stream if streamed else driver.ask)(session, "Who?", model="house")
    assert record(session) == (OLLAMA, "override", "requested in this message")
    driver.ask(session, "Who?")
    assert record(session)[0] == ANTHROPIC


@STREAMED
def test_without_a_router_the_session_decides(driver: Driver, streamed: bool) -> None:
    """A mention is text, and a model for one message is refused at once."""
    session = driver.session(wires())
    with pytest.raises(ConfigurationError, match="router"):
        (driver.stream if streamed else driver.ask)(session, "Hi", model=OLLAMA)
    driver.ask(session, "@house Hi")
    assert texts(session)[0] == ("user", "@house Hi")
    assert record(session) == (ANTHROPIC, "manual", "the session's model")


def test_a_session_without_model_and_router_is_refused(driver: Driver) -> None:
    """No model could answer."""
    with pytest.raises(ConfigurationError, match="needs a model"):
        driver.session({}, None)


def test_rules_decide_if_the_session_has_no_model(driver: Driver) -> None:
    """A default answers if no rule fits; `swap` sets the session's model, which takes precedence over the rules."""
    rules = [Rule(name="tools", model="house", when=When(text_contains=("look",)))]
    session = driver.session(wires(), None, router=router(rules=rules, global_default=ANTHROPIC))
    assert session.model is None
    driver.ask(session, "Have a look.")
    assert record(session) == (OLLAMA, "rule", "the rule 'tools' matches")
    assert routing_record(session.messages[-1]).rule_name == "tools"
    driver.ask(session, "Hi")
    assert record(session) == (ANTHROPIC, "default", "the global default")
    session.swap("house")
    assert session.model == OLLAMA
    driver.ask(session, "Hi")
    assert record(session) == (OLLAMA, "manual", "the session's model")


def test_rules_see_the_spend_and_the_user(driver: Driver) -> None:
    """The cost of the session's replies, starting at 0."""
    dear = Rule(name="dear", model=OLLAMA, when=When(spent_over_usd=Decimal(0), users=frozenset({"ann"})))
    session = driver.session(wires(), None, user_id="ann", router=router(rules=[dear], global_default=ANTHROPIC))
    driver.ask(session, "Hi")
    driver.ask(session, "Hi")
    assert [message.metadata.model for message in session.messages if message.metadata.model] == [ANTHROPIC, OLLAMA]


@STREAMED
def test_without_a_valid_model_nothing_is_sent(driver: Driver, streamed: bool) -> None:
    """The error names every candidate; the history is as before."""
    provider = wires()
    session = driver.session(provider, max_rounds=1, router=router(), system="Be kind.")
    before = session.messages
    with pytest.raises(NoModelError) as caught:
        (driver.stream if streamed else driver.ask)(session, "Hi", max_output_tokens=10**9)
    assert caught.value.reasons == {ANTHROPIC: ("exceeds_context_window",)}
    assert session.messages == before
    assert provider["anthropic"].requests == []


@STREAMED
@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (lambda: failing_responses(529), "rate_limit"),
        (lambda: failing_responses(500), "server_error"),
        (lambda: failing_responses(401), "auth"),
        (lambda: failing_responses(404), "invalid_request"),
        (network_errors, "network"),
    ],
    ids=["529", "500", "401", "404", "unreached"],
)
def test_a_fallback_answers_before_the_caller_received_anything(
    driver: Driver, streamed: bool, failure: Callable[[], list[Any]], kind: str
) -> None:
    """After all tries of the first model, and recorded; the turn has one prompt and one answer."""
    session = driver.session(wires(failure()), router=router(global_default="house"))
    if streamed:
        shown = ["message_start", "text_delta", "usage_update", "message_complete"]
        assert types(driver.stream(session, "Who?")) == shown
    else:
        driver.ask(session, "Who?")
    assert texts(session) == [("user", "Who?"), ("assistant", "Qwen says so.")]
    assert record(session) == (OLLAMA, "default", f"the global default; passed over: {ANTHROPIC} ({kind})")
    assert session.model == ANTHROPIC


def test_there_is_no_fallback_after_the_caller_received_events(driver: Driver) -> None:
    """A stream that breaks after its first words stays broken: the error is the caller's."""
    provider = wires([OPUS.frames[:4]])
    session = driver.session(provider, router=router(global_default="house"))
    with pytest.raises(StreamTruncatedError):
        driver.stream(session, "Who?")
    assert provider["ollama"].requests == []
    assert session.messages == ()


def test_a_turn_is_locked_from_its_second_round_on(driver: Driver) -> None:
    """Only the model that called a tool reads the result."""
    provider = wires([handwritten_anthropic(Call("t1", "look", {"at": "it"})), *failing_responses(500)])
    session = driver.session(provider, tools=[look], router=router(global_default="house"))
    with pytest.raises(ServerError):
        driver.ask(session, "Look.")
    assert provider["ollama"].requests == []
    assert [role for role, _ in texts(session)] == ["user", "assistant", "tool"]


def test_a_fallback_keeps_the_rest_of_the_turn(driver: Driver) -> None:
    """A fallback keeps the rest of the turn: all later rounds, each with its routing record."""
    provider = wires(failing_responses(500), [handwritten_ollama(Call("c1", "look", {"at": "it"})), QWEN])
    session = driver.session(provider, tools=[look], router=router(global_default="house"))
    driver.ask(session, "Look.")
    replies = [message.metadata for message in session.messages if message.metadata.model]
    assert [reply.model for reply in replies] == [OLLAMA, OLLAMA]
    assert replies[0].routing == replies[1].routing
    assert len(provider["anthropic"].requests) == 3


def test_a_missing_key_falls_back(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transport detects it before anything is sent. Without another candidate the error is raised."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    session = driver.session(wires(), router=router(global_default="house"))
    del session.providers["anthropic"]["api_key"]
    driver.ask(session, "Who?")
    assert record(session)[2] == f"the global default; passed over: {ANTHROPIC} (not_configured)"
    alone = driver.session(wires(), router=router())
    del alone.providers["anthropic"]["api_key"]
    with pytest.raises(MissingKeyError):
        driver.ask(alone, "Who?")


def test_an_invalid_request_has_no_fallback(driver: Driver) -> None:
    """Another model would return the same error, or answer a different request."""
    provider = wires(failing_responses(400))
    session = driver.session(provider, router=router(global_default="house"))
    with pytest.raises(InvalidRequestError):
        driver.ask(session, "Who?")
    assert provider["ollama"].requests == []


def test_the_last_error_names_the_earlier_ones(driver: Driver) -> None:
    """The error names what happened with every model that was tried, and the history is as before."""
    session = driver.session(
        wires(failing_responses(529), failing_responses(500)), router=router(global_default="house")
    )
    with pytest.raises(ServerError) as caught:
        driver.ask(session, "Who?")
    assert any(ANTHROPIC in note for note in caught.value.__notes__)
    assert session.messages == ()


def test_five_failures_take_a_model_out(driver: Driver) -> None:
    """A call with all its tries counts as one failure. Then the next candidate is used, until a success is reported."""
    provider = wires([*failing_responses(500)[:15], OPUS], [QWEN] * 6)
    made = router(global_default="house")
    session = driver.session(provider, router=made)
    for _ in range(5):
        driver.ask(session, "Who?")
    assert len(provider["anthropic"].requests) == 15
    driver.ask(session, "Who?")
    assert len(provider["anthropic"].requests) == 15
    assert record(session)[2] == f"the global default; passed over: {ANTHROPIC} (provider_unavailable)"
    assert made.availability.outage(ANTHROPIC, NOW) is not None
    made.availability.report(ANTHROPIC, None, NOW)
    assert driver.ask(session, "Who?").text == "Opus says so."


def test_all_sessions_of_a_router_share_outages(driver: Driver) -> None:
    """A wrong key marks the provider as down, for the next session too."""
    made, provider = router(global_default="house"), wires()
    with pytest.raises(AuthenticationError):
        driver.ask(
            driver.session({"anthropic": Wire(failing_responses(401))}, router=Router(availability=made.availability)),
            "Hi",
        )
    session = driver.session(provider, router=made)
    driver.ask(session, "Hi")
    assert provider["anthropic"].requests == []
    assert record(session)[0] == OLLAMA


def test_a_broken_stream_counts_and_an_abandoned_one_does_not(driver: Driver) -> None:
    """An abandoned stream says nothing about the provider."""
    reports: list[Any] = []
    made = router()
    made.availability.report = lambda model, error, at: reports.append((model, type(error)))  # type: ignore[method-assign]
    session = driver.session(wires([OPUS, OPUS.frames[:4], Body(OPUS.frames), OPUS]), router=made)
    driver.ask(session, "Hi")
    with pytest.raises(StreamTruncatedError):
        driver.stream(session, "Hi")
    driver.stream(session, "Hi", until="text_delta")
    assert reports == [(ANTHROPIC, type(None)), (ANTHROPIC, StreamTruncatedError)]


def test_budgets_apply_to_the_model_that_is_asked(driver: Driver) -> None:
    """The failed model's reservation is released; the next model's cost is checked at its own prices."""
    budget = Budget(usd="0.01", per="client")
    free = driver.session(wires(failing_responses(500)), router=router(global_default="house"), budgets=[budget])
    driver.ask(free, "Hi", max_output_tokens=100)
    assert budget.account_for(None).reserved == Spend()
    assert budget.spend_of(None) == Spend(tokens=17)
    dear = driver.session(
        wires(None, failing_responses(500)), OLLAMA, router=router(global_default=ANTHROPIC), budgets=[budget]
    )
    with pytest.raises(BudgetExceededError):
        driver.ask(dear, "Hi", max_output_tokens=5000)
    assert dear.messages == ()


def test_a_broken_reply_stays_billed(driver: Driver) -> None:
    broken = [OPUS.frames[0], handwritten_overloaded()]
    session = driver.session(wires([broken] * 3), router=router(global_default="house"))
    driver.stream(session, "Hi")
    assert {attempt.metadata.model for attempt in session.attempts} == {ANTHROPIC}
    assert routing_record(session.attempts[0]).chosen_model == ANTHROPIC
    assert record(session)[0] == OLLAMA


def test_a_summary_is_written_by_the_sessions_model_or_a_default(driver: Driver) -> None:
    """The text to summarize may be too long for every model, so its size does not decide."""
    session = driver.session(wires(), None, router=router(global_default="house"))
    driver.ask(session, "One.")
    driver.ask(session, "Two.")
    summary = driver.compact(session, keep_last=1)
    assert summary.metadata.model == OLLAMA
    session.swap(ANTHROPIC)
    driver.ask(session, "Three.")
    assert driver.compact(session, keep_last=1).metadata.model == ANTHROPIC


def test_a_session_without_a_model_is_stored_and_loaded(driver: Driver, tmp_path: Any) -> None:
    """As JSON and in a store; without a router, a model has to be given to continue."""
    store = Store(f"sqlite:///{tmp_path}/kept.db")
    session = driver.session(wires(), None, router=router(global_default="house"), store=store)
    driver.ask(session, "Hi")
    made = router(global_default="house")
    assert Session.load(session.dump(), router=made).model is None
    assert Session.load(session.dump(), router=made, model="house").model == OLLAMA
    assert Session.resume(session.session_id, store, router=made).model is None
    with pytest.raises(ConfigurationError):
        Session.load(session.dump())
    with pytest.raises(ConfigurationError):
        Session.resume(session.session_id, store)
    assert Session.resume(session.session_id, store, model=OLLAMA).model == OLLAMA
    assert session.preview(ANTHROPIC).present_model is None
    store.close()


def test_a_later_turn_sees_the_partial_reply_before_it(driver: Driver) -> None:
    """The choice is made when the turn begins, after the partial reply of the earlier stream is stored."""
    seen: list[int] = []

    def recommend(request: Any) -> None:
        seen.append(request.tokens_on(ANTHROPIC))

    session = driver.session(wires(), router=router(recommender=recommend))
    driver.stream(session, "Hi", until="text_delta")
    assert session.messages[-1].metadata.status is MessageStatus.CANCELLED
    assert routing_record(session.messages[-1]).mode is RoutingMode.MANUAL
    driver.stream(session, "Hi")
    assert seen[0] < seen[1]
