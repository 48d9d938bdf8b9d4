"""A session and its store: what a turn added is kept when the turn ends, all of it in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.requests.tool_ids import ToolIdMap
from dragoman.canonical.message import Message
from dragoman.session.snapshot import Snapshot


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


class Persistence:
    """Knows what the store has of one session. ``version`` is the store's; None where it does not know it yet."""

    def __init__(
        self, store: SessionStore, *, version: int | None = None, messages: int = 0, attempts: int = 0
    ) -> None:
        self._store = store
        self._version = version
        self._messages = messages
        self._attempts = attempts

    def save(self, snapshot: Snapshot, *, user_id: str | None, team_id: str | None) -> None:
        """Adds what is new; nothing where nothing is. Raises ConflictError where another program added to the session
        meanwhile: nothing is overwritten, and what this one holds is not lost. StoreError.
        """
        messages, attempts = snapshot.messages[self._messages :], snapshot.attempts[self._attempts :]
        if not (messages or attempts):
            return
        new_extensions = {
            message.id: snapshot.extensions[message.id] for message in messages if message.id in snapshot.extensions
        }
        extra = (
            {"extensions": new_extensions} if new_extensions else {}
        )  # a store of a session without a policy need not know of them
        if self._version is None:
            record = self._store.create(
                snapshot.model,
                messages,
                session_id=snapshot.session_id,
                tool_ids=snapshot.tool_ids,
                attempts=attempts,
                user_id=user_id,
                team_id=team_id,
                **extra,
            )
            self._version = record.version
        else:
            self._version = self._store.append(
                snapshot.session_id,
                messages,
                expected_version=self._version,
                tool_ids=snapshot.tool_ids,
                model=snapshot.model,
                attempts=attempts,
                **extra,
            )
        self._messages, self._attempts = len(snapshot.messages), len(snapshot.attempts)

    def annotate(self, snapshot: Snapshot, message_id: str, extensions: Mapping[str, Any]) -> None:
        """Writes anew what is kept beside a message; where the store has it not yet, that comes with the message.
        Raises as `keep` does.
        """
        is_stored = any(message.id == message_id for message in snapshot.messages[: self._messages])
        if self._version is None or not is_stored:
            return
        annotate = getattr(self._store, "annotate", None)  # most sessions never need it of their store
        if annotate is None:
            raise ConfigurationError(
                f"a {type(self._store).__name__} cannot write anew what stands beside a message, which records of"
                " declassification need: give it a method annotate, as dragoman.store.Store has"
            )
        self._version = annotate(snapshot.session_id, message_id, extensions, expected_version=self._version)
