"""What is kept by tool call or by reply: the state of providers, and the security labels of conversations.

State is for clients whose wire has no field for it, or none after the text. Adapters read and write it with ordinary
calls, and do no I/O. So a request is read twice if it names calls: the first reading notes which state it needs, and
the second one has it. What a reply adds is stored before its client can send it back.

Labels are kept by tool call, and by the content of each block. Never by a prefix: agents edit what they send again.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from sqlalchemy import Connection, select, update

from dragoman.sql import insert_into
from dragoman_gateway.database import Database, DatabaseUnavailableError, Lane
from dragoman_gateway.database.tables import call_state
from dragoman_gateway.errors import UnavailableError
from dragoman_gateway.keys.records import to_microseconds
from dragoman_gateway.log import logger
from dragoman_gateway.turn.recall import ALL


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

    def __init__(self, database: Database, *, lifetime: timedelta) -> None:
        self._database = database
        self._lifetime = lifetime
        self.dropped = 0
        """States that are not stored, because the database did not answer."""

    async def load(self, state: RequestState, owner: str) -> bool:
        """Fill in the state that was missing. Returns whether there is any: the request is to be read again."""
        wanted = {_row_key(owner, each): each for each in state.missing}
        state.missing = []
        if not wanted:
            return False
        try:
            found = await _read_rows(self._database, wanted)
        except DatabaseUnavailableError as error:  # the adapter reports the loss
            logger.debug("state of tool calls cannot be read: %s", error)
            return False
        state.found |= found
        return bool(found)

    async def store(self, state: RequestState, owner: str) -> None:
        """Store what a reply added. A failure is only counted, because the reply matters more than its state."""
        if not state.written:
            return
        until = to_microseconds(datetime.now(UTC) + self._lifetime)
        rows = [
            {"key": _row_key(owner, key), "state": each, "expires_at": until} for key, each in state.written.items()
        ]

        def work(connection: Connection) -> None:
            added = insert_into(connection, call_state).values(rows)
            new = {"state": added.excluded.state, "expires_at": added.excluded.expires_at}
            connection.execute(added.on_conflict_do_update(index_elements=["key"], set_=new))

        try:
            await self._database.write(work, Lane.RESPONSES)
        except DatabaseUnavailableError as error:
            self.dropped += len(rows)
            logger.debug("state of tool calls is not stored (%d so far): %s", self.dropped, error)


def _row_key(owner: str, key: str) -> str:
    """Return the key of a row: one key of the gateway cannot reach what belongs to another."""
    return hashlib.sha256(f"{owner}\n{key}".encode()).hexdigest()


async def _read_rows(database: Database, wanted: Mapping[str, str]) -> dict[str, bytes]:
    """Return what is kept in some rows, by the names that ``wanted`` has for their keys. Raises
    DatabaseUnavailableError."""
    query = select(call_state.c.key, call_state.c.state).where(
        call_state.c.key.in_(list(wanted)), call_state.c.expires_at > to_microseconds(datetime.now(UTC))
    )
    rows = await database.read(lambda connection: connection.execute(query).all(), Lane.RESPONSES)
    return {wanted[row.key]: bytes(row.state) for row in rows}


_LABELS = "labels\n"
"""What the names of rows with labels begin with."""


class ConversationLabels:
    """Labels in the gateway's database, for all replicas. ``lifetime`` is how long they are kept after they were noted.

    Both methods raise UnavailableError if the database does not answer: a conversation continues with its labels or not
    at all.
    """

    def __init__(self, database: Database, *, lifetime: timedelta) -> None:
        self._database = database
        self._lifetime = lifetime

    async def find(self, owner: str, keys: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the labels of the keys that are known; some have none."""
        wanted = {_row_key(owner, f"{_LABELS}{key}"): key for key in keys}
        try:
            found = await _read_rows(self._database, wanted)
        except DatabaseUnavailableError:
            raise _unavailable() from None
        return {key: _read(state) for key, state in found.items()}

    async def note(self, owner: str, keys: Collection[str], labels: frozenset[str]) -> None:
        """Add labels to these keys. Keys without labels become known."""
        if not keys:
            return
        until = to_microseconds(datetime.now(UTC) + self._lifetime)
        rows = sorted({_row_key(owner, f"{_LABELS}{key}") for key in (*keys, *((ALL,) if labels else ()))})

        def work(connection: Connection) -> None:
            new = [{"key": key, "state": b"[]", "expires_at": until} for key in rows]
            connection.execute(
                insert_into(connection, call_state).values(new).on_conflict_do_nothing(index_elements=["key"])
            )
            locked = select(call_state.c.key, call_state.c.state).where(call_state.c.key.in_(rows)).with_for_update()
            for row in connection.execute(locked.order_by(call_state.c.key)).all():
                state = json.dumps(sorted(_read(bytes(row.state)) | labels)).encode()
                changed = update(call_state).where(call_state.c.key == row.key)
                connection.execute(changed.values(state=state, expires_at=until))

        try:
            await self._database.write(work, Lane.RESPONSES)
        except DatabaseUnavailableError:
            raise _unavailable() from None


@lru_cache(maxsize=256)  # most of the many rows of a conversation have the same
def _read(state: bytes) -> frozenset[str]:
    return frozenset(map(str, json.loads(state)))


def _unavailable() -> UnavailableError:
    return UnavailableError("the labels of conversations cannot be read at the moment: try again", retry_after=5)
