"""Ids of files, containers, conversations and items: each works only for the key that made it.

Providers keep these for the account whose key the gateway uses, which is the same for all callers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy import Connection, Executable, select, union

from dragoman.errors import InvalidRequestError
from dragoman.sql import insert_into
from dragoman_gateway.access import Caller
from dragoman_gateway.access.wire_fields import FIELDS, wire_objects
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.database.tables import owners, response_items
from dragoman_gateway.errors import ThreadNotFoundError, UnavailableError
from dragoman_gateway.json import loads
from dragoman_gateway.keys.records import to_microseconds

_LIFETIME = timedelta(days=90)
"""How long an id is remembered after it was last seen in a reply."""
_ITEM = "item"
_THREAD = "thread"
_KINDS: Mapping[str, str] = FIELDS["owned"]
"""The fields that hold such ids, on every wire, and what each names."""
_CONTENT: Mapping[str, str] = FIELDS["whole_items"]
"""The types of items that contain everything themselves, each with the field that holds it."""
_MAY_BE_EMPTY = ("function_call_output", "custom_tool_call", "custom_tool_call_output")
_ADDRESSES = ("fileUri", "file_uri", "url", "image_url", "file_url")
"""Fields with an address. That of a file at Google is an id."""
_NAMES = frozenset((*_KINDS, *_ADDRESSES))
_OF_VENDORS = ("openai-",)
"""How the ids of skills begin that a vendor has for everyone. Anthropic's have the type ``anthropic``."""
_MADE = ("file", "container", "audio")
"""The kinds that replies name."""
_GOOGLE_FILE = re.compile(
    r"\s*(?:files/|(?:[a-z]+:)?//[^/]*generativelanguage\.(?:[a-z]+\.)?googleapis\.com)", re.IGNORECASE
)
_MAX_IDS = 10_000
"""Databases accept a limited number of values at once, and may not answer for a while after an error."""
_ID = re.compile(r"[!-~]{1,190}")
"""The form of an id. Any other text belongs to nobody."""


class OwnedIds:
    """``shared`` are globs of ids that every key may use, such as files that the operator uploaded."""

    def __init__(self, database: Database, *, shared: tuple[str, ...] = ()) -> None:
        self._database = database
        self._shared = shared
        self.dropped = 0
        """Ids that are not remembered, because the database did not answer: they do not work again."""

    def find(self, fields: dict[str, Any], items: Any = None) -> dict[str, str]:
        """Return the ids that a request names, and their kinds. ``items`` are the input of a request to Responses,
        whose ids count too.

        The fields are read and not the bytes, which can write a name in many ways. It takes no longer.
        """
        found = (*_find_ids(fields), *((each, _ITEM) for each in referring_ids(items)))
        return self.unshared(dict(found))

    def unshared(self, named: Mapping[str, str]) -> dict[str, str]:
        """Return the ids that not every key may use."""
        return {each: kind for each, kind in named.items() if not any(fnmatchcase(each, glob) for glob in self._shared)}

    async def owned(self, caller: Caller, ids: Sequence[str]) -> set[str]:
        """Return those of some ids that the caller made, or that every key may use. Raises UnavailableError, as
        `check` does."""
        private = self.unshared(dict.fromkeys(ids, ""))
        query = select(owners.c.id).where(owners.c.id.in_([*private][:_MAX_IDS]), owners.c.owner == caller.owner)
        return await self._read(query) | (set(ids) - private.keys())

    async def check(self, caller: Caller, named: Mapping[str, str]) -> None:
        """Raise InvalidRequestError or ThreadNotFoundError if a request names an id that this caller did not make. The
        answer is the same for an id of another key and for one that does not exist.
        """
        if not named:
            return
        if len(named) > _MAX_IDS:
            raise InvalidRequestError(f"the request names more than {_MAX_IDS} files and other ids", status=400)
        asked = [each for each in named if _ID.fullmatch(each)]
        made = select(owners.c.id).where(owners.c.id.in_(asked), owners.c.owner == caller.owner)
        item, own = response_items.c.item_id, response_items.c.owner == caller.owner
        names_items = _ITEM in named.values()
        query = union(made, select(item).where(item.in_(asked), own)) if names_items else made
        for each in sorted(named.keys() - await self._read(query)):
            if named[each] == _THREAD:
                raise ThreadNotFoundError
            raise InvalidRequestError(
                f"there is no {named[each]} {each!r:.200}: an id works only for the key that made it", status=400
            )

    async def owner_of(self, made: str) -> str | None:
        """Return the key that made an id; None if nothing is remembered of it."""
        return next(iter(await self._read(select(owners.c.owner).where(owners.c.id == made))), None)

    async def _read(self, query: Executable) -> set[str]:
        try:
            return await self._database.read(lambda connection: set(connection.execute(query).scalars()))
        except DatabaseUnavailableError:
            raise UnavailableError("ids cannot be checked at the moment: try again", retry_after=5) from None

    async def record(self, caller: Caller, ids: Mapping[str, str]) -> None:
        """Remember the ids that a reply to this caller named, by their kinds. An id keeps its first owner. A failure is
        only counted, because the reply matters more."""
        if caller.key_id is None or not ids:
            return
        until = to_microseconds(datetime.now(UTC) + _LIFETIME)
        rows = [
            {"id": each, "owner": caller.owner, "kind": kind, "expires_at": until} for each, kind in sorted(ids.items())
        ]

        def work(connection: Connection) -> None:
            connection.execute(insert_into(connection, owners).values(rows).on_conflict_do_nothing())

        try:
            await self._database.write(work)
        except DatabaseUnavailableError:
            self.dropped += len(ids)


