"""What a request may spend: reserved before it, grown while it streams, settled by what it used."""

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from dragoman import Message, Role
from dragoman.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.errors import (
    LimitReachedError,
    LimitsUnavailableError,
    OverloadedError,
    RequestCancelledError,
    UnpricedModelError,
)
from dragoman.events import TextDelta
from dragoman.limits import Limits, MaxUsage, Reservation
from dragoman.messages import CostStatus, MessageMetadata, MessageStatus, TokenUsage, Usage
from dragoman.session.effects import Abandoned, Broken, Failed, Perform, Replied, SendOutcome
from dragoman_gateway.access import Caller
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.errors import UncountedError
from dragoman_gateway.keys.access import KeyAccess
from dragoman_gateway.keys.admission import Admission, KeyReservation, UnknownPrice
from dragoman_gateway.keys.amounts import NoRoomError, SpentBudgetError, parse_budget, parse_limit
from dragoman_gateway.keys.key_store import KeyCache, KeyStore
from dragoman_gateway.keys.ledger import Ledger
from dragoman_gateway.keys.ledger_entries import Amount
from dragoman_gateway.keys.rates import Rates
from dragoman_gateway.keys.records import Allowance
from tests.gateway.keyed import total_spend

USE = MaxUsage("a:model", TokenUsage(input_tokens=10), 100)


class Dollars:
    """Each token costs a cent; the model ``a:free`` has no price."""

    known = True

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        known = self.known and model_id != "a:free"
        return Usage(
            **usage.model_dump(include=set(TokenUsage.model_fields), exclude_none=True),
            cost_usd=usage.total_tokens * Decimal("0.01") if known else None,
            cost_status=CostStatus.PRICED if known else CostStatus.UNPRICED,
        )


class Setup:
    """An admission, and one key with an allowance."""

    def __init__(self, database: Database, allowance: Allowance, **settings: Any) -> None:
        self.store = KeyStore(database)
        key, self.secret = self.store.create(user="ann", team="research", allowance=allowance)
        cache = KeyCache(database)
        self.ledger = Ledger(database)
        self.rates = Rates(Limits((), max_wait=0))
        self.admission = Admission(cache, self.ledger, self.rates, **settings)
        self.access = KeyAccess(cache, self.admission)
        self.scope = f"key:{key.id}"

    async def admit(self, use: MaxUsage = USE) -> KeyReservation:
        """Reserve for one request, as an attempt does."""
        reserved: Any = self.admission.governor(await self.caller(), Dollars()).reserve(lambda: use)
        found: KeyReservation = await reserved.work_async() if isinstance(reserved, Perform) else reserved
        return found

    async def caller(self) -> Caller:
        return await self.access.authenticate({"x-api-key": self.secret})

    async def spent(self) -> Amount:
        await self.ledger.flush()
        return await total_spend(self.ledger, self.scope)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def settle(reservation: Reservation, outcome: SendOutcome | Usage | None) -> None:
    """Settle by an outcome, or by the usage of a whole reply."""
    if outcome is None or isinstance(outcome, Usage):
        outcome = Replied(Message(role=Role.ASSISTANT, content=(), metadata=MessageMetadata(usage=outcome)))
    if (effect := reservation.settle(outcome)) is not None:
        await effect.work_async()


def usage(tokens: int) -> Usage:
    return Dollars().price("a:model", TokenUsage(output_tokens=tokens), datetime(2026, 11, 22, tzinfo=UTC))


def test_a_reply_costs_what_it_used_for_key_user_and_team(database: Database) -> None:
    """The usage of a reply is booked once for the key, once for its user and once for its team."""

    async def scenario() -> None:
        setup = Setup(database, Allowance((parse_budget("1.10"),)))
        ticket = await setup.admit()
        with pytest.raises(NoRoomError):
            await setup.admit()
        await settle(ticket, usage(7))
        await settle(ticket, usage(7))
        assert await setup.spent() == Amount(Decimal("0.07"), 7)
        assert (
            await total_spend(setup.ledger, "user:ann")
            == await total_spend(setup.ledger, "team:research")
            == await setup.spent()
        )
        await setup.ledger.close()

    run(scenario())


