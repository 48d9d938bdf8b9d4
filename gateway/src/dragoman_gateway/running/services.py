"""What all replicas share, and what outlives a reload: keys, spend, stored responses, owners of ids."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, select
from starlette.types import Message, Send

from dragoman.limits import Limits
from dragoman_gateway.access import Access, Caller, OpenAccess
from dragoman_gateway.access.owned_ids import OwnedIds, find_made_ids, may_name_ids
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.database.tables import keys as keys_table
from dragoman_gateway.errors import DeniedError, UnavailableError
from dragoman_gateway.json import dumps
from dragoman_gateway.keys.access import KeyAccess, OpenUntilKeys
from dragoman_gateway.keys.admission import Admission
from dragoman_gateway.keys.alerts import Alerts
from dragoman_gateway.keys.amounts import Concurrency
from dragoman_gateway.keys.key_cache import KeyCache
from dragoman_gateway.keys.ledger import Ledger, Watch
from dragoman_gateway.keys.rates import Rates
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.stored.background import Background
from dragoman_gateway.stored.call_state import CallState, RequestState
from dragoman_gateway.stored.recorder import Recorder
from dragoman_gateway.stored.response_store import ResponseStore
from dragoman_gateway.stored.turn import StoredTurn, read_turn
from dragoman_gateway.turn.request import ClientRequest

_IN_MEMORY = "sqlite://"


class Services:
    """The services of one application, until it ends. Without a database in the settings, they are in memory, and there
    are no keys.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        keys, responses = settings.keys, settings.responses
        self.database = database = Database(settings.database or _IN_MEMORY)
        self.cache = KeyCache(database, max_age=keys.max_age, max_outage=keys.max_outage)
        self.alerts: Alerts | None = None
        limits = Limits((), url=keys.counters, name=keys.counters_name, max_wait=keys.max_wait)
        self.admission = Admission(
            self.cache,
            Ledger(database, watch=self._watch(settings)),
            Rates(limits),
            output_cap=keys.reserve_output,
            charges_failures=keys.charge_failed,
            concurrency=None if keys.concurrency is None else Concurrency(keys.concurrency),
        )
        self.owned = OwnedIds(database, shared=keys.shared_ids)
        self.responses = ResponseStore(database, lifetime=timedelta(days=responses.days))
        self.keeps = responses.keep
        self.background = Background(
            self.responses, max_runs=responses.max_background, ping_seconds=settings.ping_seconds
        )
        self.states = (
            None if settings.database is None else CallState(database, lifetime=timedelta(days=responses.state_days))
        )

    def _watch(self, settings: GatewaySettings) -> Watch | None:
        """Return what reports spent shares of budgets; None if the settings name no webhook."""
        if settings.alerts is None:
            return None
        self.alerts = Alerts(settings.alerts)
        return Watch(settings.alerts.at, lambda scope: self.cache.allowance_of(scope).budgets, self.alerts.send)

    def access(self, settings: GatewaySettings) -> Access:
        """Return the access that the settings describe: keys are checked as soon as one was ever created."""
        keyed = KeyAccess(self.cache, self.admission)
        if settings.keys.required or (settings.database is not None and has_keys(self.database)):
            return keyed
        return OpenAccess() if settings.database is None else OpenUntilKeys(self.cache, keyed)

    def dropped(self) -> dict[str, int]:
        """Return what could not be stored or counted because a server did not answer, by kind."""
        admission = self.admission
        return {
            "spend": admission.ledger.dropped,
            "response": self.responses.dropped,
            "state": 0 if self.states is None else self.states.dropped,
            "id": self.owned.dropped,
            "limit": admission.rates.uncounted,
            "budget": admission.unbudgeted,
            "alert": 0 if self.alerts is None else self.alerts.dropped,
        }

    def available(self) -> dict[str, bool]:
        """Return which of the shared servers answer."""
        return {"database": self.database.is_available, "counters": self.admission.rates.is_available}

    async def close(self) -> None:
        """Store what waits, and close what was opened. All requests and background runs have ended."""
        await self.responses.close()
        await self.admission.ledger.close()
        if self.alerts is not None:
            await self.alerts.close()
        await self.admission.rates.close()
        await asyncio.to_thread(self.database.close)


