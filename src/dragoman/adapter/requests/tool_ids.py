"""The per-session map of tool ids (DESIGN section 5, specification D4).

Every call gets a canonical id of ours when it arrives. Its issuer is later sent its own id again; every other
provider gets an id made from the canonical one: legal for its rule, the same in every process, and distinct from
every other id in the session.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.facts.capabilities import ToolIdRule
from dragoman.canonical.ids import new_tool_use_id

_DERIVED_LENGTH = 24
_MAX_ATTEMPTS = 1000


class ToolIdMap:
    """Two-way between canonical ids and each provider's. Serialise with `dump`, restore with `load`."""

    def __init__(self, mint: Callable[[], str] = new_tool_use_id) -> None:
        self._mint = mint
        self._issued: dict[str, tuple[str, str]] = {}
        self._latest: dict[tuple[str, str], str] = {}
        self._sent: dict[str, dict[str, str]] = {}
        self._holder: dict[str, dict[str, str]] = {}

    def __bool__(self) -> bool:
        return True  # an empty map is still the caller's map: `map or ToolIdMap()` must not lose it

    def __len__(self) -> int:
        return len(self._issued)

    def receive(self, provider: str, native: str | None) -> str:
        """A canonical id for a call that just arrived; an id that a provider repeats gets a new one each time."""
        canonical = self._mint()
        self.remember(canonical, provider, native or "")
        return canonical

    def remember(self, canonical: str, provider: str, native: str) -> None:
        """Notes who issued a call, and under which id. The first note of a canonical id stands; an empty id is none."""
        if native and canonical not in self._issued:
            self._issued[canonical] = (provider, native)
            self._latest[provider, native] = canonical

    def find(self, provider: str, native: str) -> str | None:
        """The canonical id of the provider's latest call of that id."""
        return self._latest.get((provider, native))

    def native_id(self, canonical: str, provider: str) -> str | None:
        """The id that the provider itself gave the call, if it issued it."""
        issuer, native = self._issued.get(canonical, ("", ""))
        return native if issuer == provider else None

    def id_for(self, canonical: str, provider: str, rule: ToolIdRule) -> str:
        """The id to write for that provider: its own where it issued the call, else a made one. Never changes.

        Raises ConfigurationError where the rule allows so few ids that none is left.
        """
        sent = self._sent.setdefault(provider, {})
        if canonical not in sent:
            holders = self._holder.setdefault(provider, {})
            native = self.native_id(canonical, provider)
            wire = native if native and native not in holders else self._make(canonical, provider, rule)
            sent[canonical] = wire
            holders[wire] = canonical
        return sent[canonical]

    def _make(self, canonical: str, provider: str, rule: ToolIdRule) -> str:
        taken = self._holder[provider]
        for attempt in range(_MAX_ATTEMPTS):
            derived = _derive_id(canonical, attempt, rule)
            # An id that its issuer gave to another call stays reserved for that call.
            if derived not in taken and self._latest.get((provider, derived), canonical) == canonical:
                return derived
        raise ConfigurationError(f"the tool id rule of {provider} leaves no free id: {len(taken)} are in use")

    def dump(self) -> dict[str, Any]:
        """JSON of the whole map."""
        return {
            "issued": {canonical: list(pair) for canonical, pair in self._issued.items()},
            "sent": {provider: dict(ids) for provider, ids in self._sent.items()},
        }

    @classmethod
    def load(cls, data: dict[str, Any], mint: Callable[[], str] = new_tool_use_id) -> "ToolIdMap":
        restored = cls(mint)
        for canonical, (provider, native) in data.get("issued", {}).items():
            restored.remember(canonical, provider, native)
        for provider, ids in data.get("sent", {}).items():
            restored._sent[provider] = dict(ids)
            restored._holder[provider] = {wire: canonical for canonical, wire in ids.items()}
        return restored


def _derive_id(canonical: str, attempt: int, rule: ToolIdRule) -> str:
    """An id that is legal for the rule, from letters and digits where it knows any."""
    alphabet = [character for character in rule.alphabet if character.isalnum()] or rule.alphabet
    length = max(rule.min_length, min(rule.max_length, _DERIVED_LENGTH)) - len(rule.prefix)
    digest = hashlib.shake_256(f"{canonical}/{attempt}".encode()).digest(4 * length)
    digits = (int.from_bytes(digest[start : start + 4]) for start in range(0, len(digest), 4))
    return rule.prefix + "".join(alphabet[digit % len(alphabet)] for digit in digits)
