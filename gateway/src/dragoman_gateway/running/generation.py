"""What all requests share: one generation of settings and client, which a reload replaces as a whole."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakSet

from dragoman import AsyncClient
from dragoman.errors import DragomanError
from dragoman.logs import get_logger
from dragoman.pricing import price_table
from dragoman.store import Store
from dragoman.transport import close_idle_connections_async
from dragoman.transport.retry import retry_within
from dragoman_gateway.access import Access, Caller, OpenAccess, Prices
from dragoman_gateway.errors import RETRY_SECONDS, ClientError, UnavailableError
from dragoman_gateway.models.deployments import FallbackQuota
from dragoman_gateway.models.names import Models
from dragoman_gateway.running.activity import Activity
from dragoman_gateway.running.behind import StoreBehind
from dragoman_gateway.running.callers import CallerClients
from dragoman_gateway.running.hops import new_mark
from dragoman_gateway.running.metrics import Metrics, RequestRecord
from dragoman_gateway.running.preload import missing_keys, preload
from dragoman_gateway.running.services import Services
from dragoman_gateway.running.state_keys import state_keys
from dragoman_gateway.server.logs import log_request
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.turn.resources import RequestResources

if TYPE_CHECKING:
    from dragoman_gateway.running.tracing import Tracing

logger = get_logger("dragoman.gateway")

_CHECK_SECONDS = 0.01
_CUT_SECONDS = 5.0
"""How long requests that the server has cut off may take to leave their providers, and to book what they spent."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Generation:
    """Settings, and what is made from them. A request keeps the generation that it began with."""

    settings: GatewaySettings
    client: AsyncClient
    own_access: Access | None = None
    """What the program has given to check keys; None for what the settings describe."""
    owns_client: bool = False
    """Whether the gateway has made the client, and closes it."""
    access: Access = field(init=False)
    behind: StoreBehind | None = field(init=False)
    """Stores requests behind their answers; None if the client has no store."""
    tracing: "Tracing | None" = field(default=None, init=False)
    """Makes spans; None if the settings want none, or if the client has an event bus of its own."""
    models: Models = field(init=False)
    callers: CallerClients = field(init=False)
    prices: Prices = field(init=False)
    quota: FallbackQuota = field(default_factory=FallbackQuota, init=False)
    in_flight: int = field(default=0, init=False)
    """The requests that are being answered."""
    replaced: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.access = self.own_access or OpenAccess()
        store = self.client.config.store
        self.behind = StoreBehind(store, capacity=self.settings.max_unstored) if isinstance(store, Store) else None
        if self.settings.telemetry != "off" and self.client.config.events is None:
            from dragoman_gateway.running.tracing import Tracing  # imported late: it needs an extra

            self.tracing = Tracing(self.settings.telemetry)
        self.models = Models(self.settings.models, self._asking_client())
        self.callers = CallerClients(self.client.config.limits)
        self.prices = self.client.config.prices or price_table()

    def _asking_client(self) -> AsyncClient:
        """Return the client that asks: it stores behind the answers, and no text of a client chooses its model."""
        asking, router = self.client, self.client.config.router
        if self.behind is not None:
            asking = asking.with_(store=self.behind)
        if self.tracing is not None:
            asking = asking.with_(events=self.tracing.bus)
        return asking if router is None else asking.with_(router=router.without_mentions())

    async def resources_for(self, model: str, caller: Caller) -> RequestResources:
        """Return what a request of the caller is asked with. From now on, its retries wait no longer than the gateway
        may hold the head of the answer. Raises NotFoundError, PermissionDeniedError, and ClientError for a name that is
        too long."""
        self.known_name(model)
        retry_within(self.settings.first_event_seconds)
        bounds = await self.access.limits_for(caller)
        governor = self.access.governor_for(caller, self.prices)
        return RequestResources(
            deployments=self.models.resolve(model, caller),
            client_for=partial(self.callers.client_for, bounds=bounds),
            quota=self.quota,
            may_ask=self.models.rule_for(model, caller),
            governors=() if governor is None else (governor,),
            check=partial(self.access.check, caller, self.prices),
            state_sealer=state_keys(),
            strict=self.settings.strict,
            unknown_history=self.settings.unknown_history,
            other_wire=self.settings.other_wire,
        )

    def known_name(self, model: str) -> str:
        """Return the name of a model. Raises ClientError if it is too long for any: it would be in each error."""
        if len(model) > self.settings.max_name:
            raise ClientError(f"model: a name has at most {self.settings.max_name} characters")
        return model

    def warn_of_missing_keys(self) -> None:
        """Log what requests to the models of the settings lack: a key may still be stored while the gateway runs."""
        for problem, models in missing_keys(self.models.places).items():
            logger.warning("requests to %s will fail: %s", ", ".join(models), problem)

    @property
    def may_store(self) -> bool:
        """Whether requests may begin, as far as the store is concerned."""
        return self.settings.store_outage == "open" or self.behind is None or self.behind.is_available

    async def leave(self) -> None:
        """Note the end of a request. The last one of a replaced generation closes its client."""
        self.in_flight -= 1
        if self.replaced and self.in_flight == 0:
            await self.close()

    async def close(self) -> None:
        """Write what is to be stored, and close the client if it is the gateway's own."""
        if self.behind is not None:
            await asyncio.to_thread(self.behind.close)
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.close)
        if self.owns_client:
            await self.client.close()


