"""Stored responses in the gateway's database. Each belongs to the key that made it."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from dragoman.sql import insert_into
from dragoman_gateway.bodies.values import check_values
from dragoman_gateway.database import (
    END_SECONDS,
    Database,
    DatabaseRejectedError,
    DatabaseUnavailableError,
    Lane,
    Result,
    retry_for,
)
from dragoman_gateway.database.grouping import Grouping
from dragoman_gateway.database.tables import call_state, owners, response_events, response_items, responses
from dragoman_gateway.errors import BodyTooLargeError
from dragoman_gateway.keys.records import to_microseconds
from dragoman_gateway.log import logger
from dragoman_gateway.stored.records import OPEN, BrokenChainError, LateResponses, StoredResponse, is_id

Value = TypeVar("Value")

_MAX_CHAIN = 1_000
_MAX_REFERENCES = 10_000
_AT_ONCE = 500
"""The most ids of one query: databases accept a limited number."""
_LATE_SECONDS = 1.0
_UNSURE_SECONDS = 15.0
"""How long after an outage other processes may have responses that are not stored yet."""
_PARALLEL = 2
_LEASH = 30
"""The part of its life by which a response may end earlier than those that continue it: each turn would write all."""
_CLEAN_EVERY = timedelta(minutes=1)
_CLEAN_AT_ONCE = 200
"""Expired rows that one transaction deletes, so that cleaning never holds the database for long."""
_LOST_AFTER = timedelta(seconds=30)
"""A background response that was not renewed for so long has lost its replica."""
_LOST = {"code": "server_error", "message": "the gateway that ran this response stopped before it was complete"}


@dataclass(frozen=True, slots=True)
class ExpansionLimit:
    """The most bytes and values that a request may add to itself by references."""

    bytes: int = 64 * 1024 * 1024
    values: int = 200_000


_ROOM = ExpansionLimit()


@dataclass(eq=False)
class ResponseStore:
    """Stores responses, and keeps those in memory that wait for a database that does not answer."""

    database: Database
    lifetime: timedelta = timedelta(days=30)
    """How long a response is kept after it was made or continued."""
    max_late: int = 10_000
    """The most responses that wait."""
    others_are_late: Callable[[], bool] = lambda: False
    """Whether other processes have such ones, whose ids this one cannot know."""
    show: Callable[[], None] = lambda: None
    """Tells them that this one has."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _reading: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)
    """Held while texts of an owner are read: the other threads of the database are left to other owners."""
    _late_task: "asyncio.Task[None] | None" = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._clean_at = self.clock()
        self._saving: Grouping[StoredResponse, Any, None] = Grouping(self._save_all, parallel=_PARALLEL)
        self.late = LateResponses(self.max_late)

    @property
    def dropped(self) -> int:
        """Responses that are not stored, because the database did not answer."""
        return self.late.dropped

    async def save(self, stored: StoredResponse) -> bool:
        """Store a response. Returns False if the database does not answer: the client need not wait, and the response
        is found in memory and stored later, unless too many wait.
        """
        try:
            await self._saving.ask(stored)
        except DatabaseUnavailableError as error:
            logger.debug("a response waits to be stored: %s", error)
            self.late.add(stored)
            if len(self.late) == 1:
                self.show()
            if self._late_task is None or self._late_task.done():
                self._late_task = asyncio.create_task(self._save_late())
            return False
        await self._clean_sometimes()
        return True

    async def close(self, seconds: float = END_SECONDS) -> None:
        """Store the responses that wait. A database that does not answer has some seconds to come back."""
        if self._late_task is not None:
            self._late_task.cancel()
            await asyncio.wait({self._late_task})
        await self._saving.finish()
        try:
            await retry_for(seconds, self._save_waiting)
        except DatabaseUnavailableError:
            self.late.drop([*self.late])

    async def _save_late(self) -> None:
        while len(self.late):
            await asyncio.sleep(_LATE_SECONDS)
            with contextlib.suppress(DatabaseUnavailableError):
                await self._save_waiting()

    async def _save_waiting(self) -> None:
        """Store the responses that wait. Raises DatabaseUnavailableError, and keeps those that are not stored."""
        waiting = [*self.late]
        outcomes = await asyncio.gather(*map(self._saving.ask, waiting), return_exceptions=True)
        for stored, outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, DatabaseRejectedError) and stored in self.late:
                self.late.drop([stored])
            elif outcome is None and not self.late.remove(stored.id, stored.owner):  # deleted meanwhile
                await self.delete(stored.id, stored.owner)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, DatabaseRejectedError):
                raise outcome

    def _check_known(self) -> None:
        """Raise DatabaseUnavailableError if a response that is not found may be one that is not stored yet."""
        if self.others_are_late() or self.database.outage.was_away(_UNSURE_SECONDS):
            raise DatabaseUnavailableError("the response may not be stored yet")

    async def begin(self, stored: StoredResponse) -> None:
        """Store a background response before it runs. Raises DatabaseUnavailableError: nobody could read it."""
        await self._saving.ask(stored)
        await self._clean_sometimes()

    async def find(self, response_id: str, owner: str) -> StoredResponse | None:
        """Return a response of that owner. One whose replica was lost has failed.

        Raises DatabaseUnavailableError, also for one that another process may have and cannot store yet.
        """
        if (late := self.late.find(response_id, owner)) is not None:
            return late
        row = await self._find(response_id, owner)
        if row is None:
            self._check_known()
            return None
        found = StoredResponse.from_row(row)
        lost_at = to_microseconds(self.clock() - _LOST_AFTER) or 0
        if not found.background or not found.is_open or row["alive_at"] >= lost_at:
            return found
        await self.update(found.id, {**found.response, "status": "failed", "error": _LOST})
        row = await self._find(response_id, owner)
        return None if row is None else StoredResponse.from_row(row)

    async def history(self, response_id: str, owner: str, room: ExpansionLimit = _ROOM) -> list[StoredResponse] | None:
        """Return a response with those before it, the first one first; None if it is not stored for that owner.

        Raises BrokenChainError if one before it is missing, and BodyTooLargeError.
        """
        chain = await self.chain(response_id, owner, room)
        missing = chain[0].previous_id if chain else response_id
        if missing is not None:
            self._check_known()
        if chain and missing is not None:
            raise BrokenChainError(missing)
        return chain or None

    async def chain(self, response_id: str, owner: str, room: ExpansionLimit = _ROOM) -> list[StoredResponse]:
        """Return a response of that owner with those before it that are stored, the first one first.

        Raises BodyTooLargeError if they are larger than the room.
        """

        late, before = self.late.chain(response_id, owner)
        if before is None:
            return late[::-1]
        first = before

        def work(connection: Connection) -> list[StoredResponse]:
            ids = [each for each, _ in self._chain(connection, first, owner)]
            rows = {row["id"]: row for row in _read_texts(connection, ids, room)}
            return [StoredResponse.from_row(rows[each]) for each in reversed(ids) if each in rows]

        async with self._alone(owner):
            return [*await self._read(work), *late[::-1]]

    async def find_items(self, item_ids: Sequence[str], owner: str, room: ExpansionLimit = _ROOM) -> dict[str, Any]:
        """Return stored items of that owner by their ids. Raises BodyTooLargeError if the responses that hold them are
        larger than the room.
        """
        late = self.late.items(set(item_ids), owner)
        wanted, items = set(item_ids) - late.keys(), response_items
        if len(wanted) > _MAX_REFERENCES:
            raise BodyTooLargeError(
                f"the request has more than {_MAX_REFERENCES} references: send the items themselves"
            )

        def work(connection: Connection) -> dict[str, Any]:
            holders: dict[str, None] = {}
            for some in _in_groups([*wanted]):
                query = select(items.c.response_id).where(items.c.owner == owner, items.c.item_id.in_(some))
                holders |= dict.fromkeys(connection.execute(query).scalars())
            found: dict[str, Any] = {}
            for row in _read_texts(connection, [*holders], room):
                found |= StoredResponse.from_row(row).items(wanted)
            return found

        if not wanted:
            return late
        async with self._alone(owner):
            found = await self._read(work)
        if len(found) < len(wanted):
            self._check_known()
        return late | found

    async def _read(self, work: Callable[[Connection], Result]) -> Result:
        return await self.database.read(work, Lane.RESPONSES)

    async def _write(self, work: Callable[[Connection], Result]) -> Result:
        return await self.database.write(work, Lane.RESPONSES)

    def _alone(self, owner: str) -> asyncio.Lock:
        return self._reading.setdefault(owner, asyncio.Lock())

    async def update(self, response_id: str, response: Mapping[str, Any]) -> bool:
        """Store the newest state of a background response, which may be its end. Returns False if it has ended, was
        cancelled or was deleted.
        """
        values = {
            "status": str(response.get("status")),
            "response_json": json.dumps(response),
            "alive_at": to_microseconds(self.clock()),
        }

        def work(connection: Connection) -> bool:
            if not connection.execute(update(responses).where(_is_open(response_id)).values(**values)).rowcount:
                return False
            owner = connection.execute(select(responses.c.owner).where(responses.c.id == response_id)).scalar_one()
            _store_items(connection, [(owner, response_id, response.get("output") or ())])
            return True

        return await self._write(work)

    async def renew(self, response_id: str) -> bool:
        """Note that a background response still runs. Returns False if it was cancelled or deleted."""
        statement = update(responses).where(_is_open(response_id)).values(alive_at=to_microseconds(self.clock()))
        return await self._write(lambda connection: bool(connection.execute(statement).rowcount))

    async def cancel(self, stored: StoredResponse) -> StoredResponse | None:
        """Cancel a background response, wherever it runs, and return it as it is now."""
        values = {"status": "cancelled", "response_json": json.dumps({**stored.response, "status": "cancelled"})}
        statement = update(responses).where(_is_open(stored.id)).values(**values)
        await self._write(lambda connection: connection.execute(statement))
        return await self.find(stored.id, stored.owner)

    async def delete(self, response_id: str, owner: str) -> bool:
        """Delete a response of that owner. Returns False if there is none."""
        was_late = self.late.remove(response_id, owner)

        def work(connection: Connection) -> bool:
            this = (responses.c.id == response_id) & (responses.c.owner == owner)
            deleted = bool(connection.execute(delete(responses).where(this)).rowcount)
            if deleted:
                _delete_parts(connection, [response_id])
            return deleted

        return await self._write(work) or was_late

    async def append_events(self, response_id: str, events: Sequence[tuple[int, bytes]]) -> None:
        """Store events with their numbers. One that is stored already stays."""
        rows = [{"response_id": response_id, "number": number, "data": data} for number, data in events]

        def work(connection: Connection) -> None:
            connection.execute(insert_into(connection, response_events).on_conflict_do_nothing(), rows)

        if rows:
            await self._write(work)

    async def events(self, response_id: str, after: int) -> list[tuple[int, bytes]]:
        """Return the stored events after a number, with their numbers."""
        query = (
            select(response_events.c.number, response_events.c.data)
            .where(response_events.c.response_id == response_id, response_events.c.number > after)
            .order_by(response_events.c.number)
        )
        rows = await self._read(lambda connection: connection.execute(query).all())
        return [(row.number, bytes(row.data)) for row in rows]

    async def clean(self) -> int:
        """Delete some of what has expired, and return the number of rows."""
        now = to_microseconds(self.clock())

        def work(connection: Connection) -> int:
            expired = select(responses.c.id).where(responses.c.expires_at <= now).limit(_CLEAN_AT_ONCE)
            ids = list(connection.execute(expired).scalars())
            connection.execute(delete(responses).where(responses.c.id.in_(ids)))
            _delete_parts(connection, ids)
            rows = len(ids)
            for table, key in ((owners, owners.c.id), (call_state, call_state.c.key)):
                old = list(
                    connection.execute(select(key).where(table.c.expires_at <= now).limit(_CLEAN_AT_ONCE)).scalars()
                )
                rows += connection.execute(delete(table).where(key.in_(old))).rowcount
            return rows

        return await self._write(work)

    async def _clean_sometimes(self) -> None:
        if self.clock() >= self._clean_at:
            self._clean_at = self.clock() + _CLEAN_EVERY
            try:
                await self.clean()
            except DatabaseUnavailableError:
                logger.debug("expired responses stay for another minute")

    async def _save_all(self, stored: Sequence[StoredResponse], _: Sequence[Any]) -> Sequence[None]:
        now = self.clock()
        created, until = to_microseconds(now), to_microseconds(now + self.lifetime)
        leash = to_microseconds(now + self.lifetime - self.lifetime / _LEASH) or 0

        def work(connection: Connection) -> None:
            # An id that exists is never overwritten: it may be another key's.
            first = {each.id: each for each in reversed(stored)}
            times = {"created_at": created, "alive_at": created, "expires_at": until}
            rows = [{**each.to_row(), **times} for each in first.values()]
            added = insert_into(connection, responses).values(rows).on_conflict_do_nothing().returning(responses.c.id)
            saved = [first[name] for name in connection.execute(added).scalars()]
            _store_items(connection, [(each.owner, each.id, (*each.input, *each.output)) for each in saved])
            kept = {
                response_id
                for each in saved
                if each.previous_id is not None
                for response_id, ends in self._chain(connection, each.previous_id, each.owner)
                if ends < leash
            }
            if kept:
                those = responses.c.id.in_(sorted(kept))
                connection.execute(update(responses).where(those).values(expires_at=until))

        await self._write(work)
        return [None] * len(stored)

    async def _find(self, response_id: str, owner: str) -> Mapping[Any, Any] | None:
        query = select(responses).where(responses.c.id == response_id, self._is_readable(owner))
        return await self._read(lambda connection: connection.execute(query).mappings().first())

    def _chain(self, connection: Connection, response_id: str, owner: str) -> list[tuple[str, int]]:
        """Return the ids of a response and those before it, the newest first, and when they expire."""
        columns = responses.c.id, responses.c.previous_id, responses.c.expires_at
        readable = self._is_readable(owner)
        chain = select(*columns).where(responses.c.id == response_id, readable).cte(recursive=True)
        chain = chain.union(select(*columns).where(responses.c.id == chain.c.previous_id, readable))
        rows = {row.id: row for row in connection.execute(select(chain).limit(_MAX_CHAIN))}
        found = []
        following: str | None = response_id
        while following is not None and (row := rows.pop(following, None)) is not None:
            found.append((row.id, row.expires_at))
            following = row.previous_id
        return found

    def _is_readable(self, owner: str) -> ColumnElement[bool]:
        return (responses.c.owner == owner) & (responses.c.expires_at > to_microseconds(self.clock()))


