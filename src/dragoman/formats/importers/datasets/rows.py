"""The rows of a file with a conversation a line, their names, and the requests of providers in them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.canonical.message import Message
from dragoman.formats.document import parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.native import from_native
from dragoman.formats.reading.fields import Fields, iter_fields
from dragoman.formats.reading.losses import moved_losses, source_losses

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


def iter_rows(document: Any, format_name: str) -> Iterator[Fields]:
    """Yield the rows of JSON lines, of a list, or a single one."""
    return iter_fields(parse_json_or_lines(document, format_name=format_name), format_name)


class RowNames:
    """A name for each row: its own id, or its number. No two are equal."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._count = 0

    def next(self, own: Any = None) -> str:
        self._count += 1
        name = own if isinstance(own, str) and own and own not in self._taken else str(self._count)
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name


def drop_tools(row: Fields, name: str = "tools") -> None:
    """Report that the definitions of a row's tools are left out: a history has only the calls."""
    if row.take(name) not in (None, [], "", "[]"):
        source_losses().add(f"{row.path}.{name}", "a history holds no definitions of tools: left out",
                            kind=LossKind.TOOLS)  # fmt: skip
