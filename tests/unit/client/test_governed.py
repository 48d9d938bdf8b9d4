"""A client's policy, limits, budgets, events and store hold in bulk runs, batches and commands, too."""

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman import (
    AsyncSession,
    Budget,
    Client,
    Limit,
    Limits,
    Message,
    Router,
    set_default_client,
)
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import BudgetExceededError, ConfigurationError, DragomanError
from dragoman.batch import AsyncBatches, BatchError, Batches, BatchHandle, BatchRequest
from dragoman.bulk import bulk
from dragoman.events import EventBus
from dragoman.limits import LimitReachedError
from dragoman.policy import Pipeline, PolicyDeniedError
from dragoman.policy.plugins import LabelledModels
from dragoman.pricing import price_table
from dragoman.routing import label_rules
from dragoman.testing.faults.server import FaultyServer, json_reply
from tests.unit.client.governed_provider import HARMLESS, LEAK, MODEL, NAMED, PROMPTS, QUOTE, GovernedProvider
from tests.unit.client.runs import DENY, REDACT, run_bulk, store_in, texts
from tests.unit.session.handwritten_replies import handwritten_anthropic
from tests.unit.session.middleware.policy_plugins import RecordingPlugin


def labelled(*labels: str) -> list[dict[str, Any]]:
    return [{"prompt": f"row {number}", "secrecy": each} for number, each in enumerate(labels)]


def test_what_is_denied_is_billed_and_counted(settings: dict[str, Any]) -> None:
    """A denied answer was paid for, so the row has its cost; a denied prompt costs nothing."""
    with Client(**settings, **DENY).bulk([LEAK, NAMED], MODEL) as report:
        assert [row["cost"] for row in report] == [Decimal("0.0015"), None]
        assert (report.errors, report.finished, report.cost_usd) == (2, True, Decimal("0.0015"))


