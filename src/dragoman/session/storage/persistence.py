"""Saves what is new in a session to its store, in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.message import Message
from dragoman.configuration.session_store import SessionStore
from dragoman.open_turns import TurnStep
from dragoman.session.storage.snapshot import Snapshot


class Persistence:
    """Tracks what the store has of one session. ``version`` is the store's; None if the session is not stored yet.

    Tools that run at the same time may save from several threads.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        version: int | None = None,
        messages: int = 0,
        attempts: int = 0,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self._store = store
        self._facts = {name: value for name, value in (facts or {}).items() if value is not None}
        self._version = version
        self._messages = messages
        self._attempts = attempts
        self._lock = RLock()

    def save(
        self,
        snapshot: Snapshot,
        *,
        user_id: str | None,
        team_id: str | None,
        may_save: Callable[[Sequence[Message]], bool],
        step: TurnStep | None = None,
        touch: bool = False,
    ) -> int | None:
        """Save what is new, if anything is, and if ``may_save`` accepts it. Return the session's version in the store.
        ``touch``: write to a session that is stored even if nothing is new, which a store that is gone refuses.

        Raises ConflictError if another program added to the session meanwhile: nothing is overwritten, and this session
        keeps what it has. Raises StoreError.
        """
        with self._lock:
            messages, attempts = snapshot.messages[self._messages :], snapshot.attempts[self._attempts :]
            is_due = messages or attempts or step or (touch and self._version is not None)
            if not is_due or not may_save(messages):
                return self._version
            self._write(snapshot, messages, attempts, user_id, team_id, step)
            self._messages, self._attempts = len(snapshot.messages), len(snapshot.attempts)
            return self._version

    def _write(
        self,
        snapshot: Snapshot,
        messages: Sequence[Message],
        attempts: Sequence[Message],
        user_id: str | None,
        team_id: str | None,
        step: TurnStep | None,
    ) -> None:
        new_extensions = {
            message.id: snapshot.extensions[message.id] for message in messages if message.id in snapshot.extensions
        }
        optional: dict[str, Any] = {"extensions": new_extensions or None, "step": step}
        extra = {name: value for name, value in optional.items() if value is not None}  # a store need not support them
        # Only messages bring new ids.
        tool_ids = snapshot.tool_ids if messages or self._version is None else None
        if self._version is None:
            record = self._store.create(
                snapshot.model,
                messages,
                session_id=snapshot.session_id,
                tool_ids=tool_ids,
                attempts=attempts,
                user_id=user_id,
                team_id=team_id,
                **self._facts,
                **extra,
            )
            self._version = record.version
        else:
            self._version = self._store.append(
                snapshot.session_id,
                messages,
                expected_version=self._version,
                tool_ids=tool_ids,
                model=snapshot.model,
                attempts=attempts,
                **extra,
            )

    def annotate(self, snapshot: Snapshot, message_id: str, extensions: Mapping[str, Any]) -> None:
        """Replace the stored extensions of a message. A message that is not stored yet is saved with them later.
        Raises as `save` does.
        """
        is_stored = any(message.id == message_id for message in snapshot.messages[: self._messages])
        if self._version is None or not is_stored:
            return
        annotate = getattr(self._store, "annotate", None)  # an optional method of a store
        if annotate is None:
            raise ConfigurationError(
                f"a {type(self._store).__name__} cannot change the extensions of a stored message, which a"
                " declassification needs: give it a method annotate, as dragoman.store.Store has"
            )
        self._version = annotate(snapshot.session_id, message_id, extensions, expected_version=self._version)
