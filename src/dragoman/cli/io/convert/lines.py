"""Conversations as lines of one file: each is written when it is read, and the file appears at the end, whole."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from pydantic_core import to_json

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.losses import Loss
from dragoman.canonical.message import Message
from dragoman.cli.io.convert.files import put_in_place, write_history, write_labels
from dragoman.formats.reading.lines import is_line_file

_LINES_OF_ONE = frozenset({"umf-events", "session", "llm"})
"""Formats of one conversation, which has lines of its own or is a file."""


def is_line_target(target: Path, to: str) -> bool:
    """Whether the target is a file with a conversation in each line."""
    return is_line_file(target) and to not in _LINES_OF_ONE and not target.is_dir()


class LineWriter:
    """Writes conversations to a file. Without an error it is complete; otherwise there is none."""

    def __init__(self, path: Path, to: str, model: str | None, *, overwrite: bool) -> None:
        if path.exists() and not overwrite:
            raise ConfigurationError(f"{path} exists already: choose another name, or pass --overwrite")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._to, self._model, self._overwrite = path, to, model, overwrite
        handle, self._temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        self._file = os.fdopen(handle, "w", encoding="utf-8", newline="")
        self._labels: set[str] = set()
        self.count = 0

    def __enter__(self) -> "LineWriter":
        return self

    def write(self, history: Sequence[Message]) -> tuple[Loss, ...]:
        """Write a conversation as one line, and return the losses."""
        conversion = write_history(history, self._to, self._model)
        data = conversion.data
        is_line = isinstance(data, str) and data.endswith("\n")  # a row of a data set, which is one line already
        self._file.write(data if is_line else to_json(data).decode() + "\n")
        self._labels |= conversion.labels
        self.count += 1
        return conversion.losses

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        temporary = Path(self._temporary)
        try:
            if kind is None and self.count:
                write_labels(self._path, frozenset(self._labels), overwrite=self._overwrite)
                put_in_place(temporary, self._path, overwrite=self._overwrite)
        finally:
            temporary.unlink(missing_ok=True)
