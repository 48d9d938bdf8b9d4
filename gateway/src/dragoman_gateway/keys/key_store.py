"""The stored keys and allowances. Commands change them with `KeyStore`, whose calls block.

Requests use `KeyCache`, which keeps the keys in memory: each request is checked without the database, and a change
takes effect within seconds.
"""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from dragoman.errors import ConfigurationError
from dragoman_gateway.access import Caller
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.database.tables import allowances, counters, keys
from dragoman_gateway.errors import overloaded
from dragoman_gateway.keys.records import NO_ALLOWANCE, Allowance, VirtualKey, check_name
from dragoman_gateway.keys.secrets import new_secret
from dragoman_gateway.log import logger

_REVISION = "revision"


class KeyStore:
    def __init__(self, database: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._clock = clock

    def create(self, **fields: Any) -> tuple[VirtualKey, str]:
        """Store a new key with these fields, and return it with its secret, which is stored nowhere. Raises
        ConfigurationError."""
        key_id, secret, digest = new_secret()
        key = VirtualKey(id=key_id, digest=digest, created_at=self._clock(), **fields)
        key.check()
        if not key.is_active(key.created_at):
            raise ConfigurationError("the key would have expired already")
        self._database.run(
            lambda connection: connection.execute(
                insert(keys).values(**key.to_row(), revision=_next_revision(connection))
            )
        )
        return key, secret

    def all(self) -> tuple[VirtualKey, ...]:
        """Return all keys, the newest first."""
        query = select(keys).order_by(keys.c.created_at.desc(), keys.c.id)
        rows = self._database.run(lambda connection: connection.execute(query).mappings().all(), writes=False)
        return tuple(map(VirtualKey.from_row, map(dict, rows)))

    def find(self, id_or_name: str) -> VirtualKey:
        """Return a key by its id, or by its name if only one has it. Raises ConfigurationError."""
        found = [key for key in self.all() if id_or_name in (key.id, key.name)]
        if len(found) != 1:
            why = "several keys have that name" if found else "there is no such key"
            raise ConfigurationError(f"{why}: dragoman gateway keys list shows the ids of all keys")
        return found[0]

    def revoke(self, id_or_name: str) -> VirtualKey:
        """Revoke a key for good. Every replica refuses it after `KeyCache.max_age` at the latest."""
        key = self.find(id_or_name)
        return self._update(replace(key, revoked_at=key.revoked_at or self._clock(), old_digest=None))

    def rotate(self, id_or_name: str, *, grace_until: datetime | None = None) -> tuple[VirtualKey, str]:
        """Give a key a new secret, and return both. The old secret works until ``grace_until``, and no longer if that
        is None.
        """
        key = self.find(id_or_name)
        if not key.is_active(self._clock()):
            raise ConfigurationError("the key is revoked or has expired: create another one")
        _, secret, digest = new_secret(key.id)
        old_digest = None if grace_until is None else key.digest
        return self._update(replace(key, digest=digest, old_digest=old_digest, old_until=grace_until)), secret

    def set_allowance(self, scope: str, allowance: Allowance | None) -> None:
        """Set the budgets and limits of ``user:NAME``, ``team:NAME``, or of each with ``user:*`` and ``team:*``. None
        removes them.
        """
        kind, separator, name = scope.partition(":")
        if kind not in ("user", "team") or not separator:
            raise ConfigurationError(f"write team:NAME, user:NAME, team:* or user:*, not {scope!r:.60}")
        if name != "*":
            check_name(kind, name)
        fields = None if allowance is None else json.dumps(allowance.to_json(), sort_keys=True)

        def work(connection: Connection) -> None:
            revision = _next_revision(connection)
            connection.execute(delete(allowances).where(allowances.c.scope == scope))
            connection.execute(insert(allowances).values(scope=scope, fields_json=fields, revision=revision))

        self._database.run(work)

    def allowances(self) -> dict[str, Allowance]:
        """Return the allowances of users and teams by their scope."""
        _, _, changed = self._database.run(lambda connection: read_changes(connection, -1), writes=False)
        return {scope: allowance for scope, allowance in sorted(changed.items()) if allowance is not None}

    def _update(self, key: VirtualKey) -> VirtualKey:
        row = key.to_row()

        def work(connection: Connection) -> None:
            statement = update(keys).where(keys.c.id == key.id)
            connection.execute(statement.values(**row, revision=_next_revision(connection)))

        self._database.run(work)
        return key


def read_changes(connection: Connection, after: int) -> tuple[int, tuple[VirtualKey, ...], dict[str, Allowance | None]]:
    """Return the present revision, and the keys and allowances that changed after another one. An allowance of None was
    removed."""
    revision = connection.execute(select(counters.c.value).where(counters.c.name == _REVISION)).scalar_one()
    if revision == after:
        return revision, (), {}
    key_rows = connection.execute(select(keys).where(keys.c.revision > after)).mappings().all()
    allowance_rows = connection.execute(select(allowances).where(allowances.c.revision > after)).mappings().all()
    changed = {
        row["scope"]: None if row["fields_json"] is None else Allowance.from_json(json.loads(row["fields_json"]))
        for row in allowance_rows
    }
    return revision, tuple(VirtualKey.from_row(dict(row)) for row in key_rows), changed


def _next_revision(connection: Connection) -> int:
    """Return the next revision. The row stays locked until the transaction ends, so revisions appear in order."""
    statement = update(counters).where(counters.c.name == _REVISION).values(value=counters.c.value + 1)
    return int(connection.execute(statement.returning(counters.c.value)).scalar_one())


_REFRESH_AFTER = 1.0
"""The age in seconds above which a copy is refreshed while the request continues."""
_MIN_AGE = 0.25
"""Seconds between two reads for unknown keys, so that wrong keys cannot load the database: their requests wait."""
_READS = 2
"""How often the database is read for an unknown key: the first read may have begun before the key was created."""


@dataclass(eq=False)
class KeyCache:
    """A copy of all keys and allowances, in memory."""

    database: Database
    max_age: float = 3.0
    """The seconds after which a request waits for a fresh copy, and thus how long a revoked key may work on another
    replica."""
    max_outage: float = 300.0
    """The seconds for which the last copy is used while the database does not answer; after that, all keys are
    refused."""
    clock: Callable[[], float] = time.monotonic
    _keys: dict[str, VirtualKey] = field(default_factory=dict, init=False)
    _allowances: dict[str, Allowance] = field(default_factory=dict, init=False)
    _revision: int = field(default=-1, init=False)
    _read_at: float | None = field(default=None, init=False)
    _refresh_task: "asyncio.Task[None] | None" = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not _REFRESH_AFTER <= self.max_age <= self.max_outage:
            raise ConfigurationError("max_age must be at least 1 second, and at most max_outage")

    @property
    def age(self) -> float | None:
        """Seconds since the database was last read; None if it never was."""
        return None if self._read_at is None else self.clock() - self._read_at

    @property
    def knows_keys(self) -> bool:
        """Whether the copy has a key."""
        return bool(self._keys)

    async def find(self, key_id: str) -> VirtualKey | None:
        """Return a key. Raises OverloadedError if the database has not answered for too long."""
        asked_at = self.clock()
        await self._ensure_fresh()
        for _ in range(_READS):
            if key_id in self._keys or self._read_at is None or self._read_at >= asked_at:
                break
            await asyncio.sleep(max(0.0, _MIN_AGE - (asked_at - self._read_at)))
            await self._refresh_or_keep()  # it may have just been created
        return self._keys.get(key_id)

    async def has_keys(self) -> bool:
        """Whether a key was ever created. Raises OverloadedError as `find` does."""
        if not self._keys:
            await self._ensure_fresh()
        return bool(self._keys)

    def allowances_for(self, caller: Caller) -> dict[str, Allowance]:
        """Return the allowances of the caller's key, user and team, by their scope."""
        return {scope: self.allowance_of(scope) for scope in caller.scopes}

    def allowance_of(self, scope: str) -> Allowance:
        """Return the allowance of ``key:ID``, ``user:NAME`` or ``team:NAME``."""
        kind, _, name = scope.partition(":")
        if kind == "key":
            key = self._keys.get(name)
            return NO_ALLOWANCE if key is None else key.allowance
        return self._allowances.get(scope) or self._allowances.get(f"{kind}:*") or NO_ALLOWANCE

    def all_allowances(self) -> dict[str, Allowance]:
        """Return the allowances of all keys, and of all users and teams that have one of their own."""
        own = {scope: each for scope, each in self._allowances.items() if not scope.endswith(":*")}
        return {**{f"key:{key.id}": key.allowance for key in self._keys.values()}, **own}

    async def refresh(self) -> None:
        """Read what changed. Concurrent calls read once. Raises DatabaseUnavailableError."""
        await asyncio.shield(self._begin_refresh())

    def _begin_refresh(self) -> "asyncio.Task[None]":
        task = self._refresh_task
        if task is None or task.done():
            task = self._refresh_task = asyncio.create_task(self._refresh())
            # A request that needs a fresh copy reads again, and reports the failure.
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return task

    async def _refresh(self) -> None:
        started = self.clock()
        found = await self.database.read(lambda connection: read_changes(connection, self._revision))
        self._revision, changed_keys, changed = found
        self._keys |= {key.id: key for key in changed_keys}
        for scope, allowance in changed.items():
            if allowance is None:
                self._allowances.pop(scope, None)
            else:
                self._allowances[scope] = allowance
        self._read_at = started  # what changed during the read may be missing

    async def _ensure_fresh(self) -> None:
        age = self.age
        if age is None or age > self.max_age:
            await self._refresh_or_keep()
        elif age > _REFRESH_AFTER:
            self._begin_refresh()

    async def _refresh_or_keep(self) -> None:
        try:
            await self.refresh()
        except DatabaseUnavailableError as error:
            age = self.age
            if age is None or age > self.max_outage:
                raise overloaded("keys cannot be checked at the moment") from None
            logger.debug("keys are checked against a copy of %.0f s ago: %s", age, error)
