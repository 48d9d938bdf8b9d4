"""Validates the history that is passed to a writer."""

from collections.abc import Iterable

from dragoman.canonical.message import Message


def as_history(messages: Iterable[Message]) -> list[Message]:
    """Return the messages as a list. Raises TypeError for a single message, or an item that is not a message."""
    if isinstance(messages, (Message, str, bytes)):
        raise TypeError(f"a history must be a list of messages, not a {type(messages).__name__}")
    history = list(messages)
    for index, message in enumerate(history):
        as_message(message, f"history[{index}]")
    return history


def as_message(message: Message, place: str = "this") -> Message:
    """Return the message. Raises TypeError if it is something else."""
    if not isinstance(message, Message):
        raise TypeError(f"{place} is a {type(message).__name__}, not a Message: from_messages reads JSON")
    return message
