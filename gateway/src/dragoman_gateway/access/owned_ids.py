"""Ids of files, containers and conversations: each works only for the key that made it.

Providers keep these for the account whose key the gateway uses, which is the same for all callers.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from dragoman.errors import InvalidRequestError
from dragoman_gateway.access.contract import Caller
from dragoman_gateway.database import Database
from dragoman_gateway.database.tables import owners
from dragoman_gateway.keys.records import to_microseconds

_NAMES = ("file_id", "file_ids", "container", "container_id", "conversation", "vector_store_ids")
"""The fields of requests, on every wire, that hold such ids."""
_FILE = b'"file_id'
"""In the bytes of a request that names files. Only such a request is read through: the other names are those of fields
of the request itself, and of its tools."""
_ID = re.compile(r"(?:file[-_]|cfile_|cntr_|container_|conv_|vs_)[A-Za-z0-9_-]{1,180}")
_MADE = re.compile(rb'"((?:cntr_|container_|cfile_|file[-_])[A-Za-z0-9_-]{1,180})"')
"""An id in a provider's reply, as a whole value."""
_ARGUMENTS = ("tool_use", "server_tool_use", "mcp_tool_use")
"""Blocks whose input is of a tool, and names what it likes."""
_UNREAD = ("parameters", "input_schema", "arguments", "metadata")


class OwnedIds:
    """``shared`` are globs of ids that every key may use, such as files that the operator uploaded. ``lifetime`` is how
    long an id is remembered after it was last seen in a reply.
    """

    def __init__(
        self,
        database: Database,
        *,
        shared: tuple[str, ...] = (),
        lifetime: timedelta = timedelta(days=90),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._shared = shared
        self._lifetime = lifetime
        self._clock = clock
        self.dropped = 0
        """Ids that are not remembered, because the database did not answer: they do not work again."""

    async def check(self, caller: Caller, body: bytes, fields: dict[str, Any]) -> None:
        """Raise InvalidRequestError if the request names an id that this caller did not make. The answer is the same
        for an id of another key and for one that does not exist.
        """
        if caller.key_id is None:
            return
        found = _find_ids(fields) if _FILE in body else _find_top_ids(fields)
        named = {each for each in found if not any(fnmatchcase(each, glob) for glob in self._shared)}
        if not named:
            return
        query = select(owners.c.id).where(owners.c.id.in_(named), owners.c.owner == caller.owner)
        owned = await self._database.read(lambda connection: set(connection.execute(query).scalars()))
        for each in sorted(named - owned):
            raise InvalidRequestError(
                f"there is no {_kind(each)} '{each}': an id works only for the key that made it", status=400
            )

    async def record(self, caller: Caller, ids: set[str]) -> None:
        """Remember the ids that a reply to this caller named. An id keeps its first owner."""
        if caller.key_id is None or not ids:
            return
        until = to_microseconds(self._clock() + self._lifetime)
        rows = [{"id": each, "owner": caller.owner, "kind": _kind(each), "expires_at": until} for each in sorted(ids)]

        def work(connection: Connection) -> None:
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            connection.execute(dialect.insert(owners).values(rows).on_conflict_do_nothing())

        await self._database.write(work)


def find_made_ids(data: bytes) -> set[str]:
    """Return the ids that bytes of a reply name."""
    return {found.decode() for found in _MADE.findall(data)}


def _find_top_ids(fields: dict[str, Any]) -> Iterator[str]:
    tools = fields.get("tools")
    for part in (fields, *(tools if isinstance(tools, list) else ())):
        if isinstance(part, dict):
            for name in _NAMES:
                if name in part:
                    yield from _ids_of(part[name])


def _find_ids(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _find_ids(each)
    elif isinstance(value, dict):
        is_call = value.get("type") in _ARGUMENTS
        for name, each in value.items():
            if name in _UNREAD or (is_call and name == "input"):
                continue
            if name in _NAMES:
                yield from _ids_of(each)
            if isinstance(each, (dict, list)):
                yield from _find_ids(each)


def _ids_of(value: Any) -> Iterator[str]:
    for each in value if isinstance(value, list) else [value.get("id") if isinstance(value, dict) else value]:
        if isinstance(each, str) and _ID.fullmatch(each):
            yield each


def _kind(owned: str) -> str:
    prefix = re.split("[-_]", owned, maxsplit=1)[0]
    return {"cntr": "container", "cfile": "file", "conv": "conversation", "vs": "vector store"}.get(prefix, prefix)
