"""Uploads that go on at an address of their own, which is Google's way: the address is all that proves whose it is."""

from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import parse_qs, urlsplit

KIND = "upload"
_ADDRESS = "x-goog-upload-url"
_ID = "upload_id"


def upload_of(query: str) -> str | None:
    """Return what is remembered of the upload that a query names: a digest, since who has the id may write."""
    found = parse_qs(query).get(_ID, [])
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
