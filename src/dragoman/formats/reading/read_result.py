"""The result of a reader: conversations, and what the document has that they do not."""

from dataclasses import dataclass

from dragoman.adapter.losses import Loss
from dragoman.canonical.message import Message
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.conversation import Conversation


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The conversations of a source. ``format`` is the name of the format. Each loss has the path in the source."""

    format: str
    conversations: list[Conversation]
    """The conversations in the order of the source."""
    losses: tuple[Loss, ...] = ()
    """What the source holds and messages cannot."""

    @property
    def messages(self) -> list[Message]:
        """The messages of the only conversation. Raises FormatError if there are several, or none."""
        if len(self.conversations) != 1:
            raise FormatError(f"the document holds {len(self.conversations)} conversations: choose one by its name")
        return self.conversations[0].messages
