"""Services that all replicas share and that outlive a reload: keys, spend, stored responses, owners of ids."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from sqlalchemy import select
from starlette.types import Message, Send

from dragoman import AsyncClient
from dragoman.limits import Limits
from dragoman_gateway.access import Access, Caller, OpenAccess
from dragoman_gateway.access.owned_ids import OwnedIds, find_made_ids, may_name_ids
from dragoman_gateway.access.page_rules import PageRules
from dragoman_gateway.access.wire_fields import check_spelling
from dragoman_gateway.bodies.values import count_values
from dragoman_gateway.database import Database
from dragoman_gateway.database.tables import keys as keys_table
from dragoman_gateway.errors import DeniedError
from dragoman_gateway.json import dumps
from dragoman_gateway.keys.access import KeyAccess, OpenUntilKeys
from dragoman_gateway.keys.admission import Admission
from dragoman_gateway.keys.alerts import Alerts
from dragoman_gateway.keys.amounts import Concurrency
from dragoman_gateway.keys.key_store import KeyCache
from dragoman_gateway.keys.ledger import Ledger, Watch
from dragoman_gateway.keys.rates import Rates
from dragoman_gateway.running.board import Board, Status
from dragoman_gateway.running.shares import Share, Shares
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.stored.background import Background
from dragoman_gateway.stored.call_state import CallState, ConversationLabels, RequestState
from dragoman_gateway.stored.recorder import Recorder, judge_stored
from dragoman_gateway.stored.records import StoredResponse
from dragoman_gateway.stored.response_store import ExpansionLimit, ResponseStore
from dragoman_gateway.stored.turn import StoredTurn, is_reference, read_turn, unresolved_items
from dragoman_gateway.turn.policy import policy_extensions
from dragoman_gateway.turn.request import ClientRequest

_IN_MEMORY = "sqlite://"


class Services:
    """The services of one application, until it ends. Without a database in the settings, they are in memory, and there
    are no keys.
    """

    def __init__(
        self, settings: GatewaySettings, board: Board | None = None, show: Callable[[], None] = lambda: None
    ) -> None:
        """``board`` is that of all workers, and ``show`` shows there what this one has."""
        keys, responses = settings.keys, settings.responses
        self.database = database = Database(settings.database or _IN_MEMORY)
        self.cache = KeyCache(database, max_age=keys.max_age, max_outage=keys.max_outage)
        alerts = self.alerts = None if settings.alerts is None else Alerts(settings.alerts)
        limits = Limits((), url=keys.counters, name=keys.counters_name, max_wait=keys.max_wait)
        watch = None
        if alerts is not None:
            watch = Watch(alerts.settings.at, lambda scope: self.cache.allowance_of(scope).budgets, alerts.send)
        ledger = Ledger(database, watch=watch)
        self.admission = Admission(
            self.cache,
            ledger,
            Rates(limits),
            output_cap=keys.reserve_output,
            charges_failures=keys.charge_failed,
            concurrency=None if keys.concurrency is None else Concurrency(keys.concurrency),
            report=None if alerts is None else alerts.send,
        )
        self.shares = Shares()
        self.owned = OwnedIds(database, shared=keys.shared_ids)
        self.responses = ResponseStore(
            database,
            lifetime=timedelta(days=responses.days),
            max_late=settings.max_unstored,
            others_are_late=lambda: board is not None and any(board.waiting("response")),
            show=show,
        )
        self.labels = ConversationLabels(database, lifetime=timedelta(days=responses.days))
        self.keeps = responses.keep
        self.background = Background(
            self.responses,
            max_runs=responses.max_background,
            share=settings.share,
            ping_seconds=settings.ping_seconds,
        )
        self.states = (
            None if settings.database is None else CallState(database, lifetime=timedelta(days=responses.state_days))
        )

    def access(self, settings: GatewaySettings) -> Access:
        """Return the access that the settings describe: keys are checked as soon as one was ever created."""
        keyed = KeyAccess(self.cache, self.admission)
        if settings.keys.required:
            return keyed
        # Once a key was seen, the database need not be asked.
        if settings.database is not None and (self.cache.knows_keys or has_keys(self.database)):
            return keyed
        rules = page_rules(settings)
        return OpenAccess(rules) if settings.database is None else OpenUntilKeys(self.cache, keyed, rules)

    def status(self) -> Status:
        """Return what of the services a status shows."""
        admission, busy = self.admission, dict[str, dict[str, int]]()
        for (lane, wait), number in sorted(self.database.busy.items()):
            busy.setdefault(lane.value, {})[wait] = number
        dropped = {
            "spend": admission.ledger.dropped,
            "response": self.responses.dropped,
            "state": 0 if self.states is None else self.states.dropped,
            "id": self.owned.dropped,
            "limit": admission.rates.uncounted,
            "budget": admission.unbudgeted,
            "alert": 0 if self.alerts is None else self.alerts.dropped,
        }
        return Status(
            estimated=admission.estimated,
            dropped=dropped,
            available={"database": not self.database.outage.is_away, "counters": not admission.rates.outage.is_away},
            waiting={"spend": admission.ledger.queued, "response": len(self.responses.late)},
            busy=busy,
        )

    async def close(self) -> None:
        """Store what waits, and close what was opened. All requests and background runs have ended."""
        self.shares.close()
        await self.responses.close()
        await self.admission.ledger.close()
        if self.alerts is not None:
            await self.alerts.close()
        await self.admission.rates.close()
        await asyncio.to_thread(self.database.close)


@dataclass(slots=True)
class RequestServices:
    """The services for one request: what it may name, the history before it, and what of its reply is stored."""

    services: Services
    client: AsyncClient
    """Its policy judges what is stored."""
    share: Share
    stored: StoredTurn | None = field(default=None, init=False)
    state: RequestState | None = field(default=None, init=False)
    _made: frozenset[str] = field(default=frozenset(), init=False)
    """The ids that the reply has named so far."""
    _threads: bool = field(default=False, init=False)
    _items: bool = field(default=False, init=False)

    async def prepare(self, request: ClientRequest) -> ClientRequest:
        """Return the request as the model gets it. Raises InvalidRequestError for an id of another key, and
        UnavailableError if that cannot be checked.
        """
        services, caller, fields, share = self.services, request.caller, request.fields, self.share
        settings = share.settings
        self._threads = "thread" in fields
        is_responses = request.wire.name == "responses"
        if caller.key_id is not None:
            named = await share.work(len(request.body), partial(_find_names, request, services.owned))
            await services.owned.check(caller, named)
        if request.wire.stores_state and services.states is not None:
            self.state = RequestState()
        items = fields.get("input") if is_responses else None
        is_kept = (services.keeps and fields.get("store") is not False) or fields.get("background") is True
        refers = fields.get("previous_response_id") is not None
        refers = refers or (isinstance(items, list) and any(map(is_reference, items)))
        if is_responses and (is_kept or refers):
            room = ExpansionLimit()
            if refers:
                own = await share.work(len(request.body), lambda: count_values(request.body))
                room = ExpansionLimit(max(0, settings.body_cap - len(request.body)), max(0, settings.max_values - own))
            stored = self.stored = await read_turn(
                fields, caller.owner, services.responses, keeps=services.keeps, room=room
            )
            if stored.is_changed:
                body = await share.work(settings.body_cap, lambda: dumps(stored.fields))
                share.hold(len(body))
                request = replace(request, fields=stored.fields, body=body)
        self._items = is_responses and (self.stored is None or not self.stored.store)
        return request

    async def load_state(self, caller: Caller) -> bool:
        """Load the state that the request needs. Returns whether it has to be read again."""
        state, states = self.state, self.services.states
        return state is not None and states is not None and await states.load(state, caller.owner)

    def recording(self, request: ClientRequest, send: Send) -> Send:
        """Return what the reply goes through on its way to the client."""
        if self.stored is not None and not self.stored.background:
            send = Recorder(send, self.stored, self.services.responses, self.judge(request))
        if self.state is not None:
            send = self._storing(self.state, request.caller, send)
        return send if request.caller.key_id is None else self._noting_ids(request.caller, send)

    def judge(self, request: ClientRequest) -> Callable[[StoredResponse], Awaitable[StoredResponse]] | None:
        """Return what judges a response before it is stored; None without a policy."""
        config = self.client.config
        if config.policy is None:
            return None
        extensions = policy_extensions(config.extensions, request.caller, request.request_id, request.headers)
        policy, record = config.policy, request.record
        return lambda stored: judge_stored(stored, policy, extensions, record.asked or record.model)

    def _storing(self, state: RequestState, caller: Caller, send: Send) -> Send:
        """Return what stores the state that the reply added before its bytes are sent."""
        states = self.services.states
        assert states is not None

        async def store_and_send(message: Message) -> None:
            await states.store(state, caller.owner)
            state.written = {}
            await send(message)

        return lambda message: store_and_send(message) if state.written else send(message)

    def _noting_ids(self, caller: Caller, send: Send) -> Send:
        """Return what notes the owner of the ids that the reply names before its bytes are sent."""
        threads, items = self._threads, self._items

        async def note_and_send(message: Message) -> None:
            made = find_made_ids(message["body"], threads=threads, items=items)
            if new := {each: kind for each, kind in made.items() if each not in self._made}:
                self._made |= new.keys()
                await self.services.owned.record(caller, new)
            await send(message)

        may_name = partial(may_name_ids, threads=threads, items=items) if threads or items else may_name_ids
        return lambda message: note_and_send(message) if may_name(message.get("body", b"")) else send(message)


def page_rules(settings: GatewaySettings) -> PageRules:
    """Return the rules by which a gateway without keys recognizes pages of other sites."""
    return PageRules((settings.host, *settings.allowed_hosts), settings.allowed_origins)


def requires_keys(settings: GatewaySettings) -> bool:
    """Whether a gateway with these settings checks keys."""
    if settings.keys.required or settings.database is None:
        return settings.keys.required
    with closing(Database(settings.database)) as database:
        return has_keys(database)


def has_keys(database: Database) -> bool:
    """Whether a key was ever created."""

    query = select(keys_table.c.id).limit(1)
    return database.run(lambda connection: connection.execute(query).first() is not None, writes=False)


def check_caller(caller: Caller, endpoint: str) -> None:
    """Raise PermissionDeniedError if the caller may not use an endpoint that calls models."""
    if caller.admin:
        raise DeniedError("an admin key cannot call models: use another key")
    if caller.endpoints and endpoint not in caller.endpoints:
        raise DeniedError(f"this key may not use {endpoint}")


def _find_names(request: ClientRequest, owned: OwnedIds) -> dict[str, str]:
    """Return the ids that a request of a key names. Raises ClientError if it writes a field in two ways."""
    check_spelling(request.fields, request.wire.name)
    items = unresolved_items(request.fields) if request.wire.name == "responses" else None
    return owned.find(request.fields, items)
