"""The settings and the client that all requests share: one generation, which a reload replaces as a whole."""

import asyncio
import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal
from weakref import WeakSet

from dragoman import (
    Adapter,
    AdapterOptions,
    AsyncClient,
    Limits,
    Message,
    RequestContext,
    Role,
    TextBlock,
    get_adapter,
)
from dragoman.credentials.target import TargetFinder
from dragoman.errors import ConfigurationError, DragomanError
from dragoman.limits import Budget, Governor, Limit
from dragoman.pricing import price_table
from dragoman.store import Store
from dragoman.transport import close_idle_connections_async
from dragoman.transport.retry import retry_within
from dragoman_gateway.access import ANYONE, Access, Caller, OpenAccess, Prices
from dragoman_gateway.bodies.repeated import RepeatedParts
from dragoman_gateway.errors import RETRY_SECONDS, ClientError, EndingError, UnavailableError
from dragoman_gateway.log import logger
from dragoman_gateway.models import FallbackQuota, Models
from dragoman_gateway.running.board import Board, Status, total
from dragoman_gateway.running.deferred_store import DeferredStore
from dragoman_gateway.running.hops import new_mark
from dragoman_gateway.running.metrics import Metrics
from dragoman_gateway.running.services import Services
from dragoman_gateway.running.state_keys import state_keys
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.turn.request import RequestResources
from dragoman_gateway.wires import WIRES

_CHECK_SECONDS = 0.01
_READ_SECONDS = 30.0
"""How long a server that the configuration needs may be busy or away."""
_SHOW_SECONDS = 1.0
_SHOW_SHARE = 20
"""How many times as long as it takes a worker waits before it shows its status again."""
_CUT_SECONDS = 5.0
"""How long requests that the server has cut off may take to leave their providers, and to book what they spent."""
_MAX_CLIENTS = 10_000


class Tracing:
    """Makes spans by the library's conventions. They go to the tracer provider that the program has set."""

    def __init__(self, form: Literal["spans", "content"]) -> None:
        """``content`` writes the content of messages into the spans. Raises MissingExtraError without OpenTelemetry."""
        from dragoman.events import EventBus, Telemetry  # imported late, with what follows: they need an extra

        self._telemetry = Telemetry(message_content=form == "content")
        from opentelemetry.context import attach
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._attach, self._propagator = attach, TraceContextTextMapPropagator()
        self.bus = EventBus()
        self.bus.subscribe(self._telemetry)

    def follow(self, headers: Mapping[str, str]) -> None:
        """Make the client's span the present one of this task. A header that cannot be read changes nothing."""
        if "traceparent" in headers:
            self._attach(self._propagator.extract(headers))

    def close(self) -> None:
        """Write what is left, and end all spans."""
        self.bus.close()
        self._telemetry.close()


class CallerClients:
    """Derives the clients of callers with budgets and limits that are counted in this process. They share connections,
    policy, store and prices."""

    def __init__(self, limits: Limits | None) -> None:
        """``limits`` apply to every caller."""
        self._common = () if limits is None else limits.limits
        self._derive = lru_cache(_MAX_CLIENTS)(self._with_bounds)
        self._count = lru_cache(_MAX_CLIENTS)(self._limits_of)

    def client_for(self, client: AsyncClient, bounds: Sequence[Budget | Limit]) -> AsyncClient:
        """Return that client with the budgets and limits of a caller."""
        return self._derive(client, tuple(bounds)) if bounds else client

    def _with_bounds(self, client: AsyncClient, bounds: tuple[Budget | Limit, ...]) -> AsyncClient:
        budgets = tuple(each for each in bounds if isinstance(each, Budget))
        if budgets:
            client = client.with_(budgets=(*client.config.budgets, *budgets))
        limits = self._count(bounds)
        return client if limits is None else client.with_(limits=limits)

    def _limits_of(self, bounds: tuple[Budget | Limit, ...]) -> Limits | None:
        """Return what counts the limits of a caller, over all deployments; None without any."""
        limits = tuple(each for each in bounds if isinstance(each, Limit))
        return Limits((*self._common, *limits)) if limits else None


