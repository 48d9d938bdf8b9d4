"""Requests of providers inside other documents."""

from typing import Any

from dragoman.canonical.message import Message
from dragoman.formats.errors import FormatError
from dragoman.formats.native import from_native
from dragoman.formats.reading.losses import moved_losses


def read_request(provider: str, body: Any, path: str) -> list[Message]:
    """Return the messages of a request. Raises FormatError, with the path in the document."""
    try:
        with moved_losses(path):
            return from_native(provider, body)
    except FormatError as error:
        raise FormatError(error.reason, path=path + error.path.removeprefix("$")) from None
