"""What a writer is handed: a history is a list of messages."""

from collections.abc import Iterable

from dragoman.canonical.message import Message


def as_history(messages: Iterable[Message]) -> list[Message]:
    """The messages as a list. Raises TypeError where it is one message alone, or something in it is none."""
    if isinstance(messages, (Message, str, bytes)):
        raise TypeError(f"a history is a list of messages, not a {type(messages).__name__} alone")
    history = list(messages)
    for index, message in enumerate(history):
        as_message(message, f"history[{index}]")
    return history


def as_message(message: Message, place: str = "this") -> Message:
    """The message. Raises TypeError where it is none."""
    if not isinstance(message, Message):
        raise TypeError(f"{place} is a {type(message).__name__}, not a Message: from_messages reads JSON")
    return message
