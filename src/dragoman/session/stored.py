"""The part of a session that is stored and restored."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.ids import new_message_id
from dragoman.canonical.message import Message
from dragoman.configuration.validation import check_store
from dragoman.session.config import SessionConfig, SessionSettings
from dragoman.session.history import History
from dragoman.session.message_factory import MessageFactory
from dragoman.transport.settings import seal_keys

if TYPE_CHECKING:
    from dragoman.configuration.session_store import SessionStore
    from dragoman.open_turns import OpenTurn, TurnStep
    from dragoman.policy.conversation.hooks import PolicyHooks
    from dragoman.session.middleware.no_policy import NoPolicy
    from dragoman.session.middleware.steps import TurnSteps
    from dragoman.session.preview import Preview
    from dragoman.session.snapshot import Persistence, Snapshot


class StoredConversation:
    """What a session leaves behind, what it waits for, and how a later program continues it."""

    config: SessionConfig
    session_id: str
    tool_ids: ToolIdMap
    _history: History
    _factory: MessageFactory
    _persistence: "Persistence | None"
    _steps: "TurnSteps | None"

    if TYPE_CHECKING:

        def __init__(self, model: str | None, **settings: Any) -> None: ...

        @cached_property
        def _policy(self) -> PolicyHooks | NoPolicy: ...

        @property
        def model(self) -> str | None: ...

        @property
        def labels(self) -> frozenset[str]: ...

        def swap(self, model: str) -> "Preview": ...

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
    def _open_turn(self) -> "OpenTurn | None":
        return None if self._steps is None else self._steps.turn

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

    def _snapshot(self, new: tuple[Message, ...] = ()) -> "Snapshot":
        """Return the session as it is, with the messages that are about to be kept."""
        from dragoman.session.snapshot import Snapshot  # as in dump

        history = self._history
        messages = [*history.messages, *new] if new else history.messages
        return Snapshot(self.session_id, self.model, messages, self.tool_ids, history.attempts.all, history.extensions)

    def _save(
        self, step: "TurnStep | None" = None, new: tuple[Message, ...] = (), *, touch: bool = False
    ) -> int | None:
        """Save what is new, if there is a store, and if the policy has judged it."""
        if self._persistence is None:
            return None
        return self._persistence.save(
            self._snapshot(new),
            user_id=self._factory.user_id,
            team_id=self._factory.team_id,
            may_save=self._may_read,
            step=step,
            touch=touch,
        )

    def _may_read(self, messages: Sequence[Message]) -> bool:
        """Whether these messages may be stored, and their files read: the policy, if any, has judged them."""
        return self.config.policy is None or self._policy.has_judged(messages)

    def _save_rest(self) -> None:
        """Save what is not in the store yet."""
        if self._steps is not None:
            self._steps.save_rest()

    def _annotate(self, message_id: str, extensions: Mapping[str, Any]) -> None:
        if self._persistence is not None:
            self._persistence.annotate(self._snapshot(), message_id, extensions)

    def _new_persistence(self) -> "Persistence | None":
        config = self.config
        if config.store is None:
            return None
        from dragoman.session.snapshot import Persistence  # as in dump

        facts = {
            "workspace": None if config.workspace is None else str(config.workspace),
            "routing_policy": None if config.router is None else config.router.configuration,
        }
        return Persistence(config.store, facts=facts)

    def _new_steps(self) -> "TurnSteps | None":
        config = self.config
        if config.store is None:
            return None
        from dragoman.session.middleware.steps import TurnSteps  # as above

        every_step = config.durability == "step" and getattr(config.store, "stores_steps", False)
        return TurnSteps(
            lambda step=None, new=(), *, touch=False: self._save(step, new, touch=touch),
            self._history,
            lambda: self.labels,
            every_step=every_step,
            in_thread=not getattr(config.store, "never_waits", False),
            hides_results=config.policy is not None,
        )


def tool_id_factory(settings: SessionSettings) -> Callable[[], str]:
    """Return what creates the tool ids of a session with these settings."""
    return partial(new_tool_id, settings.get("new_id", new_message_id))


def new_tool_id(new_id: Callable[[], str]) -> str:
    """Return a new tool id."""
    return f"tu_{new_id()}"