def test_a_denied_row_is_asked_again_on_request(
    provider: GovernedProvider, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Another policy may let it be answered; until then its error stays."""
    run_bulk({**settings, **DENY}, tmp_path)
    assert run_bulk({**settings, **REDACT}, tmp_path) == run_bulk({**settings, **DENY}, tmp_path)
    answers = run_bulk({**settings, **REDACT}, tmp_path, retry_errors=True)
    assert answers[1:] == [
        "the word is ***.",
        "anthropic: no *** here (status 400, code invalid_request_error)",
        "re: what is ***?",
    ]
    assert provider.prompts.count(HARMLESS) == 1


def test_temporary_errors_are_retried_in_one_turn(settings: dict[str, Any], tmp_path: Path) -> None:
    """Each request is recorded before it is sent, and the turn ends once."""
    bus, seen = EventBus(), []
    bus.subscribe(lambda event: seen.append(event.type))
    calls = iter(range(100))

    def answer(request: Any) -> Any:
        if next(calls) == 0:
            return json_reply({"type": "error", "error": {"type": "api_error", "message": "later"}}, status=500)
        return json_reply(json.loads(handwritten_anthropic("Ok.").body))

    with FaultyServer(answer) as server:
        settings["providers"]["anthropic"]["base_url"] = server.url
        with Client(**settings, events=bus).bulk([HARMLESS], MODEL) as report:
            assert [row["answer"] for row in report] == ["Ok."]
            assert report.models[0].answered == 1
    bus.flush()
    assert seen == [
        "turn.started", "route.decided", "llm.call_started", "llm.call_failed", "llm.call_started",
        "llm.call_completed", "turn.completed",
    ]  # fmt: skip


def test_each_row_is_a_session_of_the_store(settings: dict[str, Any], tmp_path: Path) -> None:
    """A row that failed is not saved."""
    store = store_in(tmp_path)
    with Client(**settings, store=store) as client:
        client.bulk([HARMLESS, QUOTE], MODEL, system="be brief").close()
        with client.batches(MODEL) as batches:
            handle = batches.submit({"one": HARMLESS})
            (first,) = batches.fetch(handle)
            batches.fetch(handle)
    saved = [[message.text for message in store.load(each.id).messages] for each in store.list().sessions]
    assert sorted(saved) == [["be brief", HARMLESS, f"re: {HARMLESS}"], [HARMLESS, f"re: {HARMLESS}"]]
    assert isinstance(first, Message)
    assert first.session_id == handle.entries[0].session_id


ROUTER = Router(rules=label_rules({"secret": ["local:smollm2-135m"], "internal": [MODEL, "local:smollm2-135m"]}))
FORBIDDEN = f"content with the labels internal, secret may not go to {MODEL} (label_forbidden)"


def test_labels_of_rows_rule_the_choice_of_model(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """A row whose labels keep it from the model is denied; labels without a rule rule nothing."""
    rows = labelled("", "internal", "internal, secret", "other")
    with Client(**settings, router=ROUTER) as client:
        answers = texts(client.bulk(rows, MODEL, labels="secrecy"))
        assert [answer.startswith("re: ") for answer in answers] == [True, True, False, True]
        assert answers[2].endswith(FORBIDDEN)
        answers = texts(client.bulk(rows, MODEL, labels=lambda row: row["secrecy"].replace("secret", "x").split(", ")))
        assert [answer.startswith("re: ") for answer in answers] == [True, True, True, True]
        requests = [BatchRequest(custom_id="a", messages="Hi", labels=frozenset({"internal", "secret"}))]
        with client.batches(MODEL) as batches:
            (denied,) = batches.fetch(batches.submit(requests))
    assert isinstance(denied, BatchError)
    assert (denied.error_class, denied.retryable) == ("PolicyDeniedError", False)
    assert denied.error_message.endswith(FORBIDDEN)
    assert len(provider.prompts) == 7


def test_labels_reach_the_plugins(settings: dict[str, Any]) -> None:
    """Labels reach the plugins, as the security labels of the extensions, for prompts and for answers, in rows and in
    batches.
    """
    recording = RecordingPlugin(capabilities=("read_labels",))
    policy = Pipeline([recording, LabelledModels({"secret": ["local:**"]})])
    with Client(**settings, policy=policy) as client:
        answers = texts(client.bulk(labelled("internal", "secret"), MODEL, labels="secrecy"))
        assert answers[0] == "re: row 0"
        assert "model_not_allowed" in answers[1]
        with client.batches(MODEL) as batches:
            handle = batches.submit([BatchRequest(custom_id="a", messages="Hi", labels=frozenset({"internal"}))])
            handle = BatchHandle.model_validate_json(handle.model_dump_json())
            batches.fetch(handle)
    steps = [step for step in recording.steps if step.hook != "request"]
    labels = [step.extensions.security.labels if step.extensions.security else None for step in steps]
    allowed = [found for step, found in zip(steps, labels, strict=True) if "row 1" not in step.message.text]
    assert allowed
    assert set(allowed) == {frozenset({"internal"})}


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ("absent", "the row has no column 'absent' with its labels"),
        (lambda row: [3], "the labels of the row must be texts"),
    ],
)
def test_a_row_without_readable_labels_is_not_sent(
    provider: GovernedProvider, settings: dict[str, Any], labels: Any, problem: str
) -> None:
    """It is an error in its row: without labels it could go anywhere."""
    with Client(**settings, router=ROUTER) as client:
        (answer,) = texts(client.bulk([HARMLESS], MODEL, labels=labels))
    assert problem in answer
    assert provider.prompts == []


def test_labels_that_nothing_reads_are_refused(settings: dict[str, Any]) -> None:
    """A client without a policy and a router would forget them."""
    with Client(**settings) as client:
        with pytest.raises(ConfigurationError, match="labels are for a policy or a router"):
            client.bulk([HARMLESS], MODEL, labels="secrecy")
        with client.batches(MODEL) as batches, pytest.raises(ConfigurationError, match="labels are for a policy"):
            batches.submit([BatchRequest(custom_id="a", messages="Hi", labels=frozenset({"secret"}))])


def test_the_budgets_of_a_client_stop_a_run(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """The run is one session of the budget, beside the budget of the run itself; each row is a turn."""
    options = AdapterOptions(max_output_tokens=100)
    with Client(**settings, budgets=[Budget(tokens=2_500)], options=options) as client:
        with client.bulk(["a", "b", "c", "d"], MODEL, budget="5", concurrency=1) as report:
            assert report.stopped is not None
            assert "2,500 tokens" in report.stopped
        assert len(provider.prompts) == 3
        tight = client.with_(budgets=[Budget(tokens=10, per="turn")])
        for batch in (False, True):
            (answer,) = texts(tight.bulk(["a"], MODEL, batch=batch))
            assert "budget per turn" in answer
    assert len(provider.prompts) == 3


def test_a_budget_of_a_client_counts_runs_batches_and_sessions(
    provider: GovernedProvider, settings: dict[str, Any]
) -> None:
    """What one of them spends, the others cannot."""
    budget = Budget(tokens=3_400)
    client = Client(**settings, budgets=[budget], options=AdapterOptions(max_output_tokens=100))
    client.ask(MODEL, HARMLESS)
    client.bulk([HARMLESS], MODEL).close()
    with client.batches(MODEL) as batches:
        batches.fetch(batches.submit({"one": HARMLESS}))
        assert budget.spend_of(None).tokens == 3_300
        with pytest.raises(BudgetExceededError):
            batches.submit({"one": HARMLESS})
    assert len(provider.prompts) == 3


def test_a_client_cannot_spend_its_budget_question_by_question(
    provider: GovernedProvider, settings: dict[str, Any]
) -> None:
    """Each question is a session of its own, and all of them share the budget of their client."""
    client = Client(**settings, budgets=[Budget(tokens=2_000)], options=AdapterOptions(max_output_tokens=100))
    client.ask(MODEL, HARMLESS)
    client.ask(MODEL, HARMLESS)
    for _ in range(38):
        with pytest.raises(BudgetExceededError, match="per client"):
            client.ask(MODEL, HARMLESS)
    assert len(provider.prompts) == 2


@pytest.mark.parametrize("per", ["user", "team"])
def test_a_budget_of_nobody_is_refused_at_the_start(
    provider: GovernedProvider, settings: dict[str, Any], per: Any
) -> None:
    """Nothing is sent, and nobody is charged."""
    budget = Budget(tokens=3_400, per=per)
    client = Client(**settings, budgets=[budget])
    for start in (
        lambda: client.ask(MODEL, HARMLESS),
        lambda: client.session(MODEL),
        lambda: client.batches(MODEL),
        lambda: client.bulk([HARMLESS], MODEL),
        lambda: client.embed("openai:text-embedding-3-small", [HARMLESS]),
    ):
        with pytest.raises(ConfigurationError, match=f"give {per}_id"):
            start()
    assert provider.prompts == []
    assert budget.spend_of(None).tokens == 0


def test_the_limits_of_a_client_hold_in_a_run_and_cannot_be_replaced(settings: dict[str, Any]) -> None:
    """A setting that contradicts the client is refused."""
    limits = Limits([Limit(requests=1, seconds=86_400)], max_wait=0)
    client = Client(**settings, limits=limits, policy=DENY["policy"])
    with pytest.raises(ConfigurationError, match="client has limits of its own"):
        client.bulk([HARMLESS], MODEL, limits=Limits([Limit(requests=9)]))
    assert client.ask(MODEL, HARMLESS).text
    with client.batches(MODEL) as batches, pytest.raises(DragomanError, match="limit"):
        batches.submit({"one": HARMLESS})


def test_a_batch_that_the_limits_hold_back_is_not_lost(
    provider: GovernedProvider, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Nothing was sent, so a later call submits its rows and counts none of them twice."""
    client = Client(**settings, limits=Limits([Limit(requests=1, seconds=86_400)], max_wait=0))
    client.ask(MODEL, HARMLESS)
    with pytest.raises(LimitReachedError):
        client.bulk([HARMLESS], MODEL, batch=True, manifest=tmp_path / "m")
    with Client(**settings).bulk([HARMLESS], MODEL, batch=True, manifest=tmp_path / "m") as report:
        assert (report.lost.killed, report.finished) == (0, True)


@pytest.mark.parametrize("name", ["policy", "events", "store", "router", "budgets"])
def test_what_belongs_to_a_client_is_refused_with_a_hint(name: str) -> None:
    """A run without a client does not forget it."""
    with pytest.raises(ConfigurationError, match=f"{name} belongs to a client"):
        bulk([HARMLESS], MODEL, **{name: None})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="did you mean 'template'"):
        bulk([HARMLESS], MODEL, templat="x")  # type: ignore[call-arg]


