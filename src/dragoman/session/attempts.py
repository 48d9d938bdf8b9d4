"""Replies that were billed and are no part of the history: they broke, were denied, or were of no use."""

from collections.abc import Iterable, Sequence

from dragoman.adapter.errors import ProviderError
from dragoman.canonical.message import Message
from dragoman.canonical.usage import Usage
from dragoman.session.reply_reader import with_lower_bound


class Attempts:
    """``all`` of them, without content, in their order."""

    def __init__(self, known: Iterable[Message] = ()) -> None:
        self.all: list[Message] = list(known)

    def record(self, partial: Message | None) -> Usage | None:
        """What a reply was billed that is not kept; None where it had told nothing of that."""
        if partial is None or partial.usage is None:
            return None
        attempt = with_lower_bound(partial.model_copy(update={"content": ()}))
        self.all.append(attempt)
        return attempt.usage

    def record_broken(self, error: ProviderError) -> Usage | None:
        return self.record(error.partial)

    def record_unused(self, reply: Message | None, history: Sequence[Message]) -> None:
        """Remembers what a summary cost that the history does not hold."""
        if reply is not None and all(message.id != reply.id for message in history):
            self.all.append(reply.model_copy(update={"content": ()}))