@dataclass(slots=True, eq=False, weakref_slot=True)
class Generation:
    """Settings, and what is made from them. A request keeps the generation that it began with."""

    settings: GatewaySettings
    client: AsyncClient
    own_access: Access | None = None
    """The access that the program passed in; None for the one that the settings describe."""
    owns_client: bool = False
    """Whether the gateway has made the client, and closes it."""
    version: str = "program"
    """The name of this configuration, by which workers compare theirs."""
    kept: "Generation | None" = field(default=None, repr=False)
    """The generation whose open store this one takes over."""
    store_url: object = field(default=None, repr=False)
    """The store as the configuration names it."""
    access: Access = field(init=False)
    deferred_store: DeferredStore | None = field(init=False)
    """Stores requests after their replies; None if the client has no store."""
    tracing: Tracing | None = field(default=None, init=False)
    """Makes spans; None if the settings want none, or if the client has an event bus of its own."""
    models: Models = field(init=False)
    callers: CallerClients = field(init=False)
    prices: Prices = field(init=False)
    repeated: RepeatedParts = field(init=False, repr=False)
    """The cache for what callers send again in each request."""
    quota: FallbackQuota = field(default_factory=FallbackQuota, init=False)
    in_flight: int = field(default=0, init=False)
    """The requests that are being answered."""
    replaced: bool = field(default=False, init=False)
    is_bounded: bool = field(init=False)
    """Whether a policy or a budget of this gateway needs to know what each request holds and costs."""

    def __post_init__(self) -> None:
        self.access = self.own_access or OpenAccess()
        self.is_bounded = self.client.config.policy is not None or bool(self.client.config.budgets)
        store = self.client.config.store
        if self.kept is not None:
            self.deferred_store = self.kept.deferred_store
        else:
            self.deferred_store = (
                DeferredStore(store, capacity=self.settings.max_unstored) if isinstance(store, Store) else None
            )
        if self.settings.telemetry != "off" and self.client.config.events is None:
            self.tracing = Tracing(self.settings.telemetry)
        asking, router = self.client, self.client.config.router
        if self.deferred_store is not None:
            asking = asking.with_(store=self.deferred_store)
        if self.tracing is not None:
            asking = asking.with_(events=self.tracing.bus)
        if router is not None:  # no text of a client chooses its model
            asking = asking.with_(router=router.without_mentions())
        self.models = Models(self.settings.models, asking)
        self.callers = CallerClients(self.client.config.limits)
        self.repeated = RepeatedParts(self.settings.max_repeated, self.settings.repeated_seconds)
        self.prices = self.client.config.prices or price_table()

    async def resources_for(self, model: str, caller: Caller) -> RequestResources:
        """Return what a request of the caller is asked with. From now on, only its client retries it, or the gateway
        within the time that it may hold the head of the answer. Raises NotFoundError, PermissionDeniedError, and
        ClientError for a name that is too long."""
        self.known_name(model)
        retry_within(self.settings.first_event_seconds if self.settings.own_retries else 0.0)
        bounds: tuple[Budget | Limit, ...] = ()
        governor: Governor | None = None
        if caller is not ANYONE:
            bounds = await self.access.limits_for(caller)
            governor = self.access.governor_for(caller, self.prices)
        return RequestResources(
            settings=self.settings,
            deployments=self.models.resolve(model, caller),
            client_for=partial(self.callers.client_for, bounds=bounds),
            quota=self.quota,
            prices=self.prices,
            may_ask=self.models.rule_for(model, caller) if caller.models else None,
            governors=() if governor is None else (governor,),
            check=partial(self.access.check, caller, self.prices),
            state_sealer=state_keys(),
            is_bounded=self.is_bounded or (caller is not ANYONE and self.has_budget(bounds, governor)),
        )

    def has_budget(self, bounds: Sequence[Budget | Limit], governor: Governor | None) -> bool:
        """Whether a budget of this gateway or of the caller needs to know what a request costs. A governor of a program
        may be one."""
        return bool(
            self.client.config.budgets
            or any(isinstance(each, Budget) for each in bounds)
            or (governor is not None and getattr(governor, "has_budgets", True))
        )

    def known_name(self, model: str) -> str:
        """Return the name of a model. Raises ClientError if it is too long for any: it would be in each error."""
        if len(model) > self.settings.max_name:
            raise ClientError(f"model: a name has at most {self.settings.max_name} characters")
        return model

    def preload(self) -> None:
        """Load what the first request would otherwise load while all others wait: adapters, prices, the HTTP client. It
        sends nothing. What a model of the settings lacks, such as a key, is logged: it may still be stored while the
        gateway runs."""
        importlib.import_module("aiohttp")
        for wire in WIRES:
            _rehearse(wire.adapter(""))
        for model in dict.fromkeys(place.model for place in self.models.places):
            with suppress(DragomanError):  # a wrong setting is the error of its requests
                price_table().find(model)
                _rehearse(get_adapter(model))
        missing: dict[str, list[str]] = {}
        for place in self.models.places:
            adapter = get_adapter(place.model)
            settings = (place.client.config.providers or {}).get(adapter.provider, {})
            if adapter.transport != "http" or "client" in settings:  # it authenticates in a way of its own
                continue
            try:
                TargetFinder(settings.get("api_key"), settings.get("base_url")).target(adapter)
            except ConfigurationError as error:
                missing.setdefault(str(error), []).append(place.model)
        for problem, models in missing.items():
            logger.warning("requests to %s will fail: %s", ", ".join(models), problem)

    def take_over(self) -> None:
        """Take over the store that the generation before has opened, which then does not close it."""
        if (before := self.kept) is None:
            return
        self.kept = None
        self.client.config.lifetime.own_store = before.client.config.lifetime.own_store
        before.client.config.lifetime.own_store = None
        if self.deferred_store is not None:
            self.deferred_store.capacity = self.settings.max_unstored
        before.deferred_store = None

    async def leave(self) -> None:
        """Note the end of a request. The last one of a replaced generation closes its client."""
        self.in_flight -= 1
        if self.replaced and self.in_flight == 0:
            await self.close()

    async def close(self) -> None:
        """Write what is to be stored, and close the client if it is the gateway's own."""
        if self.deferred_store is not None and self.kept is None:
            await asyncio.to_thread(self.deferred_store.close)
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.close)
        if self.owns_client:
            await self.client.close()