def test_the_default_client_governs_bare_runs_and_batches(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """A client that is named goes before it, and a closed one is refused."""
    set_default_client(Client(**settings, **DENY))
    assert "denying" in texts(bulk([NAMED], MODEL))[0]
    with Batches(MODEL) as batches:
        (denied,) = batches.fetch(batches.submit({"one": NAMED}))
    assert isinstance(denied, BatchError)
    assert isinstance(denied.error, PolicyDeniedError)
    assert denied.error.code == "word"
    assert texts(bulk([NAMED], MODEL, client=Client(**settings))) == [f"re: {NAMED}"]
    closed = Client(**settings)
    closed.close()
    for refused in (lambda: bulk([NAMED], MODEL, client=closed), lambda: closed.batches(MODEL)):
        with pytest.raises(ConfigurationError, match="the client is closed"):
            refused()
    with Client(**settings) as client:
        batches = client.batches(MODEL)
    with pytest.raises(ConfigurationError, match="the client is closed"):
        batches.submit({"one": HARMLESS})
    assert len(provider.prompts) == 1


def test_a_run_that_nothing_judges_needs_no_sessions(
    provider: GovernedProvider, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits, budgets and prices hold without: such a run is as fast as before."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a session")

    monkeypatch.setattr(AsyncSession, "__init__", refuse)
    limits = Limits([Limit(requests=1_000)])
    client = Client(**settings, limits=limits, budgets=[Budget(usd=1)], prices=price_table())
    assert texts(client.bulk([HARMLESS], MODEL)) == [f"re: {HARMLESS}"]


def test_closing_the_client_ends_its_run(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """Nothing more is sent, and the answers so far are kept."""
    client = Client(**settings)
    with pytest.raises(ConfigurationError, match="the client is closed"):
        client.bulk([HARMLESS] * 5, MODEL, concurrency=1, progress=lambda progress: client.close())
    assert 0 < len(provider.prompts) < 5


def test_a_batch_of_denied_requests_is_not_submitted(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """Its handle says so in every later process, and its results are the reasons."""
    client = Client(**settings, **DENY)
    with client.batches(MODEL) as batches:
        handle = BatchHandle.model_validate_json(batches.submit({"one": NAMED, "two": NAMED}).model_dump_json())
        assert handle.batch_id == ""
        assert batches.wait(handle).status.ended
        assert batches.cancel(handle).status.ended
        assert [each.error_class for each in batches.fetch(handle) if isinstance(each, BatchError)] == [
            "PolicyDeniedError"
        ] * 2

    async def main() -> None:
        async with AsyncBatches(MODEL, client=client) as batches:
            assert (await batches.cancel(handle)).status.ended
            assert len(await batches.fetch(handle)) == 2

    asyncio.run(main())
    assert provider.prompts == []


def test_a_handle_of_an_earlier_version_is_fetched(settings: dict[str, Any]) -> None:
    """The fields for labels and denials are additions."""
    with Client(**settings, **DENY).batches(MODEL) as batches:
        written = json.loads(batches.submit({"one": LEAK}).model_dump_json())
        for name in ("labels", "denial", "turn_id"):
            del written["entries"][0][name]
        (denied,) = batches.fetch(BatchHandle.model_validate(written))
    assert isinstance(denied, BatchError)
    assert denied.usage is not None
    assert denied.usage.cost_usd == Decimal("0.00075")


def test_the_events_of_a_batch_tell_its_turns(settings: dict[str, Any]) -> None:
    """Each request is a turn: it starts with the submission and ends with the fetch."""
    bus, seen = EventBus(), []
    bus.subscribe(lambda event: seen.append((event.turn_id, event.type)))
    with Client(**settings, **DENY, events=bus).batches(MODEL) as batches:
        handle = batches.submit({str(number): prompt for number, prompt in enumerate(PROMPTS)})
        batches.fetch(handle)
    bus.flush()
    by_turn = [[kind for turn, kind in seen if turn == entry.turn_id] for entry in handle.entries]
    begun = ["turn.started", "llm.call_started"]
    assert by_turn == [
        [*begun, "llm.call_completed", "turn.completed"],
        [*begun, "policy.denied", "turn.completed"],
        [*begun, "policy.denied", "turn.completed"],
        ["turn.started", "policy.denied", "turn.completed"],
    ]
