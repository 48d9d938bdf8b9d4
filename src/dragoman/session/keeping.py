"""A session and its store: what a turn added is kept when the turn ends, all of it in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.message import Message
from dragoman.session.stored import Stored


class SessionStore(Protocol):
    """What a session asks of its store; `dragoman.store.Store` is one. Its errors reach the caller as they are."""

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
        """A record with the new session's ``version``."""
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
        """The new version."""
        ...

    def load(self, session_id: str) -> Any:
        """The session as a `dragoman.store.StoredSession` has it."""
        ...


class Keeper:
    """Knows what the store has of one session. ``version`` is the store's; None where it does not know it yet."""

    def __init__(
        self, store: SessionStore, *, version: int | None = None, messages: int = 0, attempts: int = 0
    ) -> None:
        self._store = store
        self._version = version
        self._messages = messages
        self._attempts = attempts

    def keep(self, session: Stored, *, user_id: str | None, team_id: str | None) -> None:
        """Adds what is new; nothing where nothing is. Raises ConflictError where another program added to the session
        meanwhile: nothing is overwritten, and what this one holds is not lost. StoreError.
        """
        messages, attempts = session.messages[self._messages :], session.attempts[self._attempts :]
        if not (messages or attempts):
            return
        kept = {message.id: session.extensions[message.id] for message in messages if message.id in session.extensions}
        beside = {"extensions": kept} if kept else {}  # a store of a session without a policy need not know of them
        if self._version is None:
            record = self._store.create(
                session.model,
                messages,
                session_id=session.session_id,
                tool_ids=session.tool_ids,
                attempts=attempts,
                user_id=user_id,
                team_id=team_id,
                **beside,
            )
            self._version = record.version
        else:
            self._version = self._store.append(
                session.session_id,
                messages,
                expected_version=self._version,
                tool_ids=session.tool_ids,
                model=session.model,
                attempts=attempts,
                **beside,
            )
        self._messages, self._attempts = len(session.messages), len(session.attempts)

    def annotate(self, session: Stored, message_id: str, beside: Mapping[str, Any]) -> None:
        """Writes anew what is kept beside a message; where the store has it not yet, that comes with the message.
        Raises as `keep` does.
        """
        there = any(message.id == message_id for message in session.messages[: self._messages])
        if self._version is None or not there:
            return
        annotate = getattr(self._store, "annotate", None)  # most sessions never need it of their store
        if annotate is None:
            raise ConfigurationError(
                f"a {type(self._store).__name__} cannot write anew what stands beside a message, which records of"
                " declassification need: give it a method annotate, as dragoman.store.Store has"
            )
        self._version = annotate(session.session_id, message_id, beside, expected_version=self._version)
