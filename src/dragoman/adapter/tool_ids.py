"""The map of tool ids of a session (docs/reference/tool-ids.md).

Every call gets a canonical id when it arrives. Its issuer gets its own id back; every other provider gets an id derived
from the canonical one: legal for its rule, the same in every process, and distinct from
every other id in the session.
"""

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.facts.capabilities import ToolIdRule
from dragoman.canonical.ids import new_tool_use_id

_DERIVED_LENGTH = 24
_MAX_ATTEMPTS = 1000


class ToolIdMap:
    """Maps canonical ids to each provider's, and back. Serialize with `dump`, restore with `load`."""

    def __init__(self, mint: Callable[[], str] = new_tool_use_id) -> None:
        self._mint = mint
        self._issued: dict[str, tuple[str, str]] = {}
        self._latest: dict[tuple[str, str], str] = {}
        self._sent: dict[str, dict[str, str]] = {}
        self._holder: dict[str, dict[str, str]] = {}
        self._rule: ToolIdRule | None = None
        """The rule of the latest id that was made, with the characters and the digits of its ids after the prefix."""
        self._alphabet = ""
        self._digits = struct.Struct("")

    def __bool__(self) -> bool:
        return True  # an empty map is still the caller's map: `map or ToolIdMap()` must not lose it

    def __len__(self) -> int:
        return len(self._issued)

    def receive(self, provider: str, native: str | None) -> str:
        """Return a canonical id for a new call; a repeated id of the provider gets a new one each time."""
        canonical = self._mint()
        self.remember(canonical, provider, native or "")
        return canonical

    def receive_history(self, provider: str, native: str | None) -> str:
        """Return a canonical id for a call in a request that is read. `ClientToolIds` derives it from the native id."""
        return self.receive(provider, native)

    @property
    def calls_of_history(self) -> Sequence[Any]:
        """The calls of the request that was read, in order, for `repeat_history`. `ClientToolIds` notes them."""
        return ()

    def repeat_history(self, provider: str, calls: Sequence[Any]) -> bool:
        """Take over calls of an earlier request, as if they were received again. Return False, and take over none, if
        they could get other ids here."""
        return False

    def reissue(self, canonical: str, provider: str, native: str) -> None:
        """Set the issuer of a call that was read from another provider's wire, and the issuer's own id."""
        self._issued[canonical] = (provider, native)
        self._latest[provider, native] = canonical

    def remember(self, canonical: str, provider: str, native: str) -> None:
        """Store the issuer of a call and its id. The first entry of a canonical id counts; an empty id counts as
        none."""
        if native and canonical not in self._issued:
            self._issued[canonical] = (provider, native)
            self._latest[provider, native] = canonical

    def find(self, provider: str, native: str) -> str | None:
        """Return the canonical id of the provider's latest call of that id."""
        return self._latest.get((provider, native))

    def native_id(self, canonical: str, provider: str) -> str | None:
        """Return the provider's own id of the call, if it issued it."""
        issuer, native = self._issued.get(canonical, ("", ""))
        return native if issuer == provider else None

    def id_for(self, canonical: str, provider: str, rule: ToolIdRule) -> str:
        """Return the id to send to that provider: its own if it issued the call, else a derived one. It never changes.

        Raises ConfigurationError if the rule allows so few ids that none is free.
        """
        if (sent := self._sent.get(provider)) is None:
            sent = self._sent[provider] = {}
        if (wire := sent.get(canonical)) is None:
            if (holders := self._holder.get(provider)) is None:
                holders = self._holder[provider] = {}
            native = self.native_id(canonical, provider) if canonical in self._issued else None
            wire = native if native and native not in holders else self._make(canonical, provider, rule, holders)
            sent[canonical] = wire
            holders[wire] = canonical
        return wire

    def sent_to(self, provider: str) -> dict[str, str]:
        """Return the ids that were sent to that provider, by canonical id."""
        return dict(self._sent.get(provider, {}))

    def adopt(self, provider: str, sent: Mapping[str, str]) -> bool:
        """Take over the ids that an earlier request of the conversation sent to that provider. Return False, and take
        over none, if `id_for` would return another one of them."""
        own, holders = self._sent.get(provider, {}), self._holder.get(provider, {})
        for canonical, wire in sent.items():
            native = self.native_id(canonical, provider)
            taken = holders.get(wire, canonical) != canonical or own.get(canonical, wire) != wire
            reserved = native != wire and self._latest.get((provider, wire), canonical) != canonical
            if taken or reserved or (native or wire) != wire:
                return False
        if sent:
            self._sent[provider] = {**own, **sent}
            self._holder[provider] = {**holders, **{wire: canonical for canonical, wire in sent.items()}}
        return True

    def _make(self, canonical: str, provider: str, rule: ToolIdRule, holders: Mapping[str, str]) -> str:
        """Return a free id that is legal for the rule, from letters and digits if it allows them."""
        if rule is not self._rule:  # a history has many calls of one rule, and a look at its fields takes long
            self._rule, self._alphabet = rule, "".join(filter(str.isalnum, rule.alphabet)) or rule.alphabet
            length = max(rule.min_length, min(rule.max_length, _DERIVED_LENGTH)) - len(rule.prefix)
            self._digits = struct.Struct(f">{length}I")
        alphabet, digits = self._alphabet, self._digits
        size = len(alphabet)
        for attempt in range(_MAX_ATTEMPTS):
            digest = hashlib.shake_256(f"{canonical}/{attempt}".encode()).digest(digits.size)
            derived = rule.prefix + "".join([alphabet[digit % size] for digit in digits.unpack(digest)])
            # An id that its issuer gave to another call stays reserved for that call.
            if derived not in holders and self._latest.get((provider, derived), canonical) == canonical:
                return derived
        raise ConfigurationError(f"the tool id rule of {provider} leaves no free id: {len(holders)} are in use")

    def dump(self) -> dict[str, Any]:
        """Return the whole map as JSON values."""
        return {
            "issued": {canonical: list(pair) for canonical, pair in self._issued.items()},
            "sent": {provider: dict(ids) for provider, ids in self._sent.items()},
        }

    @classmethod
    def load(cls, data: dict[str, Any], mint: Callable[[], str] = new_tool_use_id) -> "ToolIdMap":
        """Restore a map from what `dump` returned. ``mint`` makes the ids of calls that are still to come."""
        restored = cls(mint)
        for canonical, (provider, native) in data.get("issued", {}).items():
            restored.remember(canonical, provider, native)
        for provider, ids in data.get("sent", {}).items():
            restored._sent[provider] = dict(ids)
            restored._holder[provider] = {wire: canonical for canonical, wire in ids.items()}
        return restored
