"""What a provider's replies contain that this version does not know, because the provider's API has changed.

Decoders keep or ignore what they do not know. They note its name in `provider_raw` of the reply, and nothing of its
value. The bus reports it with the reply, and ``dragoman doctor --drift`` counts it in the kept conversations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

from dragoman.adapter.package_data import read_toml
from dragoman.canonical.blocks import ContentBlock, ProviderBlock
from dragoman.canonical.log import one_line
from dragoman.canonical.message import Message

DriftKind = Literal["event", "field", "part", "stop_reason"]

DRIFT_NOTE = "drift"
"""The note of a reply on the unknown names, by kind."""
_MAX_NAMES = 20
"""The most unknown names of one kind that one reply reports."""
_MAX_CHARS = 80


class Drift(NamedTuple):
    """One name that a reply used, and that this version does not know."""

    provider: str
    kind: DriftKind
    name: str


@dataclass(frozen=True, slots=True)
class KnownNames:
    """What this version knows of a wire's replies, below their top level.

    The names are looked for where an adapter keeps what it does not read: in its notes, in native blocks and in the raw
    usage. So a reply without such leftovers costs next to nothing.
    """

    part_fields: frozenset[str]
    """Fields of a part, an item or a call, of any kind."""
    parts: frozenset[str]
    """Kinds of parts that become native blocks."""
    usage: frozenset[str]
    """Fields of the usage."""
    places: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Fields of the objects that the adapter notes whole, by the key of the note."""
    reply: frozenset[str] = frozenset()
    """Fields of a reply, for adapters that note what they do not know of it."""
    request: frozenset[str] = frozenset()
    """Fields of a reply that repeat the request."""

    def find_unknown(
        self, content: Iterable[ContentBlock], raw: Mapping[str, Any], usage: Mapping[str, Any]
    ) -> list[tuple[DriftKind, list[str]]]:
        """Return the other names. ``raw`` are the notes of the reply, ``usage`` its raw counts."""
        found: list[tuple[DriftKind, list[str]]] = []
        if not usage.keys() <= self.usage:
            found.append(("field", [f"usage.{name}" for name in usage.keys() - self.usage]))
        for place, known in self.places.items():
            if place in raw and not raw[place].keys() <= known:
                prefix = "" if place == "reply" else f"{place}."
                found.append(("field", [f"{prefix}{name}" for name in raw[place].keys() - known]))
        if "blocks" in raw:
            notes = [note for note in raw["blocks"].values() if isinstance(note, dict)]
            # What a part has beyond our encoding; see `dragoman.adapter.wire_diff`.
            notes += [inner for note in notes if isinstance(inner := note.get("inner"), dict)]
            names = {name for note in notes for name in note.get("set", ())}
            if unknown := names - self.part_fields:
                found.append(("field", [f"part.{name}" for name in unknown]))
        native = [block.kind for block in content if type(block) is ProviderBlock]
        if native and not self.parts.issuperset(native):
            found.append(("part", [kind for kind in native if kind not in self.parts]))
        return found


@cache
def known_names(package: str) -> KnownNames:
    """Return the names of an adapter's known_names.toml, which is read with its first reply."""
    data = {"places": {}, **read_toml(package, "known_names.toml")}
    places = {place: frozenset(names.split()) for place, names in data.pop("places").items()}
    return KnownNames(**{name: frozenset(names.split()) for name, names in data.items()}, places=places)


def add_drift(note: dict[str, list[str]], kind: DriftKind, names: Iterable[object]) -> None:
    """Add unknown names to a note. Names are cut to 80 characters, and a kind has 20 names at most."""
    known = note.setdefault(kind, [])
    for name in sorted({one_line(str(each))[:_MAX_CHARS] for each in names}):
        if name not in known and len(known) < _MAX_NAMES:
            known.append(name)


def drift_of(message: Message) -> tuple[Drift, ...]:
    """Return the unknown names of a reply; empty if it has none, or is not a reply."""
    raw = message.metadata.provider_raw
    note = None if raw is None else raw.get(DRIFT_NOTE)
    if not isinstance(note, dict):
        return ()
    provider = str(raw.get("by", ""))  # type: ignore[union-attr]  # a note is a part of it
    return tuple(Drift(provider, kind, str(name)) for kind in get_args(DriftKind) for name in note.get(kind, ()))


def with_drift(message: Message, kind: DriftKind, names: Iterable[object]) -> Message:
    """Return the message with a note on more unknown names."""
    raw = dict(message.metadata.provider_raw or {})
    note = {name: list(known) for name, known in raw.get(DRIFT_NOTE, {}).items()}
    add_drift(note, kind, names)
    metadata = message.metadata.model_copy(update={"provider_raw": {**raw, DRIFT_NOTE: note}})
    return message.model_copy(update={"metadata": metadata})
