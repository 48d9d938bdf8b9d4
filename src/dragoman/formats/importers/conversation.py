"""One conversation of a source with several."""

from dataclasses import dataclass

from dragoman.canonical.message import Message


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation of a source. ``name`` is its name in the source, or its number there."""

    name: str
    messages: list[Message]
    """The messages, oldest first."""
