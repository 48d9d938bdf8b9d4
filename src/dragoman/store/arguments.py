"""Checks what programs pass to a store."""

from collections.abc import Iterable, Sequence
from typing import Any

from dragoman.canonical.message import Message
from dragoman.store.errors import StoreError


def read_messages(name: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages. Raises StoreError if they are no list of Message."""
    wrong: Any = messages
    if isinstance(messages, Iterable) and not isinstance(messages, (str, bytes, Message)):
        found = tuple(messages)
        if all(isinstance(each, Message) for each in found):
            return found
        wrong = next(each for each in found if not isinstance(each, Message))
    raise StoreError(
        f"{name} must be a list of Message, such as [Message.user(...)], and has a value of the class "
        f"{type(wrong).__name__}"
    )
