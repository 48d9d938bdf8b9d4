"""The secrets of virtual keys: how they are made, recognised and compared.

A secret is ``sk-dragoman-<id>-<43 characters>``: the public id of its key, and 256 random bits. Only its SHA-256 is
stored. A slow password hash would add nothing: it protects secrets that can be guessed, and 2**256 cannot be tried.
It would cost each request tens of milliseconds, and hand everybody who sends wrong keys the same power. A keyed hash
would need one more secret on every replica.
"""

import hashlib
import hmac
import re
import secrets

_ID_BYTES = 8
_SECRET_BYTES = 32
_SECRET = re.compile(r"sk-dragoman-([0-9a-f]{16})-([A-Za-z0-9_-]{43})")
_NO_DIGEST = "0" * 64
"""Compared if there is no digest, so that an unknown key takes as long as a known one."""


def new_secret(key_id: str | None = None) -> tuple[str, str, str]:
    """Return the id of a new key, or of the one with that id; a new secret, which is shown once to the person who made
    it; and its digest, which is stored."""
    number = key_id.removeprefix("key_") if key_id else secrets.token_hex(_ID_BYTES)
    secret = f"sk-dragoman-{number}-{secrets.token_urlsafe(_SECRET_BYTES)}"
    return f"key_{number}", secret, digest(secret)


def key_id_of(secret: str) -> str | None:
    """Return the id in a secret; None if it is not of this form."""
    found = _SECRET.fullmatch(secret)
    return f"key_{found[1]}" if found else None


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def matches(presented: str, stored: str | None) -> bool:
    """Whether two digests are equal, in a time that does not depend on them."""
    return hmac.compare_digest(presented, stored or _NO_DIGEST) and stored is not None
