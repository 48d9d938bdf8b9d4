"""Errors of a store.

DragomanError
└── StoreError                  the operation failed; nothing changed
    ├── ConflictError           another writer was first: load the session again before the next try
    ├── SessionNotFoundError    no session, or no message in it, has that id
    ├── StoreBusyError          other programs locked the database for longer than the store waits
    ├── StoreVersionError       the file, or the line, was written by a newer version
    └── UnreadableError         a row or a line does not hold a valid message
"""

from dragoman.adapter.errors import DragomanError


class StoreError(DragomanError):
    """An operation of a store failed, and changed nothing."""


class ConflictError(StoreError):
    """Another writer was first: load the session again before the next try. ``expected`` and ``found`` are versions of
    the session; both are None if an id is taken."""

    def __init__(self, message: str, *, expected: int | None = None, found: int | None = None) -> None:
        self.expected = expected
        self.found = found
        super().__init__(message)


class SessionNotFoundError(StoreError):
    """No session, or no message in it, has that id."""


class StoreBusyError(StoreError):
    """Other programs locked the database for longer than the store waits."""


class StoreVersionError(StoreError):
    """The database, or the line, was written by a newer version of this library."""


class UnreadableError(StoreError):
    """A row or a line does not hold a valid message."""