def may_name_ids(data: bytes, *, threads: bool = False, items: bool = False) -> bool:
    """Whether bytes of a reply may name ids that `find_made_ids` finds. It is asked for each piece of each stream."""
    if (threads and b'"message"' in data) or (items and (b'"output"' in data or b'"item"' in data)):
        return True
    return b"file_id" in data or b"container_id" in data or b'"container"' in data or b'"audio"' in data


def find_made_ids(data: bytes, *, threads: bool = False, items: bool = False) -> dict[str, str]:
    """Return the ids that a reply, or whole events of one, names, and their kinds. What a client or a model wrote into
    it does not count. ``threads``: whether the reply's message can be continued by its id. ``items``: whether its items
    can be named by theirs.
    """
    try:
        values = [loads(data)]  # a whole reply
    except ValueError:
        values = []
        for line in data.splitlines():
            with suppress(ValueError):
                values.append(loads(line.removeprefix(b"data:")))
    found: dict[str, str] = {}
    for reply in (each for each in values if isinstance(each, dict)):
        message = reply.get("message", reply)
        if threads and isinstance(message, dict) and message.get("type") == "message":
            found[str(message.get("id"))] = _THREAD
        response = reply.get("response", reply)
        found |= {each: kind for each, kind in _find_ids(response) if kind in _MADE}
        if items:
            output = response.get("output") if isinstance(response, dict) else None
            found |= dict.fromkeys(
                referring_ids([*(output if isinstance(output, list) else ()), reply.get("item")]), _ITEM
            )
    return {each: kind for each, kind in found.items() if _ID.fullmatch(each)}


def _find_ids(fields: Any) -> Iterator[tuple[str, str]]:
    """Yield each id that a request or a reply names, and its kind."""
    for each in wire_objects(fields):
        if not _NAMES.isdisjoint(each):
            yield from _ids_of(each)


def _ids_of(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the ids in the fields of one object."""
    for name in _NAMES & fields.keys():
        value = fields[name]
        for each in value if isinstance(value, list) else (value,):
            if name == _THREAD:
                found = each.get("previous_message_id") if isinstance(each, dict) else None
            else:
                found = each.get("id") if isinstance(each, dict) else each
            if not isinstance(found, str) or not found or (name == "audio" and found is each):
                continue
            if name == "skill_id" and (fields.get("type") == "anthropic" or found.startswith(_OF_VENDORS)):
                continue
            if name not in _ADDRESSES:
                yield found, _KINDS[name]
            elif _GOOGLE_FILE.match(found):
                yield found, "file"


def referring_ids(items: Any) -> Iterator[str]:
    """Yield the ids of the items that a provider needs its own storage for, whatever type they claim to have."""
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and isinstance(found := item.get("id"), str) and found and not _is_whole(item):
            yield found


def _is_whole(item: Mapping[str, Any]) -> bool:
    """Whether an item holds its content. A message may leave out its type."""
    kind = item.get("type")
    if kind is None and "role" in item:
        kind = "message"
    if not isinstance(kind, str) or kind not in _CONTENT:
        return False
    content = item.get(_CONTENT[kind])
    return bool(content) or (kind in _MAY_BE_EMPTY and isinstance(content, str))
