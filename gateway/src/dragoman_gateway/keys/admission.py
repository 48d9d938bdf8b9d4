"""Admission: what a request may spend is reserved before it is sent, and settled by what it spent."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property, partial
from typing import Any
from uuid import uuid4

from dragoman import Adapter, AdapterOptions, Message, ToolDefinition
from dragoman.errors import DragomanError, LimitReachedError, UnpricedModelError
from dragoman.events import StreamEvent, TextDelta, ThinkingDelta, ToolUseInputDelta
from dragoman.messages import CostStatus, TokenUsage, Usage
from dragoman.pricing import price_table
from dragoman.session.effects import Abandoned, Broken, Failed, Perform, Replied, Send, SendOutcome, intercept
from dragoman_gateway.access import AttemptMiddleware, Caller, Prices, Question
from dragoman_gateway.database import DatabaseUnavailableError
from dragoman_gateway.errors import UncountedError
from dragoman_gateway.keys.amounts import Concurrency, KeyLimit, OnOutage, PeriodBudget
from dragoman_gateway.keys.bookings import Amount
from dragoman_gateway.keys.key_cache import KeyCache
from dragoman_gateway.keys.ledger import Ledger, SpentBudgetError
from dragoman_gateway.keys.rates import Grants, Rates

_CHARACTERS_PER_TOKEN = 4
_MORE = 2
"""How many times the output that a reservation holds grows when a stream exceeds it."""


@dataclass(frozen=True, slots=True)
class MaxUse:
    """What a request could use: its estimated input, and its maximum of output."""

    model: str
    input: TokenUsage
    output_tokens: int

    @property
    def total(self) -> TokenUsage:
        return self.input.model_copy(update={"output_tokens": self.output_tokens})


class Admission:
    """``output_cap`` is the most output that is reserved at first: a stream that exceeds it reserves more while it
    runs. None reserves the most that the request allows. ``charges_failures``: whether a stream that failed is charged
    what the provider had reported of it. ``concurrency`` is that of keys that have none of their own.
    """

    def __init__(
        self,
        cache: KeyCache,
        ledger: Ledger,
        rates: Rates,
        *,
        output_cap: int | None = None,
        charges_failures: bool = True,
        concurrency: Concurrency | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cache = cache
        self.ledger = ledger
        self.rates = rates
        self.output_cap = output_cap
        self.charges_failures = charges_failures
        self.concurrency = concurrency
        self.clock = clock
        self.unbudgeted = 0
        """Requests that passed while their budgets could not be checked."""

    async def admit(self, caller: Caller, use: Callable[[], MaxUse], prices: Prices) -> "Ticket":
        """Reserve for one request at these prices, and wait for the limits. ``use`` is called only if that is needed:
        estimating a long prompt costs time.

        Raises SpentBudgetError, UnpricedModelError, LimitReachedError, or UncountedError while nothing can be checked.
        """
        allowances = self._cache.allowances_for(caller)
        budgets = {scope: each.budgets for scope, each in allowances.items() if each.budgets}
        limits: dict[str, Sequence[KeyLimit]] = {
            scope: each.limits for scope, each in allowances.items() if each.limits
        }
        concurrency = {scope: each.concurrency for scope, each in allowances.items() if each.concurrency is not None}
        if self.concurrency is not None and caller.key_id is not None:
            concurrency.setdefault(f"key:{caller.key_id}", self.concurrency)
        ticket = Ticket(self, scopes_of(caller), use, prices, budgets, concurrency)
        try:
            await ticket.reserve()
        except (asyncio.CancelledError, UncountedError):  # the database may have stored it all the same
            ticket.release()
            raise
        try:
            if limits:
                tokens = ticket.use.input.total_tokens
                ticket.grants = await self.rates.acquire(limits, ticket.use.model, tokens, ticket.reserved_output)
        except BaseException:
            ticket.release()
            raise
        return ticket

    def watches_streams(self, caller: Caller) -> bool:
        """Whether a stream could have to reserve more while it runs."""
        return self.output_cap is not None and any(each.budgets for each in self._cache.allowances_for(caller).values())

    def middleware(self, caller: Caller) -> "CallerAdmission":
        """Return what admits each attempt of a caller's requests."""
        return CallerAdmission(self, caller)


