"""Files with a whole conversation in each line, read in constant memory. A line that cannot be read has an error."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dragoman.adapter.losses import Loss
from dragoman.formats.detection import is_conversation
from dragoman.formats.document import parse, parse_or_none
from dragoman.formats.errors import FormatError
from dragoman.formats.registry import identify_format, read
from dragoman.formats.results import Conversation, read_sidecar

MAX_LINE_BYTES = 256 * 1024 * 1024
"""A longer line is an error. Its rest is skipped."""
_CHUNK = 1024 * 1024
_SUFFIXES = frozenset({".jsonl", ".ndjson"})
_TRIED = 20
"""Lines in which one that can be parsed is looked for."""
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file with a conversation a line. ``number`` counts from 1. ``position`` is the number of bytes up
    to the end of the line.

    A line holds one conversation; a row of a batch without a reply holds none. ``error`` says why a line cannot be
    read, with the path in it.
    """

    number: int
    position: int
    conversations: tuple[Conversation, ...] = ()
    """What was read: at most one conversation."""
    losses: tuple[Loss, ...] = ()
    """What the line holds and a message cannot."""
    error: FormatError | None = None


def is_line_file(path: Path) -> bool:
    """Whether the name says that each line is a JSON value."""
    return path.suffix.lower() in _SUFFIXES


def holds_conversations(path: Path) -> bool:
    """Whether each line of a file is a whole conversation, and not a message, an event or a piece of a document."""
    with path.open("rb") as file:
        for number, (line, _) in zip(range(_TRIED), _iter_raw(file), strict=False):
            document = None if line is None else parse_or_none(line, format_name="JSON")
            if document is not None:
                return is_conversation(document) and (is_line_file(path) or next(_iter_raw(file), None) is not None)
            if number == 0 and not is_line_file(path):
                return False
    return False


def read_lines(path: Path, format_name: str | None = None, *, model: str | None = None) -> Iterator[Line]:
    """Read a file line by line; empty lines are skipped. The format of each line is detected if it is not named.

    Labels in a file beside it hold for each conversation. Raises ConfigurationError if the format is unknown, and
    OSError.
    """
    with path.open("rb") as file:
        position = 0
        for number, (line, length) in enumerate(_iter_raw(file, blank=True), 1):
            position += length
            if line is not None and not line.strip():
                continue
            try:
                if line is None:
                    raise FormatError(f"a line can have at most {MAX_LINE_BYTES} bytes")
                document = parse(line.rstrip(b"\r\n"), format_name="JSON")
                name = format_name
                if name is None:
                    found = identify_format(document)
                    if found.format is None:
                        raise FormatError(f"the format is unknown: {found.reason}")
                    name = found.format
                result = read(document, name, model=model)
                conversations, losses = result.conversations, result.losses
            except FormatError as error:
                yield Line(number, position, error=error)
                continue
            labelled = tuple(Conversation(each.name, read_sidecar(path, each.messages)) for each in conversations)
            yield Line(number, position, labelled, losses)


def _iter_raw(file: BinaryIO, *, blank: bool = False) -> Iterator[tuple[bytes | None, int]]:
    """Yield the lines with their lengths; None for a line that is too long. ``blank``: empty lines as well."""
    first = True
    while line := file.readline(MAX_LINE_BYTES + 1):
        length = len(line)
        if length > MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := file.readline(_CHUNK)) and not rest.endswith(b"\n"):
                length += len(rest)
            yield None, length + len(rest)
            first = False
            continue
        if first:
            line, first = line.removeprefix(_BOM), False
        if blank or line.strip():
            yield line, length
