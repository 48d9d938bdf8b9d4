"""Saves a session to its store: at the end of each turn, everything that it added, in one transaction."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self, Unpack

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.requests.tool_ids import ToolIdMap
from dragoman.canonical.ids import new_message_id
from dragoman.session import snapshot
from dragoman.session.settings import SessionSettings
from dragoman.session.snapshot import SessionStore, Snapshot


class Persistence:
    """Tracks what the store has of one session. ``version`` is the store's; None if the session is not stored yet."""

    def __init__(
        self, store: SessionStore, *, version: int | None = None, messages: int = 0, attempts: int = 0
    ) -> None:
        self._store = store
        self._version = version
        self._messages = messages
        self._attempts = attempts

    def save(self, snapshot: Snapshot, *, user_id: str | None, team_id: str | None) -> None:
        """Save what is new, if anything is.

        Raises ConflictError if another program added to the session meanwhile: nothing is overwritten, and this session
        keeps what it has. Raises StoreError.
        """
        messages, attempts = snapshot.messages[self._messages :], snapshot.attempts[self._attempts :]
        if not (messages or attempts):
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
                f"a {type(self._store).__name__} cannot write anew what stands beside a message, which records of"
                " declassification need: give it a method annotate, as dragoman.store.Store has"
            )
        self._version = annotate(snapshot.session_id, message_id, extensions, expected_version=self._version)


class PersistenceMixin:
    """Writes a `Conversation` to JSON or to its store, and makes one from either."""

    user_id: str | None
    team_id: str | None
    _persistence: Persistence | None

    @classmethod
    @abstractmethod
    def _from_snapshot(cls, found: Snapshot, model: str | None, settings: SessionSettings) -> Self: ...

    @abstractmethod
    def _snapshot(self) -> Snapshot: ...

    def dump(self) -> bytes:
        """Return the session as JSON: model, history and tool-id map, without tools, keys and options."""
        return snapshot.write(self._snapshot())

    @classmethod
    def load(cls, data: bytes | str, *, model: str | None = None, **settings: Unpack[SessionSettings]) -> Self:
        """Return the session of a `dump`, to continue on its model or on another; ``settings`` are as for a new one.

        Raises ConfigurationError if the data is not a stored session, and SwapRefusedError as `swap` does.
        """
        return cls._from_snapshot(snapshot.read(data, _tool_id_factory(settings)), model, settings)

    @classmethod
    def _from_store(cls, session_id: str, store: SessionStore, model: str | None, settings: SessionSettings) -> Self:
        """Return a stored session; its next turns are saved to the same store."""
        found = store.load(session_id)
        active_model = found.model or model
        if active_model is None and settings.get("router") is None:
            raise ConfigurationError(f"the session {found.id} names no model: say which one goes on with it")
        tool_ids = ToolIdMap.load(found.tool_ids, _tool_id_factory(settings))
        known = Snapshot(found.id, active_model, found.messages, tool_ids, found.attempts, found.extensions)
        session = cls._from_snapshot(known, model, settings)
        session.user_id = session.user_id if "user_id" in settings else found.record.user_id
        session.team_id = session.team_id if "team_id" in settings else found.record.team_id
        session._persistence = Persistence(
            store, version=found.version, messages=len(found.messages), attempts=len(found.attempts)
        )
        return session

    def _save_turn(self) -> None:
        """Save what the turn added, if there is a store."""
        if self._persistence is not None:
            self._persistence.save(self._snapshot(), user_id=self.user_id, team_id=self.team_id)

    def _annotate(self, message_id: str, extensions: Mapping[str, Any]) -> None:
        if self._persistence is not None:
            self._persistence.annotate(self._snapshot(), message_id, extensions)


def _tool_id_factory(settings: SessionSettings) -> Callable[[], str]:
    return partial(new_tool_id, settings.get("new_id", new_message_id))


def new_tool_id(new_id: Callable[[], str]) -> str:
    return f"tu_{new_id()}"
