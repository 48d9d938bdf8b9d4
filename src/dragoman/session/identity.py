"""Who asks: ids that tell users and teams apart, and say nothing about them.

What a session is told is noted on messages, in events and in the store, and stays there. So it is a pseudonym: an id of
the program's own that says nothing, or what `Pseudonyms` makes of a name. What can be seen to be personal is refused.
"""

import hashlib
import hmac
import re
import unicodedata

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.ids import format_ulid
from dragoman.canonical.message import MessageMetadata

_MIN_KEY_BYTES = 16
"""Bytes. Names are few: with a key that can be guessed, they can be guessed as well."""
_PSEUDONYM = re.compile("(?:usr|team)_[0-7][0-9A-HJKMNP-TV-Z]{25}")
_PERSONAL = re.compile(r"[@\s]")


class Pseudonyms:
    """Makes ids of names, the same ones in every program that has the key, and of no use without it.

    The rule: HMAC-SHA256 with the key over ``user`` or ``team``, a zero byte and the name in NFC and UTF-8; of that the
    first 128 bits, written as a ULID behind ``usr_`` or ``team_``. Names that differ in a letter's case differ.

    A new key makes new ids, so that nobody can be followed from before it to after it. Raises ConfigurationError where
    the key has fewer than 16 bytes.
    """

    def __init__(self, key: str | bytes) -> None:
        self._key = key.encode() if isinstance(key, str) else bytes(key)
        if len(self._key) < _MIN_KEY_BYTES:
            raise ConfigurationError(
                f"the key of pseudonyms has {_MIN_KEY_BYTES} bytes or more: secrets.token_bytes(32)"
            )

    def user(self, name: str) -> str:
        """The id of a user; one that is a pseudonym already stays as it is."""
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
    """Whose a session is. Raises ConfigurationError where an id is empty, or, without pseudonyms, personal."""
    for name, value in (("user_id", user_id), ("team_id", team_id)):
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
    """The metadata of a message that this user makes."""
    return (metadata or MessageMetadata()).model_copy(update={"user_id": user_id, "team_id": team_id})


class IdentityMixin:
    """Something that belongs to somebody: the part of a session that knows who asks."""

    user_id: str | None
    team_id: str | None
    _pseudonyms: Pseudonyms | None

    def identify(self, user_id: str | None = None, team_id: str | None = None) -> None:
        """From the next turn on, this user asks. What was noted before stays as it is.

        Raises ConfigurationError where an id is empty, or, without pseudonyms, personal.
        """
        self.user_id, self.team_id = resolve_identity(user_id, team_id, self._pseudonyms)
