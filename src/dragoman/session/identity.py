"""Ids of users and teams that reveal nothing about them.

The ids of a session are written to messages, events and the store, and stay there. So each is a pseudonym: an opaque id
of the program's own, or one that `Pseudonyms` derives from a name. An id that looks personal is refused.
"""

import hashlib
import hmac
import re
import unicodedata

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.ids import format_ulid
from dragoman.canonical.message import MessageMetadata

_MIN_KEY_BYTES = 16
"""Bytes. Names are few, so a key that can be guessed gives the names away."""
_PSEUDONYM = re.compile("(?:usr|team)_[0-7][0-9A-HJKMNP-TV-Z]{25}")
_PERSONAL = re.compile(r"[@\s]")


class Pseudonyms:
    """Derives ids from names: the same ones in every program that has the key.

    The rule: HMAC-SHA256 with the key over ``user`` or ``team``, a zero byte and the name in NFC and UTF-8; the first
    128 bits of that, written as a ULID after ``usr_`` or ``team_``. Names are case-sensitive.

    A new key gives new ids, so that they cannot be linked to the old ones. Raises ConfigurationError if the key has
    fewer than 16 bytes.
    """

    def __init__(self, key: str | bytes) -> None:
        self._key = key.encode() if isinstance(key, str) else bytes(key)
        if len(self._key) < _MIN_KEY_BYTES:
            raise ConfigurationError(
                f"the key of pseudonyms has {_MIN_KEY_BYTES} bytes or more: secrets.token_bytes(32)"
            )

    def user(self, name: str) -> str:
        """Return the id of a user. A pseudonym is returned unchanged."""
        return self._id("user", "usr_", name)

    def team(self, name: str) -> str:
        return self._id("team", "team_", name)

    def _id(self, kind: str, prefix: str, name: str) -> str:
        if _PSEUDONYM.fullmatch(name) and name.startswith(prefix):
            return name
        payload = f"{kind}\0{unicodedata.normalize('NFC', name)}".encode(errors="surrogatepass")
        return prefix + format_ulid(int.from_bytes(hmac.digest(self._key, payload, hashlib.sha256)[:16]))


def resolve_identity(
    user_id: str | None, team_id: str | None, pseudonyms: Pseudonyms | None
) -> tuple[str | None, str | None]:
    """Return the user and team ids to store, pseudonymized if a key is given.

    Raises ConfigurationError if an id is empty or, without pseudonyms, looks personal.
    """
    for name, value in (("user_id", user_id), ("team_id", team_id)):
        if value is not None and not isinstance(value, str):
            raise ConfigurationError(f"{name} must be a text, not a value of the class {type(value).__name__}")
        if value == "":
            raise ConfigurationError(f"{name} is None or names somebody")
        if value is not None and pseudonyms is None and _PERSONAL.search(value):
            raise ConfigurationError(
                f"{name} looks like an address or a name, and would be noted on every message: give an id that says"
                " nothing, or pseudonyms=Pseudonyms(key), which make one"
            )
    if pseudonyms is None:
        return user_id, team_id
    return user_id and pseudonyms.user(user_id), team_id and pseudonyms.team(team_id)


def with_identity(metadata: MessageMetadata | None, user_id: str | None, team_id: str | None) -> MessageMetadata:
    """Return the metadata with the ids of user and team."""
    return (metadata or MessageMetadata()).model_copy(update={"user_id": user_id, "team_id": team_id})