@pytest.mark.parametrize("charges", [True, False])
def test_a_failed_stream_costs_its_lower_bound(database: Database, charges: bool) -> None:
    """A stream that broke costs what the provider reported, its estimated input if it began without a report, and
    nothing if it never began. A setting charges nothing for what the provider broke; what the client left is charged.
    """
    reported = Message.assistant("Hi", metadata=MessageMetadata(status=MessageStatus.ERROR, usage=usage(20)))
    silent = Message.assistant("Hi", metadata=MessageMetadata(status=MessageStatus.ERROR))
    boom = RuntimeError("cut")
    outcomes: list[tuple[SendOutcome, int]] = [
        (Broken(boom, reported, seen=True), 20),
        (Broken(boom, silent, seen=True), 10),
        (Broken(boom, None, seen=False), 0),
        (Abandoned(partial=silent), 10),
        (Abandoned(billed=reported), 20),
        (Failed(boom), 0),
    ]

    async def scenario() -> None:
        setup = Setup(database, Allowance((parse_budget("100"),)), charges_failures=charges)
        total = 0
        for outcome, tokens in outcomes:
            ticket = await setup.admit()
            await settle(ticket, outcome)
            total += tokens if charges or isinstance(outcome, Abandoned) else 0
            assert (await setup.spent()).tokens == total, outcome
        await setup.ledger.close()

    run(scenario())


@pytest.mark.parametrize("leaves", [True, False], ids=["the client leaves", "the answer of the database is lost"])
def test_a_reservation_that_nobody_waits_for_any_more_ends(
    database: Database, monkeypatch: pytest.MonkeyPatch, *, leaves: bool
) -> None:
    """It may be stored although its request was never sent."""
    write = database.write

    async def scenario() -> None:
        setup, stored, gone = Setup(database, Allowance((parse_budget("1.10"),))), asyncio.Event(), asyncio.Event()

        async def store_in_silence(work: Any, *lane: Any) -> Any:
            monkeypatch.setattr(database, "write", write)
            await write(work, *lane)
            stored.set()
            if not leaves:
                raise DatabaseUnavailableError("gone")
            await gone.wait()

        monkeypatch.setattr(database, "write", store_in_silence)
        left = asyncio.create_task(setup.admit())
        await stored.wait()
        if leaves:
            left.cancel()
        with pytest.raises(asyncio.CancelledError if leaves else UncountedError):
            await left
        gone.set()
        await settle(await setup.admit(), usage(7))
        await setup.ledger.close()

    run(scenario())


START = usage(1).model_copy(update={"input_tokens": 10, "cost_usd": Decimal("0.11")}).as_lower_bound()
"""What the start of a stream reports, in a reply that was interrupted."""


@pytest.mark.parametrize("charges", [True, False])
@pytest.mark.parametrize("start", [START, None], ids=["reported", "unreported"])
def test_a_budget_that_ends_in_the_middle_of_a_stream_ends_the_stream(
    database: Database, start: Usage | None, *, charges: bool
) -> None:
    """With a cap on what is reserved at first, a long stream reserves more while it runs, until the budget ends. What
    was delivered is charged, also if streams that fail are not: this one did not.
    """

    async def scenario() -> tuple[int, int]:
        setup = Setup(database, Allowance((parse_budget("0.50"),)), output_cap=10, charges_failures=charges)
        ticket = await setup.admit()
        assert ticket.stage is not None
        stage, delivered = ticket.stage, 0

        async def stream() -> None:
            nonlocal delivered
            for _ in range(100):
                watched = stage(TextDelta("m", 0, "four"))
                delivered += len(await watched.work_async() if isinstance(watched, Perform) else watched)

        with pytest.raises(SpentBudgetError) as raised:
            await stream()
        reported = None if start is None else Message.assistant("four", metadata=MessageMetadata(usage=start))
        await settle(ticket, Broken(raised.value, reported, seen=True))
        spent = await setup.spent()
        await setup.ledger.close()
        return delivered, spent.tokens

    delivered, spent = run(scenario())
    assert delivered == 40
    assert spent == 10 + 40 + 1  # the estimated or reported input, and each delta, also the one that was held back


@pytest.mark.parametrize("end", [Broken, Abandoned])
def test_output_that_was_counted_is_charged_however_a_stream_ends(database: Database, end: type[Any]) -> None:
    """The start of a stream reports one token of output, and its end never comes."""

    async def scenario() -> int:
        setup = Setup(database, Allowance((parse_budget("5"),)), output_cap=10)
        ticket = await setup.admit()
        partial = Message.assistant("four" * 9, metadata=MessageMetadata(usage=START))
        await settle(
            ticket, Broken(RuntimeError("cut"), partial, seen=True) if end is Broken else Abandoned(partial=partial)
        )
        spent = await setup.spent()
        await setup.ledger.close()
        return spent.tokens

    assert run(scenario()) == 10 + 9


def test_a_model_without_a_price_is_refused_under_a_budget_in_dollars(database: Database) -> None:
    """An unknown price is never free: it is refused, unless the budget allows it or counts tokens."""
    free = MaxUsage("a:free", TokenUsage(input_tokens=1), 1)

    async def scenario() -> None:
        closed = Setup(database, Allowance((parse_budget("5/day"),)))
        with pytest.raises(UnpricedModelError):
            await closed.admit(free)
        for budget in (parse_budget("5/day", allow_unpriced=True), parse_budget("100 tokens/day")):
            await settle(await Setup(database, Allowance((budget,))).admit(free), None)

    run(scenario())


