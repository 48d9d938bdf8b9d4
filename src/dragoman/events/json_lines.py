"""Events as JSON lines: a handler that appends them to a file, and a reader."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from dragoman.adapter.errors import EventError
from dragoman.canonical.forks import ProcessLock
from dragoman.canonical.log import get_logger
from dragoman.events.catalogue import CATALOGUE
from dragoman.events.event import Event, Payload, read_event

logger = get_logger("dragoman.events")

_UNSEEN = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters outside ASCII, line separators, and what changes the order of text."""


class JsonLines:
    """A handler for `EventBus.subscribe` that appends each event to a file, one per line.

    Each line is one write, so several processes may append to one file. Events may be private, so only the owner can
    read a new file. Close it after the bus. Raises OSError if the file cannot be opened.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        self._lock = ProcessLock()  # for threads: processes append whole lines
        self._open = True

    def __call__(self, event: Event) -> None:
        """Append an event. Raises OSError after `close`, and if the disk is too full for the whole line."""
        # JSON leaves these as they are: some terminals obey them, and some readers end a line at them.
        text = _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", event.to_json())
        line = text.encode(errors="replace") + b"\n"
        with self._lock:
            if not self._open:
                raise OSError("the file of events is closed")
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError(f"only {written} of {len(line)} bytes of an event could be written")

    def close(self) -> None:
        """Close the file. Later calls do nothing. Later events raise OSError, which a bus logs."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_json_lines(path: str | Path, types: Mapping[str, type[Payload]] = CATALOGUE) -> Iterator[Event]:
    """Yield the events of a file, in order. An invalid line, such as a partial one after a crash, is logged and
    skipped; unknown types are kept.
    """
    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield read_event(line, types)
            except EventError as error:
                logger.warning("line %d of %s is skipped: %s", number, path, error)
