"""State of providers by tool call or by reply, for clients whose wire has no field for it, or none after the text.

Adapters read and write it with ordinary calls, and do no I/O. So a request is read twice if it names calls: the first
reading notes which state it needs, and the second one has it. What a reply adds is stored before its client can send it
back.
"""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, select

from dragoman.logs import get_logger
from dragoman.sql import insert_into
from dragoman_gateway.database import Database, DatabaseUnavailableError, Lane
from dragoman_gateway.database.tables import call_state
from dragoman_gateway.keys.records import to_microseconds

logger = get_logger("dragoman.gateway")


class RequestState:
    """The state of one request. Implements `dragoman.answers.StateStore`."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        """The keys that were asked for, and are not here."""
        self.written: dict[str, bytes] = {}
        self.found: dict[str, bytes] = {}

    def put(self, key: str, state: bytes) -> None:
        self.written[key] = state

    def get(self, key: str) -> bytes | None:
        state = self.written.get(key) or self.found.get(key)
        if state is None:
            self.missing.append(key)
        return state


class CallState:
    """State in the gateway's database, for all replicas. ``lifetime`` is how long it is kept after it was written."""

    def __init__(
        self,
        database: Database,
        *,
        lifetime: timedelta = timedelta(days=1),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._lifetime = lifetime
        self._clock = clock
        self.dropped = 0
        """States that are not stored, because the database did not answer."""

    async def load(self, state: RequestState, owner: str) -> bool:
        """Fill in the state that was missing. Returns whether there is any: the request is to be read again."""
        wanted = {_key(owner, each): each for each in state.missing}
        state.missing = []
        if not wanted:
            return False
        now = to_microseconds(self._clock())
        query = select(call_state.c.key, call_state.c.state).where(
            call_state.c.key.in_(list(wanted)), call_state.c.expires_at > now
        )
        try:
            rows = await self._database.read(lambda connection: connection.execute(query).all(), Lane.RESPONSES)
        except DatabaseUnavailableError as error:  # the adapter reports the loss
            logger.debug("state of tool calls cannot be read: %s", error)
            return False
        for row in rows:
            state.found[wanted[row.key]] = bytes(row.state)
        return bool(rows)

    async def store(self, state: RequestState, owner: str) -> None:
        """Store what a reply added. A failure is only counted, because the reply matters more than its state."""
        if not state.written:
            return
        until = to_microseconds(self._clock() + self._lifetime)
        rows = [{"key": _key(owner, key), "state": each, "expires_at": until} for key, each in state.written.items()]

        def work(connection: Connection) -> None:
            added = insert_into(connection, call_state).values(rows)
            new = {"state": added.excluded.state, "expires_at": added.excluded.expires_at}
            connection.execute(added.on_conflict_do_update(index_elements=["key"], set_=new))

        try:
            await self._database.write(work, Lane.RESPONSES)
        except DatabaseUnavailableError as error:
            self.dropped += len(rows)
            logger.debug("state of tool calls is not stored (%d so far): %s", self.dropped, error)


def _key(owner: str, key: str) -> str:
    """Return the key of a row: one key of the gateway cannot reach the state of another."""
    return hashlib.sha256(f"{owner}\n{key}".encode()).hexdigest()
