"""What a provider's replies contain that this version does not know, because the provider's API has changed.

Decoders keep or ignore what they do not know. They note its name in `provider_raw` of the reply, and nothing of its
value. The bus reports it with the reply, and ``dragoman doctor --drift`` counts it in the kept conversations.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from dragoman.canonical.log import one_line
from dragoman.canonical.message import Message

DriftKind = Literal["event", "field", "stop_reason"]

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
    return tuple(Drift(provider, kind, str(name)) for kind in _KINDS for name in note.get(kind, ()))


_KINDS: tuple[DriftKind, ...] = ("event", "field", "stop_reason")


def with_drift(message: Message, kind: DriftKind, names: Iterable[object]) -> Message:
    """Return the message with a note on more unknown names."""
    raw = dict(message.metadata.provider_raw or {})
    note = {name: list(known) for name, known in raw.get(DRIFT_NOTE, {}).items()}
    add_drift(note, kind, names)
    metadata = message.metadata.model_copy(update={"provider_raw": {**raw, DRIFT_NOTE: note}})
    return message.model_copy(update={"metadata": metadata})
