"""Keeps the keys in memory: each request is checked without the database, and a change takes effect within seconds."""

import asyncio
import time
from collections.abc import Callable

from dragoman.errors import ConfigurationError, OverloadedError
from dragoman.logs import get_logger
from dragoman_gateway.access import Caller
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.keys.key_store import Changes, read_changes
from dragoman_gateway.keys.records import NO_ALLOWANCE, Allowance, VirtualKey

logger = get_logger("dragoman.gateway")

_REFRESH_AFTER = 1.0
"""The age in seconds above which a copy is refreshed while the request continues."""
_MIN_AGE = 0.25
"""Seconds between two reads for unknown keys, so that wrong keys cannot load the database: their requests wait."""
_READS = 2
"""How often the database is read for an unknown key: the first read may have begun before the key was created."""
_RETRY_AFTER = 5.0


class KeyCache:
    """``max_age`` is the number of seconds after which a request waits for a fresh copy, and thus how long a revoked
    key may work on another replica. ``max_outage`` is the number of seconds for which the last copy is used while the
    database does not answer; after that, all keys are refused.
    """

    def __init__(
        self,
        database: Database,
        *,
        max_age: float = 3.0,
        max_outage: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not _REFRESH_AFTER <= max_age <= max_outage:
            raise ConfigurationError("max_age must be at least 1 second, and at most max_outage")
        self._database = database
        self._max_age = max_age
        self._max_outage = max_outage
        self._clock = clock
        self._keys: dict[str, VirtualKey] = {}
        self._allowances: dict[str, Allowance] = {}
        self._revision = -1
        self._read_at: float | None = None
        self._refresh_task: asyncio.Task[None] | None = None

    @property
    def age(self) -> float | None:
        """Seconds since the database was last read; None if it never was."""
        return None if self._read_at is None else self._clock() - self._read_at

    @property
    def knows_keys(self) -> bool:
        """Whether the copy has a key."""
        return bool(self._keys)

    async def find(self, key_id: str) -> VirtualKey | None:
        """Return a key. Raises OverloadedError if the database has not answered for too long."""
        asked_at = self._clock()
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
        key = self._keys.get(caller.key_id or "")
        found = {} if key is None else {f"key:{key.id}": key.allowance}
        for kind, name in (("user", caller.user), ("team", caller.team)):
            allowance = self._allowances.get(f"{kind}:{name}") or self._allowances.get(f"{kind}:*")
            if name is not None and allowance is not None:
                found[f"{kind}:{name}"] = allowance
        return found

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
        task = self._refresh_task
        if task is None or task.done():
            task = self._refresh_task = asyncio.create_task(self._refresh())
            task.add_done_callback(_ignore_failure)
        await asyncio.shield(task)

    async def _refresh(self) -> None:
        started = self._clock()
        changes: Changes = await self._database.read(lambda connection: read_changes(connection, self._revision))
        for key in changes.keys:
            self._keys[key.id] = key
        for scope, allowance in changes.allowances.items():
            if allowance is None:
                self._allowances.pop(scope, None)
            else:
                self._allowances[scope] = allowance
        self._revision = changes.revision
        self._read_at = started  # what changed during the read may be missing

    async def _ensure_fresh(self) -> None:
        age = self.age
        if age is None or age > self._max_age:
            await self._refresh_or_keep()
        elif age > _REFRESH_AFTER and (self._refresh_task is None or self._refresh_task.done()):
            self._refresh_task = asyncio.create_task(self._refresh())
            self._refresh_task.add_done_callback(_ignore_failure)

    async def _refresh_or_keep(self) -> None:
        try:
            await self.refresh()
        except DatabaseUnavailableError as error:
            age = self.age
            if age is None or age > self._max_outage:
                raise OverloadedError(
                    "keys cannot be checked at the moment", status=503, retry_after=_RETRY_AFTER
                ) from None
            logger.debug("keys are checked against a copy of %.0f s ago: %s", age, error)


def _ignore_failure(task: "asyncio.Task[None]") -> None:
    """Retrieve the exception: a request that needs a fresh copy reads again, and reports it."""
    if not task.cancelled():
        task.exception()