def test_without_the_database_budgets_close_and_open_ones_pass_counted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While spend cannot be counted, a budget refuses with 503, or passes and is counted if it is declared open."""

    async def fail(*_: Any) -> Any:
        raise DatabaseUnavailableError("gone")

    async def scenario() -> None:
        closed = Setup(database, Allowance((parse_budget("5/day"),)))
        opened = Setup(database, Allowance((parse_budget("5/day open"),)))
        for setup in (closed, opened):
            await setup.caller()
        monkeypatch.setattr(database, "write", fail)
        with pytest.raises(OverloadedError) as raised:
            await closed.admit()
        assert (raised.value.status, raised.value.retry_after) == (503, 5)
        ticket = await opened.admit()
        await settle(ticket, usage(5))
        assert (opened.admission.unbudgeted, opened.ledger.queued) == (1, 1)
        monkeypatch.undo()
        assert (await opened.spent()).tokens == 5
        await opened.ledger.close()

    run(scenario())


def test_a_limit_of_requests_refuses_with_the_time_to_wait(database: Database) -> None:
    """A key above its limit gets the seconds to wait, nothing stays reserved, and waiting that long is enough."""

    async def scenario() -> None:
        allowance = Allowance((parse_budget("10"),), (parse_limit("1/hour"),))
        setup = Setup(database, allowance)
        await settle(await setup.admit(), usage(1))
        with pytest.raises(LimitReachedError) as raised:
            await setup.admit()
        assert raised.value.retry_after is not None
        assert 3_000 < raised.value.retry_after <= 3_600  # less by what the test itself has taken
        assert (await setup.spent()).tokens == 1
        await setup.ledger.close()

    run(scenario())


def test_a_stream_that_the_provider_broke_counts_no_request(database: Database) -> None:
    """Clients ask again for the whole reply: both are charged, and count as one request under a limit."""

    async def scenario(outcome: SendOutcome) -> bool:
        setup = Setup(database, Allowance((parse_budget("10"),), (parse_limit("1/hour"),)))
        await settle(await setup.admit(), outcome)
        assert (await setup.spent()).tokens == 5
        try:
            await setup.admit()
        except LimitReachedError:
            return False
        finally:
            await setup.ledger.close()
        return True

    partial = Message.assistant("Hi", metadata=MessageMetadata(status=MessageStatus.ERROR, usage=usage(5)))
    assert run(scenario(Broken(RuntimeError("cut"), partial, seen=True)))
    assert not run(scenario(Abandoned(partial=partial)))


def test_parallel_requests_share_a_limit_of_tokens(database: Database) -> None:
    """Tokens are reserved before a request, so parallel requests never use more than the limit."""

    async def scenario() -> int:
        setup = Setup(database, Allowance((), (parse_limit("300 tokens/hour"),)))
        tickets = await asyncio.gather(*(setup.admit() for _ in range(5)), return_exceptions=True)
        return sum(isinstance(each, KeyReservation) for each in tickets)

    assert 1 <= run(scenario()) <= 2


def test_what_came_from_a_cache_counts_as_the_provider_counts(database: Database) -> None:
    """Cached tokens do not use up a limit of uncached tokens, and do use up one of all tokens."""
    cached = Dollars().price("a:model", TokenUsage(cached_input_tokens=8_000), datetime(2026, 11, 22, tzinfo=UTC))
    large = MaxUsage("a:model", TokenUsage(input_tokens=9_000), 1)

    async def scenario(limit: str) -> bool:
        setup = Setup(database, Allowance((), (parse_limit(limit),)))
        await settle(await setup.admit(large), cached)
        try:
            await setup.admit(large)
        except LimitReachedError:
            return False
        return True

    assert run(scenario("100000 uncached tokens/hour"))
    assert not run(scenario("100000 tokens/hour"))


class Frozen:
    """Limits whose server accepts calls, and never answers."""

    def __init__(self) -> None:
        self.asked = 0
        self.limits: tuple[Any, ...] = ()

    def with_limits(self, limits: Any, *, name: str) -> "Frozen":
        self.limits = tuple(limits)
        return self

    async def reserve_async(self, *_: Any) -> Any:
        self.asked += 1
        await asyncio.sleep(3_600)


class Gone(Frozen):
    async def reserve_async(self, *_: Any) -> Any:
        self.asked += 1
        raise LimitsUnavailableError("gone")


@pytest.mark.parametrize("counters", [Frozen, Gone])
def test_without_redis_limits_open_and_closed_ones_refuse(database: Database, counters: type[Frozen]) -> None:
    """While the counters do not answer, limits pass counted, a closed one refuses with 503, and after a failure the
    server is not asked for each request."""

    async def admit_each(server: Frozen, limit: str) -> tuple[Rates, list[Any]]:
        rates = Rates(server, timeout=0.01, pause=600)  # type: ignore[arg-type]  # it stands for a server that fails
        limits: Mapping[str, Any] = {"key:a": (parse_limit(limit),)}
        results = [
            await asyncio.gather(rates.acquire(limits, "a:model", 1, 1), return_exceptions=True) for _ in range(5)
        ]
        return rates, [result for (result,) in results]

    opened = counters()
    rates, grants = run(admit_each(opened, "1/hour"))
    assert (rates.uncounted, opened.asked, rates.outage.may_ask) == (5, 1, False)
    assert all(grant == [] for grant in grants)
    closed = counters()
    _, refusals = run(admit_each(closed, "1/hour closed"))
    assert {(type(each), each.status) for each in refusals} == {(UncountedError, 503)}


def test_a_key_without_budgets_still_shows_what_it_spent(database: Database) -> None:
    """Spend is counted for every key, and a request without a budget reserves nothing."""

    async def scenario() -> Amount:
        setup = Setup(database, Allowance())
        await settle(await setup.admit(), usage(3))
        spent = await setup.spent()
        await setup.ledger.close()
        return spent

    assert run(scenario()) == Amount(Decimal("0.03"), 3)


def test_a_stream_that_is_left_costs_every_byte_that_arrived(database: Database) -> None:
    """Output in other scripts is counted by its bytes, and the arguments of calls count."""
    call = ToolUseBlock(id="tu_1", name="look", raw_input='{"city": "Ber')
    content = (TextBlock(text="four" * 25), ThinkingBlock(text="四" * 20), call)
    partial = Message(role=Role.ASSISTANT, content=content, metadata=MessageMetadata(usage=START))

    async def scenario() -> Amount:
        setup = Setup(database, Allowance((parse_budget("5"),)))
        await settle(await setup.admit(), Abandoned(partial=partial))
        spent = await setup.spent()
        assert setup.admission.estimated == 1
        await setup.ledger.close()
        return spent

    tokens = 10 + (100 + 60 + 13) // 4
    cost = tokens * Decimal("0.01")
    assert run(scenario()) == Amount(cost, tokens, estimated_usd=cost)


def test_the_final_report_of_a_stream_that_is_left_is_what_it_costs(database: Database) -> None:
    """It stands behind the event at which the client left."""
    whole = Message.assistant("four" * 100, metadata=MessageMetadata(usage=usage(20)))

    async def scenario() -> tuple[Amount, int]:
        setup = Setup(database, Allowance((parse_budget("5"),)))
        await settle(await setup.admit(), Abandoned(partial=whole))
        spent = await setup.spent()
        await setup.ledger.close()
        return spent, setup.admission.estimated

    assert run(scenario()) == (Amount(Decimal("0.20"), 20), 0)


def test_a_whole_request_that_is_left_costs_its_estimated_input(database: Database) -> None:
    """And nothing if it was not sent yet."""
    unsent = RequestCancelledError("left")
    unsent.sent = False

    async def scenario(outcome: SendOutcome) -> Amount:
        setup = Setup(database, Allowance((parse_budget("5"),)))
        await settle(await setup.admit(), outcome)
        spent = await setup.spent()
        await setup.ledger.close()
        return spent

    assert run(scenario(Abandoned())) == Amount(Decimal("0.10"), 10, estimated_usd=Decimal("0.10"))
    assert run(scenario(Failed(unsent))) == Amount()


def test_an_unknown_price_is_that_of_the_model_that_was_asked(database: Database) -> None:
    """Or all that was reserved, if that is gone from the table meanwhile. An alert says so, once a day."""
    unknown = usage(7).model_copy(update={"cost_usd": None, "cost_status": CostStatus.PARTIAL, "service_tier": "fast"})
    prices = Dollars()

    async def scenario() -> list[Amount]:
        alerts: list[UnknownPrice] = []
        setup = Setup(database, Allowance((parse_budget("100"),)), report=alerts.append)
        spent = []
        for _ in range(2):
            await settle(await setup.admit(), unknown)
            spent.append(await setup.spent())
        assert [(alert.model, alert.amount.tokens) for alert in alerts] == [("a:model", 7)]
        governor = setup.admission.governor(await setup.caller(), prices)
        reserved: Any = governor.reserve(lambda: USE)
        reservation = await reserved.work_async()
        prices.known = False
        await settle(reservation, unknown)
        spent.append(await setup.spent())
        assert setup.admission.estimated == 3
        await setup.ledger.close()
        return spent

    assert [amount.usd for amount in run(scenario())] == [Decimal("0.07"), Decimal("0.14"), Decimal("1.24")]
    assert unknown.cost_usd is None