class RequestServices:
    """The services for one request: what it may name, the history before it, and what of its reply is stored."""

    __slots__ = ("_made", "_services", "_threads", "state", "stored")

    def __init__(self, services: Services) -> None:
        self._services = services
        self.stored: StoredTurn | None = None
        self.state: RequestState | None = None
        self._made: frozenset[str] = frozenset()
        self._threads = False

    async def prepare(self, request: ClientRequest) -> ClientRequest:
        """Return the request as the model gets it. Raises PermissionDeniedError, InvalidRequestError for an id of
        another key, and UnavailableError if that cannot be checked.
        """
        check_caller(request.caller, request.wire.name)
        services, caller, fields = self._services, request.caller, request.fields
        self._threads = "thread" in fields
        try:
            await services.owned.check(caller, fields)
        except DatabaseUnavailableError:
            raise UnavailableError("ids cannot be checked at the moment: ask again", retry_after=5) from None
        if request.wire.name == "chat" and services.states is not None:
            self.state = RequestState()
        if request.wire.name == "responses" and _is_stored(fields, keeps=services.keeps):
            self.stored = await read_turn(fields, caller.owner, services.responses, keeps=services.keeps)
            if self.stored.is_changed:
                return replace(request, fields=self.stored.fields, body=dumps(self.stored.fields))
        return request

    async def load_state(self, caller: Caller) -> bool:
        """Load the state that the request needs. Returns whether it has to be read again."""
        if self.state is None or self._services.states is None:
            return False
        return await self._services.states.load(self.state, caller.owner)

    def recording(self, request: ClientRequest, send: Send) -> Send:
        """Return what the reply goes through on its way to the client."""
        if self.stored is not None and not self.stored.background:
            send = Recorder(send, self.stored, self._services.responses).send
        if self.state is not None:
            send = self._storing(self.state, request.caller, send)
        return send if request.caller.key_id is None else self._noting_ids(request.caller, send)

    def _storing(self, state: RequestState, caller: Caller, send: Send) -> Send:
        """Return what stores the state that the reply added before its bytes are sent."""
        states = self._services.states
        assert states is not None

        async def store_and_send(message: Message) -> None:
            await states.store(state, caller.owner)
            state.written = {}
            await send(message)

        return lambda message: store_and_send(message) if state.written else send(message)

    def _noting_ids(self, caller: Caller, send: Send) -> Send:
        """Return what notes the owner of the ids that the reply names before its bytes are sent."""

        async def note_and_send(message: Message) -> None:
            made = find_made_ids(message["body"], threads=self._threads)
            if new := {each: kind for each, kind in made.items() if each not in self._made}:
                self._made |= new.keys()
                try:
                    await self._services.owned.record(caller, new)
                except DatabaseUnavailableError:
                    self._services.owned.dropped += len(new)
            await send(message)

        may_name = (lambda body: b'"message"' in body or may_name_ids(body)) if self._threads else may_name_ids
        return lambda message: note_and_send(message) if may_name(message.get("body", b"")) else send(message)


def requires_keys(settings: GatewaySettings) -> bool:
    """Whether a gateway with these settings checks keys."""
    if settings.keys.required or settings.database is None:
        return settings.keys.required
    database = Database(settings.database)
    try:
        return has_keys(database)
    finally:
        database.close()


def has_keys(database: Database) -> bool:
    """Whether a key was ever created."""

    def work(connection: Connection) -> bool:
        return connection.execute(select(keys_table.c.id).limit(1)).first() is not None

    return database.run(work, writes=False)


def check_caller(caller: Caller, endpoint: str) -> None:
    """Raise PermissionDeniedError if the caller may not use an endpoint that asks models."""
    if caller.admin:
        raise DeniedError("an admin key calls no models: use another key")
    if caller.endpoints and endpoint not in caller.endpoints:
        raise DeniedError(f"this key may not use {endpoint}")


def _is_stored(fields: dict[str, Any], *, keeps: bool) -> bool:
    """Whether a request to `/v1/responses` reads or writes stored responses."""
    return (
        (keeps and fields.get("store") is not False)
        or fields.get("background") is True
        or fields.get("previous_response_id") is not None
        or _has_references(fields.get("input"))
    )


def _has_references(items: Any) -> bool:
    return isinstance(items, list) and any(
        isinstance(item, dict) and (item.get("type") == "item_reference" or item.keys() == {"id"}) for item in items
    )
