"""Checks what programs pass to a store."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dragoman.canonical.message import Message
from dragoman.store.errors import StoreError


def read_messages(name: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages. Raises StoreError if they are not a list of Message."""
    wrong: Any = messages
    if isinstance(messages, Iterable) and not isinstance(messages, (str, bytes, Message)):
        found = tuple(messages)
        if all(isinstance(each, Message) for each in found):
            return found
        wrong = next(each for each in found if not isinstance(each, Message))
    raise wrong_class(name, "a list of Message, such as [Message.user(...)],", wrong)


def read_mapping(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value as a dict. Raises StoreError if it is not a mapping."""
    if not isinstance(value, Mapping):
        raise wrong_class(name, "a dict", value)
    return dict(value)


def check_integer(name: str, value: int) -> None:
    """Raise StoreError if the value is not an integer."""
    if not isinstance(value, int):
        raise wrong_class(name, "an integer", value)


def wrong_class(name: str, wanted: str, value: object) -> StoreError:
    """Return the error of a value that is not what was wanted."""
    return StoreError(f"{name} must be {wanted} and has a value of the class {type(value).__name__}")
