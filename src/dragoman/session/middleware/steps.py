"""Saves a turn while it runs: each of its steps when it happens, so that a killed program loses none."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from types import MappingProxyType
from typing import Any, Literal, Protocol

from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.extensions.message_labels import with_message_labels
from dragoman.canonical.extensions.security import RETENTION
from dragoman.canonical.log import get_logger
from dragoman.canonical.message import Message
from dragoman.effects import Broken, Failed, Perform, call, in_thread, intercept
from dragoman.open_turns import CallProgress, FailedAttempt, OpenTurn, TurnStep
from dragoman.session.effects import AbandonedTurnError, Admit, Effect, Keep, RunTools, Send, Turn
from dragoman.session.history import History
from dragoman.tools.calls import CallOutcome, PreparedCall, error_result
from dragoman.tools.context import Deferred, ModelRetry

logger = get_logger("dragoman.session")

UNCHECKED_RESULT = "The call ran, but the program ended before its result was checked. It was not run again."
"""Stored in place of a result that the policy has not judged yet."""


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Save(Protocol):
    """Saves what is new in the session, and the step."""

    def __call__(
        self, step: TurnStep | None = None, new: tuple[Message, ...] = (), *, touch: bool = False
    ) -> int | None:
        """Return the version of the session in the store. ``new`` are messages that are about to be kept. ``touch``:
        write even if nothing is new."""
        ...


@dataclass(slots=True)
class _Run:
    """One run of a turn. A turn that was interrupted is run again."""

    begun: bool = False
    """Whether a step of this run is saved: from then on no other program can go on with the turn."""
    replaces: bool = False
    """Whether the prompt is a new one: it gives up a turn that is open."""
    sent: bool = False
    """Whether a request of the turn was sent."""
    compacts: bool = False
    """Whether it is not a turn: it asks for a summary of the history."""
    store_failed: bool = False
    failures: list[FailedAttempt] = field(default_factory=list)
    """Attempts that are not saved yet."""


class TurnSteps:
    """The middleware of a session with a store, and the log of its tool calls.

    ``turn`` is the turn that is open, also between two runs of it. With ``every_step`` false, only its end is saved.
    ``hides_results``: a policy judges results before they are stored. ``in_thread``: saving may wait for a database, so
    a driver with an event loop does it in a thread.
    """

    def __init__(
        self,
        save: Save,
        history: History,
        labels: Callable[[], frozenset[str]],
        *,
        every_step: bool,
        hides_results: bool,
        in_thread: bool = True,
    ) -> None:
        self._save = save
        self._history = history
        self._labels = labels
        self._every_step = every_step
        self._hides_results = hides_results
        self._in_thread = in_thread
        self._lock = RLock()
        self._run = _Run()
        self._row = 0
        """The number of the turn that is open in the store; 0 if none is."""
        self.turn: OpenTurn | None = None
        self.rest = self._effect(self.save_rest)
        """The effect that saves what is not in the store yet."""

    def resume(self, turn: OpenTurn | None) -> None:
        """Take over the open turn of a session that was loaded."""
        self.turn, self._row = turn, 0 if turn is None else turn.number

    def save_rest(self, *, touch: bool = False) -> None:
        """Save what a step could not save, because the store failed."""
        with self._lock:
            closes = self.turn is None and self._row
            self._save(TurnStep(state="done", number=self._row) if closes else None, touch=touch)
            self._row = 0 if closes else self._row

    def __call__(self, turn: Turn) -> Turn:
        run = _Run()
        try:
            yield from intercept(turn, partial(self._handle, run))
        except AbandonedTurnError:
            yield self._effect(partial(self._end, run))
            raise
        except Exception as error:
            if not run.store_failed:
                yield self._effect(partial(self._end, run, type(error).__name__))
            raise
        yield self._effect(partial(self._end, run))

    def start(self, calls: Sequence[PreparedCall]) -> None:
        """Save that these calls start. Raises StoreError: then none of them may run."""
        effects = {each.call.id: None if each.tool is None else each.tool.definition.side_effects for each in calls}
        with self._lock:
            try:
                self._write(self._run, started=effects)
            except Exception:
                self._run.store_failed = True
                raise
            self._note({call: CallProgress(side_effects=effect) for call, effect in effects.items()})

    def finish(self, call: PreparedCall, outcome: CallOutcome) -> None:
        """Save how a call has ended. If the store fails, its result is saved with the next step."""
        call_id, result = call.call.id, None
        if isinstance(outcome, ModelRetry):
            result = error_result(call_id, str(outcome))
        elif not isinstance(outcome, Deferred):
            result = outcome
        hidden = result is not None and (self._hides_results or bool(call.labels))  # it would be stored without them
        with self._lock:
            started = None if self.turn is None else self.turn.calls.get(call_id)
            if started is None:  # the turn was left
                return
            self._note({call_id: replace(started, result=result, waits=result is None)})
            try:
                self._write(self._run, ended={call_id: error_result(call_id, UNCHECKED_RESULT) if hidden else result})
            except Exception as error:  # the call has run, and its result is here
                logger.warning("the result of %s is not in the store yet: %s", call.call.name, type(error).__name__)

    def _handle(self, run: _Run, effect: Effect) -> Generator[Effect, Any, Any]:
        if run.failures and self._every_step:
            yield from self._step(run)
        match effect:
            case Admit(opens_turn=True, prompt=prompt) if prompt and self.turn is not None:
                asked = {message.id for message in self.turn.prompt}
                run.replaces = not all(message.id in asked for message in prompt)
            case Send(new_messages=None):
                run.compacts = True
                # A store that is gone says so before a summary is bought.
                yield from self._checked(run, self._effect(partial(self.save_rest, touch=True)))
            case Send(new_messages=tuple(messages)):
                run.sent = True
                known = set() if self.turn is None else {message.id for message in self.turn.prompt}
                if not (run.begun and {message.id for message in messages} <= known):
                    yield from self._step(run, prompt=messages)
                outcome = yield effect
                if isinstance(outcome, (Failed, Broken)):
                    run.failures.append(_failed_attempt(effect, outcome))
                return outcome
            case RunTools():
                self._run = run
            case Keep():
                return (yield from self._keep(run, effect))
            case _:
                pass
        return (yield effect)

    def _keep(self, run: _Run, effect: Keep) -> Generator[Effect, Any, Any]:
        """Save the messages before the caller sees them. If that fails, the session has them all the same."""
        failure: Exception | None = None
        try:
            yield from self._step(run, effect.messages, state="done" if effect.ends_turn else "open")
        except Exception as error:
            failure = error
        messages = yield effect
        if failure is not None:
            raise failure
        return messages

    def _step(self, run: _Run, new: tuple[Message, ...] = (), **changes: Any) -> Generator[Effect, Any, None]:
        yield from self._checked(run, self._effect(partial(self._write, run, new, **changes)))

    def _checked(self, run: _Run, save: Perform) -> Generator[Effect, Any, None]:
        try:
            yield save
        except AbandonedTurnError:
            raise
        except Exception:
            run.store_failed = True
            raise

    def _end(self, run: _Run, error: str | None = None) -> None:
        """Save how the turn has ended. A turn that goes on elsewhere, with other answers, stays open."""
        with self._lock:
            has_run = run.begun or (run.sent and not self._every_step)
            if self.turn is None or not has_run or (error is None and not run.sent):
                self.save_rest()
            else:
                self._write(run, state="done" if error is None else "failed", error=error, is_end=True)

    def _write(
        self,
        run: _Run,
        new: tuple[Message, ...] = (),
        *,
        state: Literal["open", "done", "failed"] = "open",
        error: str | None = None,
        prompt: tuple[Message, ...] = (),
        started: Mapping[str, str | None] = _NOTHING,
        ended: Mapping[str, ToolResultBlock | None] = _NOTHING,
        is_end: bool = False,
    ) -> None:
        """Save one step, and note what the turn is then."""
        with self._lock:
            if not (self._every_step or is_end):
                return  # the end saves the whole turn
            if run.compacts:
                self._save(None, new)
                return
            found = None if run.replaces and not run.begun else self.turn
            given_up = self._row if found is None else 0
            turn = OpenTurn(first_message=len(self._history.messages)) if found is None else found
            changed = replace(
                turn,
                prompt=self._merge_prompt(turn, prompt),
                attempts=(*turn.attempts, *run.failures),
                retention={**turn.retention, **self._retention_of(prompt)},
            )
            begins = found is None and state == "open"
            step = TurnStep(
                number=turn.number,
                state=state,
                error=error,
                begins=begins,
                turn=changed if begins or changed != turn else None,
                given_up=given_up,
                started=started,
                ended=ended,
            )
            changes_nothing = run.begun and state == "open" and not (step.turn or started or ended)
            has_no_turn = found is None and not (begins or given_up)
            if state != "open":  # also if the store fails
                self.turn = None
            version = self._save(None if changes_nothing or has_no_turn else step, new)
            run.begun = True
            run.failures.clear()
            self._row = (version or 0) if begins else self._row if state == "open" else 0
            if state == "open":
                self.turn = replace(changed, number=self._row)

    def _effect(self, save: Callable[[], object]) -> Perform:
        return in_thread(save) if self._in_thread else call(save)

    def _note(self, progress: Mapping[str, CallProgress]) -> None:
        if self.turn is not None:
            self.turn = replace(self.turn, calls={**self.turn.calls, **progress})

    def _merge_prompt(self, turn: OpenTurn, prompt: Sequence[Message]) -> tuple[Message, ...]:
        """Return the prompt of the turn with these messages, which carry the labels of the conversation."""
        if not prompt:
            return turn.prompt
        labelled = {message.id: with_message_labels(message, self._labels()) for message in prompt}
        return tuple({**{message.id: message for message in turn.prompt}, **labelled}.values())

    def _retention_of(self, prompt: Sequence[Message]) -> dict[str, Any]:
        """Return how long the data of these messages may be kept, as the policy has recorded it."""
        kept = {message.id: (self._history.extensions.get(message.id) or {}).get(RETENTION) for message in prompt}
        return {name: retention for name, retention in kept.items() if retention is not None}


def _failed_attempt(send: Send, outcome: Failed | Broken) -> FailedAttempt:
    partial_reply = outcome.partial if isinstance(outcome, Broken) else None
    usage = None if partial_reply is None else partial_reply.usage
    return FailedAttempt(
        model=str(send.adapter.model_id),
        error=type(outcome.error).__name__,
        cost_usd=None if usage is None else usage.cost_usd,
        reply_id=None if partial_reply is None else partial_reply.id,
    )
