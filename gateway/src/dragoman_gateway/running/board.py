"""The status board of one gateway's workers: each worker writes its status there, and any of them can show all of it.

It is a folder of the first process, with a file for each worker and one for the counts of workers that have ended.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

VARIABLE = "DRAGOMAN_GATEWAY_BOARD"
"""The folder, for the workers that the first process starts."""
_ENDED = "ended.json"
_ORDER = "order.json"


class Board:
    """``own`` is the name of the worker that writes; None for the first process."""

    def __init__(self, folder: Path, own: str | None = None) -> None:
        self._folder = folder
        self._own = own

    @classmethod
    def of_environment(cls) -> "Board | None":
        """Return the board of this worker; None for a gateway of one process."""
        folder = os.environ.get(VARIABLE)
        return None if folder is None else cls(Path(folder), str(os.getpid()))

    def write(self, status: Mapping[str, Any]) -> None:
        """Show the status of this worker. A board that cannot be written shows an older one."""
        with suppress(OSError):
            self._replace(f"worker-{self._own}.json", status)

    def others(self) -> Iterator[dict[str, Any]]:
        """Yield the statuses of the other workers that are running."""
        for file in sorted(self._folder.glob("worker-*.json")):
            if file.name != f"worker-{self._own}.json" and (status := _read(file)):
                yield status

    def ended(self) -> dict[str, Any]:
        """Return the counts of workers that ended."""
        return _read(self._folder / _ENDED)

    def retire(self, worker: str, ended: Mapping[str, Any]) -> None:
        """Remove a worker that ended from the board, and add its counts to those of the ended workers."""
        self._replace(_ENDED, ended)
        (self._folder / f"worker-{worker}.json").unlink(missing_ok=True)

    def status_of(self, worker: str) -> dict[str, Any]:
        return _read(self._folder / f"worker-{worker}.json")

    def order(self, order: Mapping[str, Any]) -> None:
        """Tell all workers what to do with a configuration that they have read."""
        self._replace(_ORDER, order)

    def ordered(self) -> dict[str, Any]:
        return _read(self._folder / _ORDER)

    def _replace(self, name: str, content: Mapping[str, Any]) -> None:
        handle, path = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        Path(path).replace(self._folder / name)


def _read(file: Path) -> dict[str, Any]:
    """Return the content of a file; an empty object if it does not exist."""
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found