class CallerAdmission(AttemptMiddleware):
    """Admits each attempt of one caller's requests."""

    def __init__(self, admission: Admission, caller: Caller) -> None:
        self._admission = admission
        self._caller = caller

    def __call__(self, turn: Generator[Any, Any, None], /) -> Generator[Any, Any, None]:
        return intercept(turn, self._handle)

    @property
    def watches_streams(self) -> bool:
        return self._admission.watches_streams(self._caller)

    async def admit(self, adapter: Adapter, read: Callable[[], Question], prices: Prices) -> "Ticket":
        return await self._admission.admit(self._caller, lambda: max_use(adapter, *read()), prices)

    def _handle(self, effect: Any) -> Generator[Any, Any, Any]:
        if not isinstance(effect, Send):
            return (yield effect)
        question = effect.messages, effect.tools, effect.options
        admit = partial(self.admit, effect.adapter, lambda: question, effect.context.prices or price_table())
        try:
            ticket: Ticket = yield Perform(_refuse_sync, admit)
        except LimitReachedError as error:  # another model may have room
            return Failed(error)
        settled = False
        try:
            stages = (*effect.stages, ticket.watch) if ticket.may_grow else effect.stages
            outcome: SendOutcome = yield replace(effect, stages=stages)
            yield Perform(_refuse_sync, partial(ticket.settle_outcome, outcome))
            settled = True
            return outcome
        finally:
            if not settled:
                ticket.release()


