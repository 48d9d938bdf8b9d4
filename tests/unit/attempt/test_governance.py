"""What a client governs in requests that no session sends."""

from collections.abc import Generator
from typing import Any

import httpx
import pytest

from dragoman import Client
from dragoman.adapter.context import bundled_prices
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.attempt.governance import FREE, Governance, read_call_settings
from dragoman.canonical.message import Message, MessageStatus, Role
from dragoman.canonical.usage import TokenUsage
from dragoman.configuration.config import ClientConfig
from dragoman.effects import Replied, drive
from dragoman.limits import Budget, Limit, Limits, MaxUsage
from dragoman.limits.reservation import NOTHING_RESERVED, MeasureUsage, Reservation
from dragoman.policy import Pipeline, Step, hook
from dragoman.pricing import PriceTable, price_table
from dragoman.store import Store, StoredSession
from dragoman.store.errors import SessionNotFoundError, StoreError
from dragoman.transport import RetryPolicy
from dragoman.transport.retry import RetryQuota, RetryState, Timing

MODEL = "anthropic:claude-haiku-4-5"


class FakeTransports:
    """Transports that answer every request with its path, and note what they send."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, int]] = []

    def get(self, adapter: Any) -> Any:
        return self

    def new_retries(self, adapter: Any) -> RetryState:
        return RetryState(RetryPolicy(max_retries=4), RetryQuota(), Timing())

    def send(self, adapter: Any, request: WireRequest, *, retries: RetryState) -> WireResponse:
        self.sent.append((request.path, retries.policy.max_retries))
        return WireResponse(status=200, headers={}, body=request.path.encode())


def governance(
    transports: FakeTransports | None = None,
    *,
    identity: Any = (None, None),
    own_prices: PriceTable | None = None,
    **client: Any,
) -> Governance:
    given: Any = transports or FakeTransports()
    return Governance(ClientConfig(**client), get_adapter(MODEL), given, identity=identity, prices=own_prices)


def test_a_message_names_who_pays() -> None:
    message = Message.user("Hi")
    assert governance().identify(message) is message
    metadata = governance(identity=("ann", "blue")).identify(message).metadata
    assert (metadata.user_id, metadata.team_id) == ("ann", "blue")


def two_requests() -> Generator[WireRequest, WireResponse, list[bytes]]:
    bodies: list[bytes] = []
    for path in ("/first", "/second"):
        response = yield WireRequest("GET", path, b"", {})
        bodies.append(response.body)
    return bodies


@pytest.mark.parametrize(("once", "retries"), [(False, 4), (True, 0)])
def test_each_request_of_an_operation_gets_its_own_response(once: bool, retries: int) -> None:
    transports = FakeTransports()
    assert drive(governance(transports).run(two_requests(), once=once)) == [b"/first", b"/second"]
    assert transports.sent == [("/first", retries), ("/second", retries)]


class FakeStore(Store):
    """A store that cannot load anything, and notes what it was asked for."""

    def __init__(self, error: Exception) -> None:
        super().__init__("sqlite://")
        self.error = error
        self.asked: list[str] = []

    def load(self, session_id: str) -> StoredSession:
        self.asked.append(session_id)
        raise self.error


class TestStore:
    @pytest.mark.parametrize("error", [SessionNotFoundError("none"), LookupError("none")])
    def test_a_store_that_answers_is_there(self, error: Exception) -> None:
        with FakeStore(error) as store:
            drive(governance(store=store).check_store())
            assert store.asked == ["none"]

    def test_one_that_is_gone_says_so(self) -> None:
        with FakeStore(StoreError("gone")) as store, pytest.raises(StoreError, match="gone"):
            drive(governance(store=store).check_store())

    def test_one_that_never_waits_is_not_asked(self) -> None:
        with FakeStore(StoreError("gone")) as store:
            store.never_waits = True  # type: ignore[attr-defined]
            drive(governance(store=store).check_store())
            drive(governance().check_store())
            assert store.asked == []


@hook("cmf.llm_input", name="slow")
async def wait(step: Step) -> None:
    return None


def test_coroutines_need_a_loop() -> None:
    with pytest.raises(ConfigurationError, match="slow: coroutines need an AsyncBatches"):
        governance(policy=Pipeline([wait])).check_coroutines("an AsyncBatches")
    governance(policy=Pipeline()).check_coroutines("an AsyncBatches")
    governance().check_coroutines("an AsyncBatches")


class FakeBudgets:
    def __init__(self) -> None:
        self.measured: list[MaxUsage] = []

    def reserve(self, measure: MeasureUsage) -> Reservation:
        self.measured.append(measure())
        return NOTHING_RESERVED


def test_an_attempt_is_under_the_budgets_and_the_limits() -> None:
    budgets: Any = FakeBudgets()
    reply = Replied(Message.assistant("Hi"))
    limits = Limits(Limit(requests=1), max_wait=0)
    governed = governance(limits=limits)
    observers: list[int] = []

    def exchange(observed: Any, stages: Any) -> Generator[Any, Any, Any]:
        yield from ()
        observers.append(len(observed))
        return reply

    assert drive(governed.attempt(exchange, budgets=budgets)) is reply
    assert budgets.measured == [MaxUsage(MODEL, TokenUsage())]
    assert observers == [1]
    use = MaxUsage(MODEL, TokenUsage(input_tokens=5))
    drive(governance().attempt(exchange, lambda: use, budgets))
    assert budgets.measured[1] is use


def test_the_receipt_of_what_no_model_answers_is_free() -> None:
    assert (FREE.role, FREE.metadata.status, FREE.content) == (Role.ASSISTANT, MessageStatus.COMPLETE, ())
    assert FREE.usage is not None
    assert FREE.usage.cost_usd == 0


def test_an_operation_has_the_retries_of_its_provider_by_default() -> None:
    transports = FakeTransports()
    drive(governance(transports).run(two_requests()))
    assert transports.sent[0] == ("/first", 4)


def test_the_budgets_of_a_turn_are_those_of_who_pays() -> None:
    budget = Budget(usd=1, per="user")
    governed = governance(budgets=[budget], identity=("ann", None))
    budgets = governed.new_budgets()
    assert budgets.accounts == [budget.account_for("ann")]
    assert (budgets.prices, budgets.clock) == (governed.prices, governed.now)
    assert governed.now().tzinfo is not None


def test_the_nearest_prices_count() -> None:
    """Those of the call, then those of the client, then the bundled ones."""
    of_call, of_client = price_table().with_overlay({}), price_table().with_overlay({})
    assert governance(own_prices=of_call, prices=of_client).prices is of_call
    assert governance(prices=of_client).prices is of_client
    assert governance().prices is bundled_prices()


def test_settings_of_a_call_are_those_of_its_provider() -> None:
    """A client of HTTP is one of them; keys in ``providers`` stay beside them, and what the call says counts."""
    own_client = httpx.Client()
    providers: Any = {"anthropic": {"api_key": "first", "base_url": "http://127.0.0.1:1"}, "cohere": {"api_key": "c"}}
    config, found = read_call_settings("anthropic", own_client, providers, {"api_key": "second"})
    assert config == ClientConfig()
    assert found["anthropic"]["client"] is own_client
    assert found["anthropic"]["base_url"] == "http://127.0.0.1:1"
    assert found["anthropic"]["api_key"].reveal() == "second"
    assert found["cohere"] == {"api_key": "c"}
    with Client() as client:
        config, found = read_call_settings("anthropic", client, None, {})
        assert (config, found) == (client.config, {})
    assert read_call_settings("anthropic", None, None, {}) == (ClientConfig(), {})


@pytest.mark.parametrize(("name", "words"), [("base_ulr", "unknown argument"), ("options", "setting in providers")])
def test_an_unknown_argument_of_a_call_is_refused(name: str, words: str) -> None:
    """Options are told apart: they belong elsewhere."""
    with pytest.raises(ConfigurationError, match=words):
        read_call_settings("anthropic", None, None, {name: "x"})


def test_a_request_has_the_retries_of_its_provider_unless_it_is_sent_once() -> None:
    assert governance().new_retries().policy.max_retries == 4
    assert governance().new_retries(once=True).policy.max_retries == 0
