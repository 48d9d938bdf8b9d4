"""What a forked child process must drop: locks, threads and connections that belong to its parent.

Another thread of the parent may have held a lock at the time of the fork, and does not exist in the child.
"""

import os
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


def _after_fork() -> None:
    _Process.generation += 1
    for target in list(_registered):
        target.after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)
