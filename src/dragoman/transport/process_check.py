"""Notices that a client of the caller's own was made in another process."""

import warnings

from dragoman.canonical.forks import process_generation


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
