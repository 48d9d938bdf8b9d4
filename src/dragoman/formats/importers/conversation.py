"""One conversation of a source that holds several."""

from dataclasses import dataclass

from dragoman.canonical.message import Message


@dataclass(frozen=True, slots=True)
class Conversation:
    """``name`` is what its source calls it, or its number there."""

    name: str
    messages: list[Message]
