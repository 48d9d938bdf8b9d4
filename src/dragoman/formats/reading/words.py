"""What each library or format calls things: its words for roles, ends of replies, providers and counts, and the names
of fields that say nothing about a conversation. The words are data: ``words.toml``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from dragoman.adapter.package_data import read_toml
from dragoman.canonical.message import Role, StopReason


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one library or format, which are keys or, of counts, paths: a dot leads into an object."""

    roles: Mapping[str, Role]
    stops: Mapping[str, StopReason]
    written_stops: Mapping[str, str]
    providers: Mapping[str, str]
    counts: Mapping[str, Sequence[str]]
    """By the parameters of `build_usage`; the first count that is not 0 is the one."""
    skipped: Mapping[str, Sequence[str]]
    """Fields that say nothing about the conversation, by the object that has them."""


@cache
def words_of(name: str) -> Words:
    """Return the words of a library or format; one without a table has only the common ones."""
    table = read_toml("dragoman.formats.reading", "words.toml")
    row = table.get(name, {})
    stops = row.get("stops", {}) if row.get("own_stops") else {**table["common"]["stops"], **row.get("stops", {})}
    return Words(
        {word: Role(role) for word, role in row.get("roles", {}).items()},
        {word: StopReason(reason) for word, reason in stops.items()},
        row.get("written_stops", {}),
        row.get("providers", {}),
        row.get("counts", {}),
        row.get("skipped", {}),
    )
