"""Saves a session to its store: at the end of each turn, everything that it added, in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.message import Message
from dragoman.runtime.session_store import SessionStore
from dragoman.session.effects import Perform, Turn
from dragoman.session.snapshot import Snapshot


class Persistence:
    """Tracks what the store has of one session. ``version`` is the store's; None if the session is not stored yet."""

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

    def save(
        self,
        snapshot: Snapshot,
        *,
        user_id: str | None,
        team_id: str | None,
        may_save: Callable[[Sequence[Message]], bool],
    ) -> None:
        """Save what is new, if anything is, and if ``may_save`` accepts it.

        Raises ConflictError if another program added to the session meanwhile: nothing is overwritten, and this session
        keeps what it has. Raises StoreError.
        """
        messages, attempts = snapshot.messages[self._messages :], snapshot.attempts[self._attempts :]
        if not (messages or attempts) or not may_save(messages):
            return
        new_extensions = {
            message.id: snapshot.extensions[message.id] for message in messages if message.id in snapshot.extensions
        }
        extra = (
            {"extensions": new_extensions} if new_extensions else {}
        )  # without a policy, the store need not support them
        if self._version is None:
            record = self._store.create(
                snapshot.model,
                messages,
                session_id=snapshot.session_id,
                tool_ids=snapshot.tool_ids,
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
                tool_ids=snapshot.tool_ids,
                model=snapshot.model,
                attempts=attempts,
                **extra,
            )
        self._messages, self._attempts = len(snapshot.messages), len(snapshot.attempts)

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


class NoStore:
    """Stands in for `Persistence` in a session without a store."""

    def save(self, snapshot: Snapshot, **_: Any) -> None:
        """Save nothing."""

    def annotate(self, snapshot: Snapshot, message_id: str, extensions: Mapping[str, Any]) -> None:
        """Save nothing."""


class PersistenceMiddleware:
    """Saves the session when a turn ends, however it ends. ``save`` may wait for a database, unless the store says that
    it never waits."""

    def __init__(self, save: Callable[[], None], store: SessionStore | None = None) -> None:
        self._save = save_effect(save, in_thread=not getattr(store, "never_waits", False))

    def __call__(self, turn: Turn) -> Turn:
        with closing(turn):
            try:
                yield from turn
            except Exception:
                yield self._save
                raise
        yield self._save


def save_effect(save: Callable[[], None], *, in_thread: bool = True) -> Perform:
    """Return the effect that saves. A driver with an event loop does it in a thread."""
    return Perform(save, partial(_save_in_thread if in_thread else _save_here, save))


async def _save_in_thread(save: Callable[[], None]) -> None:
    import asyncio  # sync programs do not need it

    await asyncio.to_thread(save)


async def _save_here(save: Callable[[], None]) -> None:
    save()