class Gateway:
    """A running gateway: the present generation, and whether it takes requests."""

    running: ClassVar["WeakSet[Gateway]"] = WeakSet()
    """All gateways of the process, for the server's signals."""

    def __init__(
        self,
        generation: Generation,
        load: Callable[[Generation], Generation] | None = None,
        board: Board | None = None,
    ) -> None:
        """``load`` reads the configuration again, and gets the present generation; None if a program has made the
        settings. ``board`` is that of all workers of this gateway; None for a gateway of one process."""
        self.board = board
        self.services = Services(generation.settings, board, self.show)
        self.current = self._with_access(generation)
        self.metrics = Metrics()
        self.draining = False
        self.mark = new_mark()
        """The mark in each outgoing request, by which the gateway refuses one that comes back."""
        self._load = load
        self._reloading = asyncio.Lock()
        self._prepared: dict[str, Any] = {}
        """The order of the first process to read the configuration again that was followed last, and the outcome."""
        self._old: WeakSet[Generation] = WeakSet()
        self.running.add(self)

    @property
    def in_flight(self) -> int:
        """The requests that are being answered, those of earlier generations too."""
        running = self.current.in_flight
        return running + sum(each.in_flight for each in self._old) if self._old else running

    def enter(self) -> Generation:
        """Begin a request. Raises UnavailableError while the gateway ends, and without a store that it needs."""
        current = self.current
        if self.draining:
            raise EndingError
        store = current.deferred_store
        if current.settings.store_outage != "open" and store is not None and not store.is_available:
            raise UnavailableError("the store of this gateway does not answer: try again", retry_after=RETRY_SECONDS)
        current.in_flight += 1
        return current

    def drain(self) -> None:
        """Accept no more requests. Those that have begun are answered."""
        self.draining = True

    async def reload(self) -> bool:
        """Read the configuration again. Requests that have begun continue under the one they began with. With several
        workers, all of them take it, or none.

        Return whether it is in effect; if not, the old one stays.
        """
        if self._load is None:
            return False
        async with self._reloading:
            order = None if self.board is None else self.board.ordered().get("number")
            try:
                new = await self._read(self._load)
            except (DragomanError, OSError) as error:
                logger.error("the configuration was not reloaded: %s", error)
                self._show_prepared(order, error=str(error))
                return False
            if self.board is not None and not await self._may_take(self.board, order, new):
                logger.error("the configuration was not reloaded: not all workers could read it, or read the same")
                await new.close()
                return False
            old, self.current = self.current, new
            new.take_over()
            old.replaced = True
            self._old.add(old)
            self.show()
            if old.in_flight == 0:
                await old.close()
        logger.info("the configuration %s was reloaded", new.version)
        return True

    async def follow(self) -> None:
        """Show the status of this worker to the others, until the gateway ends. A board is small: each second."""
        assert self.board is not None
        while True:
            status = self._shown()
            began = time.monotonic()
            await asyncio.to_thread(self.board.write, status)
            await asyncio.sleep(max(_SHOW_SECONDS, _SHOW_SHARE * (time.monotonic() - began)))

    def show(self) -> None:
        """Show the status of this worker to the others now."""
        if self.board is not None:
            self.board.write(self._shown())

    def status(self) -> Status:
        """Return the status of this worker."""
        shown, behind, generations = self.services.status(), self.current.deferred_store, (self.current, *self._old)
        shown.workers = {str(os.getpid()): self.current.version}
        shown.in_flight = self.in_flight
        shown.dropped["request"] = sum(
            each.deferred_store.dropped for each in generations if each.deferred_store is not None
        )
        shown.waiting["request"] = 0 if behind is None else behind.backlog
        shown.waiting_seconds = 0.0 if behind is None else behind.age
        shown.metrics, shown.running = self.metrics.dump(), self.metrics.running_now()
        return shown

    def whole_status(self) -> Status:
        """Return the status of all workers of this gateway, those that ended included."""
        if self.board is None:
            return self.status()
        return total([self.status(), *map(Status.model_validate, (self.board.ended(), *self.board.others()))])

    async def _read(self, load: Callable[[Generation], Generation]) -> Generation:
        """Return the generation that the configuration describes. A server that is busy or away is asked again."""

        def read() -> Generation:
            generation = self._with_access(load(self.current))
            generation.preload()
            return generation

        deadline = time.monotonic() + _READ_SECONDS
        while True:
            try:
                return await asyncio.to_thread(read)
            except ConfigurationError:
                raise
            except (DragomanError, OSError):
                if time.monotonic() + RETRY_SECONDS > deadline:
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def _may_take(self, board: Board, order: object, new: Generation) -> bool:
        """Show which configuration is ready, and wait until the first process decides which one all take."""
        self._show_prepared(order, version=new.version)
        deadline = time.monotonic() + 2 * _READ_SECONDS
        while time.monotonic() < deadline and (present := board.ordered()).get("number") == order:
            if "take" in present:
                return bool(present["take"] == new.version)
            await asyncio.sleep(_CHECK_SECONDS)
        return False

    def _show_prepared(self, order: object, **outcome: str) -> None:
        self._prepared = {"number": order, **outcome}
        self.show()

    def _shown(self) -> dict[str, Any]:
        return {**self.status().model_dump(mode="json"), "prepared": self._prepared}

    async def close(self) -> None:
        """Close what the gateway has opened, and the connections of this event loop that nobody uses. What requests
        that were cut off have spent is booked before."""
        await self.services.background.close()
        deadline = time.monotonic() + _CUT_SECONDS
        while self.in_flight and time.monotonic() < deadline:
            await asyncio.sleep(_CHECK_SECONDS)
        await self.services.close()
        for each in (*self._old, self.current):
            await each.close()
        await close_idle_connections_async()

    def _with_access(self, generation: Generation) -> Generation:
        if generation.own_access is None:
            generation.access = self.services.access(generation.settings)
        return generation


def _rehearse(adapter: Adapter) -> None:
    """Write and read a request and a reply: modules load each other when they first run."""
    with suppress(DragomanError):
        context = RequestContext.for_model(str(adapter.model_id), state_sealer=state_keys())
        question, answer = (
            Message(session_id=context.session_id, role=role, content=(TextBlock(text="Hello"),))
            for role in (Role.USER, Role.ASSISTANT)
        )
        request = adapter.to_wire([question], [], AdapterOptions(context=context))
        adapter.from_wire_request(request.body, context)
        adapter.from_wire_request(request.body, RequestContext(model="another:model"))
        adapter.to_wire_response(answer, context)
