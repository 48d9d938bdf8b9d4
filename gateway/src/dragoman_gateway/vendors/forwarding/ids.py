"""The ids that forwarded requests name and replies make: each works only for the key that made it.

The id of an upload that goes on at an address of its own, which is Google's way, is in that address alone.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dragoman.errors import InvalidRequestError, MalformedReplyError, NotFoundError
from dragoman_gateway.access import Caller
from dragoman_gateway.access.owned_ids import OwnedIds
from dragoman_gateway.access.wire_fields import wire_objects
from dragoman_gateway.errors import DeniedError
from dragoman_gateway.wires.forwarded import Address, field_at

_ID = re.compile(r"(?!\.+$)[A-Za-z0-9._:~-]{1,190}")
_PAGE_FIELDS = ("object", "has_more", "nextPageToken")
_STORED = "previous_response_id"
"""A reply that the vendor keeps: none in a batch is one of this key's."""


class ForwardedIds:
    """The ids at one address."""

    def __init__(self, owned: OwnedIds, address: Address) -> None:
        self._owned = owned
        self._address = address

    def named_in_path(self, ids: Mapping[str, str]) -> dict[str, str]:
        """Return the ids in the path that the key must have made, and their kinds. Raises NotFoundError for what cannot
        be an id."""
        address = self._address
        for each in ids.values():
            if not _ID.fullmatch(each):
                raise NotFoundError(f"there is no {address.kind[:-1]} {each!r:.120}", status=404)
        return {address.full_id(name, ids[name]): kind for name, kind in address.kinds.items()}

    def named_in_body(self, fields: dict[str, Any]) -> dict[str, str]:
        """Return the ids in the body, and their kinds. Raises DeniedError for a field that nobody could check."""
        address = self._address
        found = self._owned.find(fields, fields.get("items"))
        for each in wire_objects(fields) if address.names or address.refuses else ():
            for name, kind in address.names.items():
                found |= dict.fromkeys(texts(each.get(name)), kind)
            for name, refused in address.refuses.items():
                if (value := each.get(name)) is not None and refused in ("*", value):
                    raise DeniedError(f"{name}: {value!r:.80} is not for keys here: what it leads to cannot be checked")
        return found

    def named_in_lines(self, lines: Iterable[dict[str, Any]]) -> dict[str, str]:
        """Return the ids in requests of a batch, and their kinds."""
        found: dict[str, str] = {}
        for line in lines:
            body = line.get("body")
            inner = body if isinstance(body, dict) else {}
            found |= self._owned.find(line, inner.get("input", inner.get("items")))
            found |= dict.fromkeys(texts(inner.get(_STORED)), "response")
        return found

    async def check(self, caller: Caller, named: Mapping[str, str]) -> None:
        """Raise NotFoundError for an id that the key did not make, as for one that does not exist."""
        if caller.key_id is None:
            return
        try:
            await self._owned.check(caller, self._owned.unshared(named))
        except InvalidRequestError as error:
            raise NotFoundError(error.message, status=404) from None

    async def own_rows(self, caller: Caller, fields: dict[str, Any]) -> dict[str, Any]:
        """Return a list without the rows of other keys, and without all that says something of them."""
        name, field = self._address.lists or "", self._address.vendor.id_field
        rows = fields.get(name, [])  # Google leaves out an empty list
        if not isinstance(rows, list):
            raise MalformedReplyError("the reply is not a list")
        ids = [each[field] for each in rows if isinstance(each, dict) and isinstance(each.get(field), str)]
        own = await self._owned.owned(caller, ids)
        kept = [each for each in rows if isinstance(each, dict) and each.get(field) in own]
        found: dict[str, Any] = {each: fields[each] for each in _PAGE_FIELDS if each in fields}
        if "total" in fields:
            found["total"] = len(kept)
        for end, place in (("first_id", 0), ("last_id", -1)):
            if end in fields:
                found[end] = kept[place]["id"] if kept else None
        return {**found, name: kept}

    async def note(self, caller: Caller, fields: dict[str, Any]) -> None:
        """Note the ids that the reply names as those of the key, before the key can use them."""
        address, found = self._address, dict[str, str]()
        if address.makes is not None:
            found |= dict.fromkeys(texts(fields.get(address.vendor.id_field)), address.makes)
        for path, kind in address.yields.items():
            found |= dict.fromkeys(texts(field_at(fields, path)), kind)
        await self._owned.record(caller, found)


def texts(value: Any) -> list[str]:
    """Return the ids of a field: a text, an object with an id, or a list of them."""
    values = value if isinstance(value, list) else [value]
    ids = [each.get("id") if isinstance(each, dict) else each for each in values]
    return [each for each in ids if isinstance(each, str) and each]


KIND = "upload"
_ADDRESS = "x-goog-upload-url"
_UPLOAD_ID = "upload_id"


def upload_of(query: str) -> str | None:
    """Return what is remembered of the upload that a query names: a digest, since who has the id may write."""
    found = parse_qs(query).get(_UPLOAD_ID, [])
    return f"upload:{sha256(found[0].encode()).hexdigest()}" if len(found) == 1 else None


def begun_upload(headers: Mapping[str, str]) -> str | None:
    """Return the same of the upload that a reply begins; None if it begins none."""
    return upload_of(urlsplit(headers.get(_ADDRESS, "")).query)


def address_here(name: str, value: str, base: str) -> str | None:
    """Return the value of a header of the reply as the client gets it: an address is ``base``, with the query of the
    vendor's. None: it stays here."""
    if name == _ADDRESS:
        return f"{base}?{urlsplit(value).query}"
    return None if value.startswith(("http:", "https:")) else value