class Gateway:
    """A running gateway: the present generation, and whether it takes requests."""

    running: ClassVar["WeakSet[Gateway]"] = WeakSet()
    """All gateways of the process, for the server's signals."""

    def __init__(self, generation: Generation, load: Callable[[], Generation] | None = None) -> None:
        """``load`` reads the configuration again; None if a program has made the settings."""
        self.services = Services(generation.settings)
        self.current = self._with_access(generation)
        self.metrics = Metrics()
        self.activity = Activity()
        self.draining = False
        self.mark = new_mark()
        """Stands in each request that leaves, so that none comes back."""
        self._load = load
        self._old: WeakSet[Generation] = WeakSet()
        self.running.add(self)

    @property
    def in_flight(self) -> int:
        """The requests that are being answered, those of earlier generations too."""
        running = self.current.in_flight
        return running + sum(each.in_flight for each in self._old) if self._old else running

    @property
    def dropped(self) -> dict[str, int]:
        """What could not be stored or counted because a server did not answer, by kind."""
        generations = (self.current, *self._old)
        stored = sum(each.behind.dropped for each in generations if each.behind is not None)
        return {**self.services.dropped(), "request": stored}

    def enter(self) -> Generation:
        """Begin a request. Raises UnavailableError while the gateway ends, and without a store that it needs."""
        current = self.current
        if self.draining:
            raise UnavailableError("the gateway is about to end: ask again", retry_after=RETRY_SECONDS)
        if not current.may_store:
            raise UnavailableError("the store of this gateway does not answer: ask again", retry_after=RETRY_SECONDS)
        current.in_flight += 1
        return current

    def finish(self, record: RequestRecord) -> None:
        """Count a request that has ended, and log it."""
        self.metrics.count(record)
        self.activity.end(record)
        log_request(record)

    def drain(self) -> None:
        """Take no more requests. Those that have begun are answered."""
        self.draining = True

    async def reload(self) -> bool:
        """Read the configuration again. Requests that have begun go on under the one they began with.

        Return whether it could be read; if not, the old one stays.
        """
        if self._load is None:
            return False
        try:
            new = await asyncio.to_thread(self._reload, self._load)
        except (DragomanError, OSError) as error:
            logger.error("the configuration was not reloaded: %s", error)
            return False
        old, self.current = self.current, new
        old.replaced = True
        self._old.add(old)
        if old.in_flight == 0:
            await old.close()
        logger.info("the configuration was reloaded")
        return True

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

    def preload(self) -> None:
        """Load what the first request would load, and say which models lack a key."""
        preload(self.current.models.configured)
        self.current.warn_of_missing_keys()

    def _reload(self, load: Callable[[], Generation]) -> Generation:
        generation = self._with_access(load())
        preload(generation.models.configured)
        generation.warn_of_missing_keys()
        return generation

    def _with_access(self, generation: Generation) -> Generation:
        if generation.own_access is None:
            generation.access = self.services.access(generation.settings)
        return generation