class Ticket:
    """What one request has reserved. Settle or release it once; later calls do nothing."""

    def __init__(
        self,
        admission: Admission,
        scopes: tuple[str, ...],
        use: Callable[[], MaxUse],
        prices: Prices,
        budgets: dict[str, tuple[PeriodBudget, ...]],
        concurrency: dict[str, Concurrency],
    ) -> None:
        self._admission = admission
        self._scopes = scopes
        self._find_use = use
        self._prices = prices
        self._budgets = budgets
        self._concurrency = concurrency
        self._id = uuid4().hex  # made here: an id that a client sends could end another request's reservation
        self._characters = 0
        self._ended = False
        self.grants = Grants()

    @cached_property
    def use(self) -> MaxUse:
        return self._find_use()

    @cached_property
    def reserved_output(self) -> int:
        """The output tokens that are reserved."""
        cap = self._admission.output_cap
        return self.use.output_tokens if cap is None else min(cap, self.use.output_tokens)

    @property
    def may_grow(self) -> bool:
        """Whether the output could exceed what is reserved."""
        return bool(self._budgets) and self.reserved_output < self.use.output_tokens

    async def reserve(self) -> None:
        if not (self._budgets or self._concurrency):
            return
        admission = self._admission
        needed = self._price_reservation() if self._budgets else Amount()
        try:
            await admission.ledger.reserve(self._id, self._budgets, needed, self._concurrency)
        except DatabaseUnavailableError:
            rules = [each.on_outage for budgets in self._budgets.values() for each in budgets]
            rules += [each.on_outage for each in self._concurrency.values()]
            if OnOutage.CLOSED in rules:
                raise UncountedError("the budget of this key cannot be checked at the moment") from None
            if self._budgets:
                admission.unbudgeted += 1
            else:
                admission.rates.uncounted += 1

    def _price_reservation(self) -> Amount:
        """Return what is to be reserved. Raises UnpricedModelError."""
        use = replace(self.use, output_tokens=self.reserved_output)
        priced = self._prices.price(use.model, use.total, self._admission.clock())
        known = priced.cost_status in (CostStatus.PRICED, CostStatus.FREE)
        for scope, budgets in self._budgets.items():
            if not known and any(each.usd is not None and not each.allow_unpriced for each in budgets):
                raise UnpricedModelError(use.model, scope.partition(":")[0])
        return amount_of(priced)

    def watch(self, event: StreamEvent) -> Sequence[StreamEvent] | Perform:
        """Count the output of a stream. If it exceeds what is reserved, reserve more before the event goes on."""
        if type(event) in (TextDelta, ThinkingDelta):
            self._characters += len(event.text)  # type: ignore[union-attr]  # both have it
        elif type(event) is ToolUseInputDelta:
            self._characters += len(event.partial_json)
        if self._characters <= self.reserved_output * _CHARACTERS_PER_TOKEN:
            return (event,)
        return Perform(_refuse_sync, partial(self._grow, event))

    async def _grow(self, event: StreamEvent) -> Sequence[StreamEvent]:
        await self.grow()
        return (event,)

    async def grow(self) -> None:
        """Reserve more output. Raises SpentBudgetError if the budget ends here."""
        if self.may_grow:
            self.reserved_output = min(max(1, self.reserved_output * _MORE), self.use.output_tokens)
            await self.reserve()

    async def settle_outcome(self, outcome: SendOutcome) -> None:
        """Settle by how an attempt ended."""
        if self._characters and isinstance(outcome, (Broken, Abandoned)) and outcome.partial is not None:
            # bytes that go through are sent before all of their events were counted
            arrived = sum(len(getattr(block, "text", "")) for block in outcome.partial.content)
            self._characters = max(self._characters, arrived)
        match outcome:
            case Replied():
                await self.settle(outcome.message.usage)
            case Broken():
                usage = None if outcome.partial is None else outcome.partial.usage
                if isinstance(outcome.error, SpentBudgetError):  # the gateway cut it, and not the provider
                    await self._end(self._lower_bound(usage))
                else:
                    await self.settle_failed(usage, began=outcome.seen, counts=False)
            case Abandoned():
                reply = outcome.partial or outcome.billed
                await self.settle_failed(None if reply is None else reply.usage, began=outcome.partial is not None)
            case _:
                await self.settle_failed(None, began=False)

    async def settle(self, usage: Usage | None) -> None:
        """Replace the reservation by the usage of a reply. One without counts costs its estimated input, and the output
        that was counted here."""
        await self._end(self._lower_bound() if usage is None else usage)

    async def settle_failed(self, usage: Usage | None, *, began: bool, counts: bool = True) -> None:
        """Settle a stream that broke, or that the client left: the provider bills what it made. What it reported is
        the lower bound; without a report, that is the estimated input if the reply had begun, and nothing otherwise.
        Output that was counted here is charged even if the report has less: most streams report theirs at the end.
        ``counts``: whether it counts under limits of requests. One that the provider broke does not: clients ask again.
        """
        if not self._admission.charges_failures:
            usage, began = None, False
        await self._end(self._lower_bound(usage) if usage or began else None, requests=int(counts))

    def release(self) -> None:
        """End the reservation of a request that was never sent."""
        if not self._ended:
            self._ended = True
            if self._budgets or self._concurrency:
                self._admission.ledger.book(self._id, (), Amount(), requests=0)

    async def _end(self, usage: Usage | None, *, requests: int = 1) -> None:
        if self._ended:
            return
        self._ended = True
        amount = Amount() if usage is None else amount_of(usage)
        self._admission.ledger.book(self._id, self._scopes, amount)
        await self._admission.rates.settle(self.grants, usage, requests=requests)

    def _lower_bound(self, reported: Usage | None = None) -> Usage | None:
        """Return what a reply costs at least: what was reported or else the estimated input, and all output that was
        counted. None if nothing had to be reserved and only the provider could read the request."""
        output = self._characters // _CHARACTERS_PER_TOKEN
        if reported is not None and reported.output_tokens >= output:
            return reported
        try:
            use = self.use
        except DragomanError:
            return reported
        used: TokenUsage = use.input if reported is None else reported
        return self._prices.price(use.model, used.model_copy(update={"output_tokens": output}), self._admission.clock())


def scopes_of(caller: Caller) -> tuple[str, ...]:
    """Return the scopes under which a caller's spend is counted."""
    names = (("key", caller.key_id), ("user", caller.user), ("team", caller.team))
    return tuple(f"{kind}:{name}" for kind, name in names if name is not None)


def amount_of(usage: Usage) -> Amount:
    return Amount(usage.cost_usd or Decimal(0), usage.total_tokens)


def max_use(
    adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
) -> MaxUse:
    """Return what an attempt could use at most. Input that is written to a cache costs more than plain input."""
    tokens = adapter.estimate_input_tokens(messages, tools)
    buckets = ["input_tokens"] if options.prompt_cache is None else ["cache_creation_input_tokens"]
    if options.prompt_cache == "1h":
        buckets.append("cache_creation_1h_input_tokens")
    return MaxUse(str(adapter.model_id), TokenUsage(**dict.fromkeys(buckets, tokens)), adapter.output_limit(options))


def _refuse_sync() -> Any:
    raise RuntimeError("the gateway asks in an event loop")
