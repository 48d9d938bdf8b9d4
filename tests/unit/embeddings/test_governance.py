"""What a client governs when it embeds: policy, limits, budgets, events and store."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from dragoman import AdapterOptions, AsyncClient, Budget, Client, EventBus, Limit, Limits, Pipeline, Store
from dragoman.embeddings import Embeddings
from dragoman.errors import BudgetExceededError, ConfigurationError, LimitReachedError, PolicyDeniedError, StoreError
from dragoman.events import Event
from dragoman.policy import Extensions, HttpExtension, Step, Violation, hook
from dragoman.routing import Router, label_rules
from tests.unit.embeddings.handwritten_provider import TOKENS, Provider, running_provider
from tests.unit.session.middleware.policy_plugins import SECRET, DenyingPlugin, RedactingPlugin

MODEL = "openai:text-embedding-3-small"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider(dimensions=1536) as found:
        yield found


@pytest.fixture(params=[Client, AsyncClient], ids=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def embed(kind: Any, provider: Provider, inputs: Any, who: Any = None, **settings: Any) -> Embeddings:
    """Embed by a client with these settings, for ``who``."""
    who = who or {}
    client = kind(providers={"openai": {"base_url": provider.url, "api_key": "k"}}, **settings)
    if isinstance(client, Client):
        with client:
            return client.embed(MODEL, inputs, **who)

    async def run() -> Embeddings:
        async with client:
            found: Embeddings = await client.embed(MODEL, inputs, **who)
            return found

    return asyncio.run(run())


def test_a_policy_judges_every_input(provider: Provider, kind: Any) -> None:
    """What a plugin denies is not sent; what it redacts is sent without the forbidden word."""
    with pytest.raises(PolicyDeniedError):
        embed(kind, provider, ["fine", f"It is {SECRET}."], policy=Pipeline([DenyingPlugin(SECRET)]))
    assert provider.requests == []
    embed(kind, provider, ["fine", f"It is {SECRET}."], policy=Pipeline([RedactingPlugin(SECRET)]))
    assert provider.bodies[0]["input"] == ["fine", "It is ***."]


def test_vectors_have_the_labels_of_their_inputs(provider: Provider, kind: Any) -> None:
    """Those of the call, and those that plugins find in an input."""
    policy = Pipeline([RedactingPlugin(SECRET, label="found")])
    found = embed(kind, provider, ["fine", f"It is {SECRET}."], policy=policy, who={"labels": ["given"]})
    assert found.labels == {"given", "found"}
    assert embed(kind, provider, ["fine"]).labels == frozenset()


def test_labels_keep_inputs_from_a_model(provider: Provider) -> None:
    """By the rules of the router; without anything that reads them, labels are a mistake."""
    router = Router(rules=label_rules({"secret": ["local:*"]}))
    client = Client(providers={"openai": {"base_url": provider.url, "api_key": "k"}}, router=router)
    with pytest.raises(PolicyDeniedError, match="secret"):
        client.embed(MODEL, "hello", labels=["secret"])
    assert provider.requests == []
    assert len(client.embed(MODEL, "hello", labels=["public"])) == 1
    with pytest.raises(ConfigurationError, match="labels are for a policy"):
        Client().embed(MODEL, "hello", labels=["secret"])


def test_a_budget_is_charged_what_was_used(provider: Provider, kind: Any) -> None:
    """The reservation becomes the cost; a budget that is too small sends nothing."""
    budget = Budget(usd="0.01", per="client")
    found = embed(kind, provider, ["hello", "world"], budgets=[budget])
    assert found.usage.cost_usd == Decimal("0.02") * 2 * TOKENS / 1_000_000
    assert (budget.spend_of(None).usd, budget.spend_of(None).tokens) == (found.usage.cost_usd, 2 * TOKENS)
    with pytest.raises(BudgetExceededError):
        embed(kind, provider, ["hello"], budgets=[Budget(tokens=1)])
    assert len(provider.requests) == 1


@pytest.mark.parametrize("per", ["user", "team"])
def test_a_budget_for_each_user_or_team_holds(provider: Provider, kind: Any, per: Any) -> None:
    """Nobody pays for another one, and the receipts say whose they are."""
    budget, name = Budget(tokens=TOKENS + 50, per=per), f"{per}_id"
    found = embed(kind, provider, ["hello"], {name: "one"}, budgets=[budget])
    assert (budget.spend_of("one").tokens, budget.spend_of("other").tokens) == (TOKENS, 0)
    assert [getattr(each.metadata, name) for each in found.receipts] == ["one"]
    budget.add_spend("one", tokens=50)
    with pytest.raises(BudgetExceededError):
        embed(kind, provider, ["hello"], {name: "one"}, budgets=[budget])
    embed(kind, provider, ["hello"], {name: "other"}, budgets=[budget])
    assert len(provider.requests) == 2


def test_limits_hold(provider: Provider, kind: Any) -> None:
    """A request that would wait for longer than allowed is not sent."""
    limits = Limits(Limit(requests=1, seconds=3600, burst=1), max_wait=0)
    embed(kind, provider, ["hello"], limits=limits)
    with pytest.raises(LimitReachedError):
        embed(kind, provider, ["hello"], limits=limits)
    assert len(provider.requests) == 1


def test_requests_fit_into_a_limit_of_tokens(provider: Provider, kind: Any) -> None:
    """One request with all texts would never fit."""
    limits = Limits(Limit(tokens=1_000, seconds=1e-3, burst=1))
    found = embed(kind, provider, ["some words " * 50] * 10, limits=limits)
    assert len(found) == 10
    assert len(provider.requests) >= 2


def test_a_store_that_fails_loses_no_vector(provider: Provider, kind: Any, tmp_path: Any) -> None:
    """The error has the vectors, which were paid."""
    store = Store(f"sqlite:///{tmp_path}/s.db")
    store.close()

    def create(*_: Any, **__: Any) -> None:
        raise StoreError("the disk is full")

    store.create = create  # type: ignore[method-assign]  # a store that fails
    with pytest.raises(StoreError) as raised:
        embed(kind, provider, ["hello"], store=store)
    assert raised.value.embedded.missing == ()
    assert raised.value.embedded.usage.input_tokens == TOKENS


def test_headers_of_the_client_are_sent(provider: Provider, kind: Any) -> None:
    options = AdapterOptions(headers={"openai": {"x-team": "one"}, "cohere": {"x-other": "two"}})
    embed(kind, provider, "hello", options=options)
    assert provider.requests[0].headers["x-team"] == "one"
    assert "x-other" not in provider.requests[0].headers


def test_events_tell_of_each_request(provider: Provider, kind: Any) -> None:
    """A start and an end with the tokens, without the texts."""
    seen: list[Event] = []
    with EventBus() as bus:
        bus.subscribe(seen.append)
        embed(kind, provider, ["hello"], events=bus)
        bus.flush()
    assert [each.type for each in seen] == [
        "turn.started",
        "llm.call_started",
        "llm.call_completed",
        "turn.completed",
    ]
    assert len({(each.session_id, each.turn_id) for each in seen}) == 1
    assert (seen[2].payload.input_tokens, seen[3].payload.total_input_tokens) == (TOKENS, TOKENS)
    assert (seen[3].payload.llm_call_count, seen[3].payload.stop_reason) == (1, None)
    assert "hello" not in repr(seen)


def test_what_a_policy_does_with_vectors_is_an_event(provider: Provider, kind: Any) -> None:
    """A denial ends the turn, and headers that a plugin wrote are named, as in a session."""

    @hook("llm_input", name="writer", capabilities=["write_headers"])
    def writer(step: Step) -> Extensions:
        return step.extensions.model_copy(update={"http": HttpExtension(headers={"x-ward": "7"})})

    @hook("llm_input", name="denier")
    def denier(step: Step) -> Violation | None:
        return Violation("no", code="no") if "secret" in step.message.text else None

    for text, types in (
        ("hello", ["policy.headers_written", "llm.call_started", "llm.call_completed"]),
        ("secret", ["policy.denied"]),
    ):
        seen: list[Event] = []
        with EventBus() as bus:
            bus.subscribe(seen.append)
            with suppress(PolicyDeniedError):
                embed(kind, provider, [text], events=bus, policy=[writer, denier])
            bus.flush()
        assert [each.type for each in seen] == ["turn.started", *types, "turn.completed"]
        assert text not in repr(seen)
    assert seen[-1].payload.stop_reason == "error"


def test_the_store_has_the_usage(provider: Provider, kind: Any, tmp_path: Any) -> None:
    """One session for a call, whose spend counts; neither texts nor vectors are in it."""
    with Store(f"sqlite:///{tmp_path}/s.db") as store:
        found = embed(kind, provider, ["hello"], store=store)
        (receipt,) = store.billed_replies()
        assert (receipt.usage.cost_usd, receipt.metadata.model) == (found.usage.cost_usd, MODEL)
        assert store.load(receipt.session_id).messages == ()


def test_a_closed_client_sends_nothing(provider: Provider) -> None:
    client = Client(providers={"openai": {"base_url": provider.url, "api_key": "k"}})
    client.close()
    with pytest.raises(ConfigurationError, match="closed"):
        client.embed(MODEL, "hello")
