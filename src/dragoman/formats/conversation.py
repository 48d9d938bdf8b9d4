"""One conversation of a source with several."""

from dataclasses import dataclass

from dragoman.adapter.losses import Loss
from dragoman.canonical.message import Message
from dragoman.formats.errors import FormatError


@dataclass(frozen=True, slots=True)
class Conversation:
    """``name`` is its name in the source, or its number there."""

    name: str
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class ReadResult:
    """``format`` is the name of the format. Each loss has the path in the source."""

    format: str
    conversations: list[Conversation]
    losses: tuple[Loss, ...] = ()

    @property
    def messages(self) -> list[Message]:
        """The messages of the only conversation. Raises FormatError if there are several, or none."""
        if len(self.conversations) != 1:
            raise FormatError(f"the document holds {len(self.conversations)} conversations: choose one by its name")
        return self.conversations[0].messages
