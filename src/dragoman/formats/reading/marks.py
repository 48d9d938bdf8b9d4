"""What the tables of marks share: a mark of a format in the entries of a list, and the parts of an entry."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EntryMark:
    """``has`` finds the feature; ``objection`` says why an entry cannot be of the format, or returns None."""

    name: str
    has: Callable[[Entry], bool]
    objection: Callable[[Entry], str | None]


def parts_of(entry: Entry, name: str = "content") -> Iterator[Entry]:
    parts = entry.get(name)
    return (part for part in parts if isinstance(part, Mapping)) if isinstance(parts, list) else iter(())


def word(entry: Entry, name: str) -> str:
    """Return a field that is a word of a list, such as a type; nothing if it is not a text at all."""
    found = entry.get(name)
    return found if isinstance(found, str) else ""


def no_objection(_: Entry) -> str | None:
    return None


def role_objection(entry: Entry) -> str | None:
    return None if isinstance(entry.get("role"), str) else "an entry has no role"
