"""Security labels of conversations that clients send again: by tool call, and by the content of each block.

Never by a prefix: agents edit what they send again. One key of the gateway cannot reach what belongs to another.
"""

import hashlib
import json
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from sqlalchemy import Connection, select, update

from dragoman.sql import insert_into
from dragoman_gateway.database import Database, DatabaseUnavailableError, Lane
from dragoman_gateway.database.tables import call_state
from dragoman_gateway.errors import UnavailableError
from dragoman_gateway.keys.records import to_microseconds
from dragoman_gateway.turn.recall import ALL


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
        wanted = {_row_key(owner, key): key for key in keys}
        query = select(call_state.c.key, call_state.c.state).where(
            call_state.c.key.in_(list(wanted)), call_state.c.expires_at > to_microseconds(datetime.now(UTC))
        )
        try:
            rows = await self._database.read(lambda connection: connection.execute(query).all(), Lane.RESPONSES)
        except DatabaseUnavailableError:
            raise _unavailable() from None
        return {wanted[row.key]: _read(bytes(row.state)) for row in rows}

    async def note(self, owner: str, keys: Collection[str], labels: frozenset[str]) -> None:
        """Add labels to these keys. Keys without labels become known."""
        if not keys:
            return
        until = to_microseconds(datetime.now(UTC) + self._lifetime)
        rows = sorted({_row_key(owner, key) for key in (*keys, *((ALL,) if labels else ()))})

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


def _row_key(owner: str, key: str) -> str:
    return hashlib.sha256(f"{owner}\nlabels\n{key}".encode()).hexdigest()


def _unavailable() -> UnavailableError:
    return UnavailableError("the labels of conversations cannot be read at the moment: try again", retry_after=5)
