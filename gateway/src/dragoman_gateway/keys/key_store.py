"""The stored keys and allowances, and the changes of them. All calls block: commands use them, not requests."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from dragoman.errors import ConfigurationError
from dragoman_gateway.database import Database
from dragoman_gateway.database.tables import allowances, counters, keys
from dragoman_gateway.keys.records import (
    NO_ALLOWANCE,
    Allowance,
    VirtualKey,
    check_endpoints,
    check_name,
    check_patterns,
)
from dragoman_gateway.keys.secrets import new_secret

_REVISION = "revision"


@dataclass(frozen=True, slots=True)
class Changes:
    """The keys and allowances that changed after a revision. An allowance of None was removed."""

    revision: int
    keys: tuple[VirtualKey, ...]
    allowances: dict[str, Allowance | None]


class KeyStore:
    def __init__(self, database: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._clock = clock

    def create(
        self,
        *,
        name: str | None = None,
        user: str | None = None,
        team: str | None = None,
        roles: tuple[str, ...] = (),
        permissions: tuple[str, ...] = (),
        models: tuple[str, ...] = (),
        endpoints: tuple[str, ...] = (),
        allowance: Allowance = NO_ALLOWANCE,
        admin: bool = False,
        expires_at: datetime | None = None,
    ) -> tuple[VirtualKey, str]:
        """Store a new key, and return it with its secret, which is stored nowhere. Raises ConfigurationError."""
        key_id, secret, digest = new_secret()
        now = self._clock()
        if expires_at is not None and expires_at <= now:
            raise ConfigurationError("the key would have expired already")
        key = VirtualKey(
            id=key_id,
            digest=digest,
            name=check_name("key", name),
            user=check_name("user", user),
            team=check_name("team", team),
            roles=roles,
            permissions=permissions,
            models=check_patterns(models),
            endpoints=check_endpoints(endpoints),
            allowance=allowance,
            admin=admin,
            created_at=now,
            expires_at=expires_at,
        )
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
        changes = self._database.run(lambda connection: read_changes(connection, -1), writes=False)
        return {scope: allowance for scope, allowance in sorted(changes.allowances.items()) if allowance is not None}

    def _update(self, key: VirtualKey) -> VirtualKey:
        row = key.to_row()

        def work(connection: Connection) -> None:
            statement = update(keys).where(keys.c.id == key.id)
            connection.execute(statement.values(**row, revision=_next_revision(connection)))

        self._database.run(work)
        return key


def read_changes(connection: Connection, after: int) -> Changes:
    """Return what changed after a revision."""
    revision = connection.execute(select(counters.c.value).where(counters.c.name == _REVISION)).scalar_one()
    if revision == after:
        return Changes(revision, (), {})
    key_rows = connection.execute(select(keys).where(keys.c.revision > after)).mappings().all()
    allowance_rows = connection.execute(select(allowances).where(allowances.c.revision > after)).mappings().all()
    return Changes(
        revision,
        tuple(VirtualKey.from_row(dict(row)) for row in key_rows),
        {row["scope"]: _read_allowance(row["fields_json"]) for row in allowance_rows},
    )


def _read_allowance(fields: str | None) -> Allowance | None:
    values: dict[str, Any] | None = None if fields is None else json.loads(fields)
    return None if values is None else Allowance.from_json(values)


def _next_revision(connection: Connection) -> int:
    """Return the next revision. The row stays locked until the transaction ends, so revisions appear in order."""
    statement = update(counters).where(counters.c.name == _REVISION).values(value=counters.c.value + 1)
    return int(connection.execute(statement.returning(counters.c.value)).scalar_one())
