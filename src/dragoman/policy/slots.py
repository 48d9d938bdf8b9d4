"""The table of the extensions' slots: who may read and change each.

A slot that is not in the table can be neither read nor changed. Source: docs/reference/cmf.md#tiers and
docs/reference/cmf.md#capabilities.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from dragoman.adapter.errors import ConfigurationError

__all__ = ["SLOTS", "Capability", "Slot", "Tier", "expand_capabilities"]


class Tier(StrEnum):
    """Immutable slots never change, monotonic ones only grow, guarded ones need a capability, mutable ones are free."""

    IMMUTABLE = "immutable"
    MONOTONIC = "monotonic"
    GUARDED = "guarded"
    MUTABLE = "mutable"


class Capability(StrEnum):
    """What a plugin may see or change. Source: docs/reference/cmf.md#capabilities."""

    READ_SUBJECT = "read_subject"
    READ_ROLES = "read_roles"
    READ_TEAMS = "read_teams"
    READ_CLAIMS = "read_claims"
    READ_PERMISSIONS = "read_permissions"
    READ_OBJECTS = "read_objects"
    READ_DATA = "read_data"
    READ_AGENT = "read_agent"
    READ_HEADERS = "read_headers"
    WRITE_HEADERS = "write_headers"
    READ_LABELS = "read_labels"
    APPEND_LABELS = "append_labels"
    DECLASSIFY_LABELS = "declassify_labels"
    READ_DELEGATION = "read_delegation"
    APPEND_DELEGATION = "append_delegation"


IMPLIED: dict[Capability, Capability] = {
    Capability.READ_ROLES: Capability.READ_SUBJECT,
    Capability.READ_TEAMS: Capability.READ_SUBJECT,
    Capability.READ_CLAIMS: Capability.READ_SUBJECT,
    Capability.READ_PERMISSIONS: Capability.READ_SUBJECT,
    Capability.WRITE_HEADERS: Capability.READ_HEADERS,
    Capability.APPEND_LABELS: Capability.READ_LABELS,
    Capability.DECLASSIFY_LABELS: Capability.READ_LABELS,
    Capability.APPEND_DELEGATION: Capability.READ_DELEGATION,
}
"""A capability (the key) that includes another one. The implied ones imply nothing more."""


class Slot(NamedTuple):
    """How one slot of the extensions is protected. ``read`` is the capability to read it, ``write`` the one to change
    it. If ``read`` is None, everyone may read it.
    """

    tier: Tier
    """How the slot may change. Source: docs/reference/cmf.md#tiers."""
    read: Capability | None = None
    write: Capability | None = None


_FOR_ALL = ("request", "provenance", "completion", "llm", "framework", "mcp", "meta", "security.classification")

SLOTS: dict[str, Slot] = {
    **dict.fromkeys(_FOR_ALL, Slot(Tier.IMMUTABLE)),
    "agent": Slot(Tier.IMMUTABLE, read=Capability.READ_AGENT),
    "http": Slot(Tier.GUARDED, read=Capability.READ_HEADERS, write=Capability.WRITE_HEADERS),
    "security.labels": Slot(Tier.MONOTONIC, read=Capability.READ_LABELS, write=Capability.APPEND_LABELS),
    "security.subject": Slot(Tier.IMMUTABLE, read=Capability.READ_SUBJECT),
    "security.subject.id": Slot(Tier.IMMUTABLE, read=Capability.READ_SUBJECT),
    "security.subject.type": Slot(Tier.IMMUTABLE, read=Capability.READ_SUBJECT),
    "security.subject.roles": Slot(Tier.IMMUTABLE, read=Capability.READ_ROLES),
    "security.subject.permissions": Slot(Tier.IMMUTABLE, read=Capability.READ_PERMISSIONS),
    "security.subject.teams": Slot(Tier.IMMUTABLE, read=Capability.READ_TEAMS),
    "security.subject.claims": Slot(Tier.IMMUTABLE, read=Capability.READ_CLAIMS),
    "security.objects": Slot(Tier.IMMUTABLE, read=Capability.READ_OBJECTS),
    "security.data": Slot(Tier.IMMUTABLE, read=Capability.READ_DATA),
    "delegation": Slot(Tier.MONOTONIC, read=Capability.READ_DELEGATION, write=Capability.APPEND_DELEGATION),
    "custom": Slot(Tier.MUTABLE),
}
"""The slots by path. A path of one word covers everything below it; security and its subject have a row for each
field."""


def expand_capabilities(capabilities: Iterable[Capability | str]) -> frozenset[Capability]:
    """Return the capabilities with all that they imply; a single string is one capability, not its letters.

    Raises ConfigurationError for an unknown name.
    """
    return _expand(frozenset((capabilities,) if isinstance(capabilities, str) else capabilities))


@lru_cache(maxsize=256)
def _expand(names: frozenset[Capability | str]) -> frozenset[Capability]:
    direct = set()
    for name in names:
        try:
            direct.add(Capability(name))
        except ValueError:
            near = get_close_matches(str(name), list(Capability), n=1)
            hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(Capability)}"
            raise ConfigurationError(f"{name!r} is not a capability: {hint}") from None
    return frozenset(direct | {IMPLIED[name] for name in direct if name in IMPLIED})
