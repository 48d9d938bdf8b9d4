"""Requests of providers inside other documents."""

import re
from collections.abc import Sequence
from typing import Any

from dragoman.canonical.message import Message
from dragoman.formats.errors import FormatError
from dragoman.formats.native import from_native
from dragoman.formats.reading.losses import moved_losses

_ENTRY = re.compile(r"\$\.\w+\[(\d+)\]")


def read_request(provider: str, body: Any, path: str, entry_paths: Sequence[str] = ()) -> list[Message]:
    """Return the messages of a request. Raises FormatError, with the path in the document.

    ``entry_paths`` are those of the entries of its list, if the request itself is not in the document.
    """

    def move(inner: str) -> str:
        entry = _ENTRY.match(inner)
        if entry is not None and int(entry[1]) < len(entry_paths):
            return entry_paths[int(entry[1])] + inner[entry.end() :]
        return path + inner.removeprefix("$")

    try:
        with moved_losses(move):
            return from_native(provider, body)
    except FormatError as error:
        raise FormatError(error.reason, path=move(error.path)) from None
