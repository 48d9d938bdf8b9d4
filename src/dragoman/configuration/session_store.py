"""The store of sessions, as far as sessions use it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.message import Message


class SessionStore(Protocol):
    """The store of sessions; `dragoman.store.Store` is one. Its errors reach the caller unchanged.

    A store with a true attribute ``stores_steps`` gets each step of a turn: `create` and `append` then take a ``step``,
    a `dragoman.open_turns.TurnStep`, and `load` returns the open turn as ``turn``. Another one gets each turn when it
    ends.

    A store whose attribute ``never_waits`` is true is called in the event loop of an AsyncSession, and not in a thread:
    one that only takes notes, and writes them later.
    """

    def create(
        self,
        model: str | None = None,
        messages: Sequence[Message] = (),
        *,
        session_id: str | None = None,
        tool_ids: ToolIdMap | None = None,
        attempts: Sequence[Message] = (),
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
        user_id: str | None = None,
        team_id: str | None = None,
    ) -> Any:
        """Return a record with the ``version`` of the new session."""
        ...

    def append(
        self,
        session_id: str,
        messages: Sequence[Message] = (),
        *,
        expected_version: int | None,
        tool_ids: ToolIdMap | None = None,
        model: str | None = None,
        attempts: Sequence[Message] = (),
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> int:
        """Return the new version."""
        ...

    def load(self, session_id: str) -> Any:
        """Return the session, with the fields of a `dragoman.store.StoredSession`."""
        ...
