"""The part of a session that is stored and restored."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Generic, Self, Unpack

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.ids import new_message_id
from dragoman.configuration.transports import TransportT
from dragoman.configuration.validation import check_store
from dragoman.session.config import SessionSettings
from dragoman.session.conversation import new_tool_id
from dragoman.session.turn.planner import TurnPlanner
from dragoman.transport.settings import seal_keys

if TYPE_CHECKING:
    from dragoman.configuration.session_store import SessionStore
    from dragoman.session.snapshot import Snapshot
    from dragoman.session.turn.answers import UnfinishedTurn


class StoredConversation(TurnPlanner[TransportT], Generic[TransportT]):
    """What a session leaves behind, what it waits for, and how a later program continues it."""

    @property
    def pending(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the last reply that wait for their results. A new prompt gives them up."""
        from dragoman.session.turn.answers import unanswered_calls  # imported late: few calls wait

        return tuple(unanswered_calls(self._history.messages, self._open_turn))

    @property
    def pending_reasons(self) -> Mapping[str, str]:
        """Why the calls wait, by call id, as tools and ``approve`` said in this process. Reasons are not stored."""
        reasons = self._history.reasons_to_wait
        return {call.id: reasons[call.id] for call in self.pending if call.id in reasons}

    @property
    def unfinished(self) -> "UnfinishedTurn | None":
        """The turn that a killed program has left in the store, or that a failing store has interrupted.

        ``ask(None)`` goes on with it; a new prompt gives it up. It is None while a turn runs.
        """
        turn = self._open_turn
        if turn is None or self._running is not None:
            return None
        from dragoman.session.turn.answers import describe_turn, pending_calls  # imported late: few turns are left open

        return describe_turn(turn, self._history, pending_calls(self._history.messages))

    def dump(self) -> bytes:
        """Return the session as JSON: model, history and tool-id map, without tools, keys and options."""
        from dragoman.session import snapshot  # imported late: many sessions are not stored

        return snapshot.write(self._snapshot())

    @classmethod
    def load(cls, data: bytes | str, *, model: str | None = None, **settings: Unpack[SessionSettings]) -> Self:
        """Return the session of a `dump`, to continue on its model or on another; ``settings`` are as for a new one.

        Raises ConfigurationError if the data is not a stored session, and SwapRefusedError as `swap` does.
        """
        from dragoman.session import snapshot  # as in dump

        settings = seal_keys(settings)  # type: ignore[assignment]  # as in __init__
        return cls._from_snapshot(snapshot.read(data, tool_id_factory(settings)), model, settings)

    @classmethod
    def _from_snapshot(
        cls, found: "Snapshot", model: str | None, settings: SessionSettings, store: "SessionStore | None" = None
    ) -> Self:
        session = cls(
            model or found.model,
            session_id=found.session_id,
            messages=found.messages,
            tool_ids=found.tool_ids,
            store=store,
            **settings,
        )
        session._history.restore(found.attempts, found.extensions)
        if found.messages or found.extensions:
            session._policy.restore(found.messages)
        if session.model is not None and session.model != found.model:
            session.swap(session.model)
        return session

    @classmethod
    def _from_store(cls, session_id: str, store: "SessionStore", model: str | None, settings: SessionSettings) -> Self:
        """Return a stored session; its next turns are saved to the same store."""
        from dragoman.session.snapshot import Persistence, Snapshot  # as in dump

        check_store(store)
        found = store.load(session_id)
        active_model = found.model or model
        if active_model is None and settings.get("router") is None:
            raise ConfigurationError(f"the session {found.id} has no model: pass model= to choose one")
        tool_ids = ToolIdMap.load(found.tool_ids, tool_id_factory(settings))
        known = Snapshot(found.id, active_model, found.messages, tool_ids, found.attempts, found.extensions)
        session = cls._from_snapshot(known, model, settings, store)
        if "user_id" not in settings:
            session._factory.user_id = found.record.user_id
        if "team_id" not in settings:
            session._factory.team_id = found.record.team_id
        session._persistence = Persistence(
            store, version=found.version, messages=len(found.messages), attempts=len(found.attempts)
        )
        if session._steps is not None:
            session._steps.resume(getattr(found, "turn", None))  # a store need not know of open turns
        return session


def tool_id_factory(settings: SessionSettings) -> Callable[[], str]:
    """Return what creates the tool ids of a session with these settings."""
    return partial(new_tool_id, settings.get("new_id", new_message_id))