def _read_texts(connection: Connection, ids: Sequence[str], room: ExpansionLimit) -> Sequence[Mapping[Any, Any]]:
    """Return responses, if all of them fit. Raises BodyTooLargeError before any text is parsed."""
    size = func.length(responses.c.input_json) + func.length(responses.c.response_json)
    sizes = [
        connection.execute(select(func.sum(size)).where(responses.c.id.in_(some))).scalar_one() or 0
        for some in _in_groups(ids)
    ]
    if sum(sizes) > room.bytes:
        raise BodyTooLargeError(f"what the request references has more than the {room.bytes} bytes that it may add")
    found = [
        row
        for some in _in_groups(ids)
        for row in connection.execute(select(responses).where(responses.c.id.in_(some))).mappings()
    ]
    texts = [row[name].encode() for row in found for name in ("input_json", "response_json")]
    check_values(texts, room.values, "what the request references has")
    return found


def _in_groups(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def _is_open(response_id: str) -> ColumnElement[bool]:
    return (responses.c.id == response_id) & responses.c.status.in_(OPEN)


def _store_items(connection: Connection, parts: Iterable[tuple[str, str, Sequence[Any]]]) -> None:
    """Store which response holds an item: of each owner and response, its items."""
    rows = {
        (owner, item["id"]): {"owner": owner, "item_id": item["id"], "response_id": response_id}
        for owner, response_id, items in parts
        for item in items
        if isinstance(item, dict) and is_id(item.get("id"))
    }
    ordered = [rows[each] for each in sorted(rows)]
    for some in _in_groups(ordered):
        connection.execute(insert_into(connection, response_items).values(some).on_conflict_do_nothing())


def _delete_parts(connection: Connection, ids: Sequence[str]) -> None:
    connection.execute(delete(response_events).where(response_events.c.response_id.in_(ids)))
    connection.execute(delete(response_items).where(response_items.c.response_id.in_(ids)))
