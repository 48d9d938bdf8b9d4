"""Ids in the form of a client's wire, made from canonical ids, and the canonical ids of what a client sends back.

An id holds the ULID of its canonical id, so any process finds the canonical id again without stored state. A client may
also invent ids: their canonical ids are digests, the same in every process (docs/answers.md#ids).
"""

import hashlib
import re
from collections.abc import Sequence

from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.ids import format_ulid

TOOL_ID_PREFIX = "tu_"

_ULID = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"
_CANONICAL_TOOL_ID = re.compile(f"{TOOL_ID_PREFIX}({_ULID})")
_CLIENT_TOOL_ID = re.compile(f"(?:toolu_|call_)({_ULID})")
_MAX_PLAIN = 40
"""Characters of an id that a client gets as it is, if they are letters and digits."""


def client_tool_id(prefix: str, canonical: str) -> str:
    """Return the id of a call for a client: the prefix and 26 characters. It can be read back by `read_tool_id`."""
    found = _CANONICAL_TOOL_ID.fullmatch(canonical)
    return prefix + (found[1] if found else digest_ulid(canonical))


def read_tool_id(client_id: str) -> str | None:
    """Return the canonical id that an id of ours was made from; None if the id is not of that form."""
    found = _CLIENT_TOOL_ID.fullmatch(client_id)
    return TOOL_ID_PREFIX + found[1] if found else None


def client_message_id(prefix: str, message_id: str, part: int | None = None) -> str:
    """Return the id of a message, or of one of its parts, for a client."""
    is_plain = message_id.isascii() and message_id.isalnum() and len(message_id) <= _MAX_PLAIN
    plain = message_id if is_plain else digest_ulid(message_id)
    return prefix + plain + ("" if part is None else f"{part:04d}")


def digest_ulid(text: str) -> str:
    """Return 26 characters in the alphabet of ULIDs that are the same for the same text."""
    return format_ulid(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest()) & (1 << 127) - 1)


class ClientToolIds(ToolIdMap):
    """A map for requests of clients: the same history gives the same canonical ids in every process.

    An id that was made by `client_tool_id` stands for the call that it was made from. Any other id, and an id that
    occurs again, gets a canonical id derived from it and from the number of its occurrence.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # the arguments of ToolIdMap, whatever they are
        self._occurrences: dict[str, int] = {}
        self._read: set[str] = set()
        self._calls: list[tuple[str, str, str | None]] = []
        """The canonical id and the native one of each call, and under which name its occurrence was counted."""

    def receive_history(self, provider: str, native: str | None) -> str:
        canonical, named = read_tool_id(native) if native else None, None
        if canonical is None or canonical in self._read:
            named = f"{provider}/{native or ''}"
            occurrence = self._occurrences[named] = self._occurrences.get(named, 0) + 1
            canonical = TOOL_ID_PREFIX + digest_ulid(f"{named}/{occurrence}")
        self._read.add(canonical)
        self._calls.append((canonical, native or "", named))
        self.remember(canonical, provider, native or "")
        return canonical

    @property
    def calls_of_history(self) -> list[tuple[str, str, str | None]]:
        return self._calls

    def repeat_history(self, provider: str, calls: Sequence[tuple[str, str, str | None]]) -> bool:
        if self._calls or self._issued:
            return False
        occurrences = self._occurrences
        for canonical, native, named in calls:
            if named is not None:
                occurrences[named] = occurrences.get(named, 0) + 1
            self.remember(canonical, provider, native)
        self._read.update([canonical for canonical, _, _ in calls])
        self._calls.extend(calls)
        return True
