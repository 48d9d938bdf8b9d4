"""What a forked child process must drop: locks, threads and connections that belong to its parent.

Another thread of the parent may have held a lock at the time of the fork, and does not exist in the child.
"""

import os
import threading
import warnings
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object with state that a forked child must not use."""

    def after_fork(self) -> None:
        """Replace locks and drop connections, in the child, before anything else runs there."""


class _Process:
    """Counts the forks between the first process and this one."""

    generation = 0


_registered: WeakSet[Forkable] = WeakSet()


def reset_after_fork(target: Forkable) -> None:
    """Call ``target.after_fork()`` in every child that is forked while the object exists."""
    _registered.add(target)


def process_generation() -> int:
    """Return a number that differs between a process and the children that it forks."""
    return _Process.generation


class ProcessLock:
    """A lock that a forked child replaces by a new one: nobody there could release its parent's."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        reset_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _after_fork() -> None:
    _Process.generation += 1
    for target in list(_registered):
        target.after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)


class ProcessCheck:
    """Remembers the process in which it was made.

    The connections of such a client are not ours to drop: parent and child would read each other's answers.
    """

    def __init__(self) -> None:
        self._generation = process_generation()

    def warn_after_fork(self) -> None:
        """Warn once if this process is a fork of the one in which the client was made."""
        if self._generation == process_generation():
            return
        self._generation = process_generation()
        warnings.warn(
            "the client of this provider was made before the process was forked: parent and child may receive each "
            "other's answers; make the client in the child, or leave client= out",
            RuntimeWarning,
            stacklevel=2,
        )
