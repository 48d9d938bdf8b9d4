"""What the page shows: the gateway's own counts, the spend of its keys, and the replies and sessions of the store."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice

from sqlalchemy import Connection, select

from dragoman import Message
from dragoman.store import SessionRecord, Store, StoreError
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.database.tables import keys, spend
from dragoman_gateway.keys.ledger import Statement
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.running.metrics import Figures, Metrics, Running

MAX_REPLIES = 20_000
"""The most replies of the store that one page reads: more would slow the requests of the process down."""
MAX_SESSIONS = 50
_STORE_SECONDS = 10.0
"""How long a page waits for the store: the rest of the page is more important."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Spend:
    """What was spent. ``usd`` is None if no cost is known; ``unpriced`` counts replies without a known cost."""

    usd: Decimal | None = None
    tokens: int = 0
    number: int = 0
    unpriced: int = 0
    estimated_usd: Decimal = Decimal(0)
    """The part of ``usd`` that is an estimate: of replies that were left, or whose price is unknown."""

    def add(self, usd: Decimal | None, tokens: int, number: int = 1) -> None:
        self.tokens += tokens
        self.number += number
        if usd is None:
            self.unpriced += number
        else:
            self.usd = usd if self.usd is None else self.usd + usd


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store has: the spend of its replies by model and by day, and the sessions that were used last."""

    by_model: Mapping[str, Spend] = field(default_factory=dict)
    by_day: Mapping[str, Spend] = field(default_factory=dict)
    complete: bool = True
    """Whether all replies of the time were read."""
    sessions: Sequence[SessionRecord] = ()
    next_page: str | None = None


@dataclass(frozen=True, slots=True)
class Failures:
    """How often a model of a provider returned an error. Both names are empty if no model was reached."""

    provider: str
    model: str
    error: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that the page shows. None: the gateway does not have it, or its source does not answer now."""

    now: datetime
    since: datetime
    """When the first of its workers began to count."""
    days: int
    total: Figures
    by_model: Mapping[str, Figures]
    by_key: Mapping[str, Figures]
    by_day: Mapping[str, Figures]
    running: Sequence[Running]
    failures: Sequence[Failures] = ()
    dropped: Mapping[str, int]
    workers: Mapping[str, str] = field(default_factory=dict)
    """The version of the configuration that each worker has."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """What waits to be stored, by kind."""
    spent: Mapping[str, Spend] | None = None
    """What keys, users and teams have spent, by their scope."""
    spent_by_day: Mapping[str, Spend] = field(default_factory=dict)
    """What all keys have spent, by day."""
    budgets: Mapping[str, Statement] = field(default_factory=dict)
    """What is reserved of their budgets now, over all replicas, and what is left."""
    key_names: Mapping[str, str] = field(default_factory=dict)
    stored: Stored | None = None
    store_is_away: bool = False


async def make_report(gateway: Gateway, days: int, cursor: str | None) -> Report:
    """Return the report of the last days, today included. Raises StoreError for an invalid cursor."""
    status, metrics, now = gateway.whole_status(), Metrics(), datetime.now(UTC)
    metrics.add(status.metrics)
    first = (now - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    spent, spent_by_day, names = await _read_spend(gateway.services.database, (first - _EPOCH).days)
    store, behind = gateway.current.client.config.store, gateway.current.deferred_store
    stored = None
    if isinstance(store, Store) and (behind is None or behind.is_available):
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                stored = await asyncio.to_thread(read_store, store, first, cursor)
        except TimeoutError:
            pass
        except StoreError as error:
            if error.__cause__ is None:  # the database's own errors have one
                raise
    budgets: Mapping[str, Statement] = {}
    if spent is not None:
        services = gateway.services
        bounded = {scope: each.budgets for scope, each in services.cache.all_allowances().items() if each.budgets}
        with suppress(DatabaseUnavailableError):
            budgets = await services.admission.ledger.statements(bounded)
    return Report(
        now=now,
        since=metrics.since,
        days=days,
        total=metrics.total(),
        by_model=metrics.by("model"),
        by_key=metrics.by("key_id"),
        by_day=metrics.by("day"),
        running=sorted(status.running, key=lambda each: -each.seconds),
        workers=status.workers,
        waiting={kind: number for kind, number in status.waiting.items() if number},
        dropped={kind: number for kind, number in status.dropped.items() if number},
        failures=failures_of(metrics),
        spent=spent,
        spent_by_day=spent_by_day,
        budgets=budgets,
        key_names=names,
        stored=stored,
        store_is_away=stored is None and isinstance(store, Store),
    )  # fmt: skip


def failures_of(metrics: Metrics) -> list[Failures]:
    """Return the errors by provider and model, the most frequent of each first."""
    found: list[Failures] = []
    for name, figures in metrics.by("model").items():
        provider, colon, model = name.partition(":")
        ours = (provider, model) if colon else ("", name)
        found += [Failures(*ours, error, number) for error, number in figures.failures.most_common()]
    return found


def read_store(store: Store, since: datetime, cursor: str | None) -> Stored:
    """Return what the store has from that moment on."""
    page = store.list(limit=MAX_SESSIONS, cursor=cursor)
    by_model: dict[str, Spend] = {}
    by_day: dict[str, Spend] = {}
    replies = store.billed_replies(since=since)
    for reply in islice(replies, MAX_REPLIES):
        _add(by_model, reply.metadata.model or "", reply)
        _add(by_day, reply.created_at.astimezone(UTC).date().isoformat(), reply)
    complete = next(replies, None) is None
    return Stored(_sorted(by_model), _sorted(by_day), complete, page.sessions, page.cursor)


def _add(groups: dict[str, Spend], name: str, reply: Message) -> None:
    usage = reply.usage
    group = groups.setdefault(name, Spend())
    if usage is None:
        group.add(None, 0)
    else:
        group.add(usage.cost_usd, usage.total_tokens)


def _sorted(groups: Mapping[str, Spend]) -> dict[str, Spend]:
    return {name: groups[name] for name in sorted(groups)}


async def _read_spend(
    database: Database, first_day: int
) -> tuple[dict[str, Spend] | None, dict[str, Spend], dict[str, str]]:
    """Return what each scope has spent since a day, what all keys have spent by day, and the names of keys; None and
    nothing if the database does not answer."""

    def work(connection: Connection) -> tuple[dict[str, Spend], dict[str, Spend], dict[str, str]]:
        query = select(spend.c.scope, spend.c.day, spend.c.usd, spend.c.tokens, spend.c.requests, spend.c.estimated_usd)
        found: dict[str, Spend] = {}
        by_day: dict[str, Spend] = {}
        for row in connection.execute(query.where(spend.c.day >= max(first_day, 1)).order_by(spend.c.scope)):
            spent = found.setdefault(row.scope, Spend())
            spent.add(row.usd, row.tokens, row.requests)
            spent.estimated_usd += row.estimated_usd
            if row.scope.startswith("key:"):  # users and teams have spent the same
                day = (_EPOCH + timedelta(days=row.day)).date().isoformat()
                by_day.setdefault(day, Spend()).add(row.usd, row.tokens, row.requests)
        names = connection.execute(select(keys.c.id, keys.c.name).where(keys.c.name.is_not(None)))
        return found, _sorted(by_day), {row.id: row.name for row in names}

    try:
        return await database.read(work)
    except DatabaseUnavailableError:
        return None, {}, {}
