"""A store whose every state is kept: what a program would find that was killed between two transactions."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import event

from dragoman.store import Store


@dataclass
class Crash:
    """The store after one commit. ``done`` is what the program had done when the next commit began."""

    url: str
    done: list[Any] = field(default_factory=list)


@contextmanager
def record_crashes(store: Store, folder: Path, done: list[Any]) -> Iterator[list[Crash]]:
    """Copy the file of a store at each commit. ``done`` is a log of the program."""
    crashes: list[Crash] = []

    def before_commit(_: Any) -> None:
        if crashes:
            crashes[-1].done = list(done)

    def copy() -> None:
        path = folder / f"crash_{len(crashes)}.db"
        with sqlite3.connect(str(store._database.file)) as source, sqlite3.connect(path) as target:
            source.backup(target)
        source.close()
        target.close()
        crashes.append(Crash(f"sqlite:///{path}"))

    write = store._database.write

    def write_and_copy(work: Callable[[Any], Any], **how: Any) -> Any:
        result = write(work, **how)
        copy()
        return result

    event.listen(store._database.engine, "commit", before_commit)
    store._database.write = write_and_copy  # type: ignore[method-assign]  # each write is one transaction
    try:
        yield crashes
    finally:
        event.remove(store._database.engine, "commit", before_commit)
        store._database.write = write  # type: ignore[method-assign]
        if crashes:
            crashes[-1].done = list(done)
