"""The part of a session that knows which calls wait, and what a program has left unfinished."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dragoman.canonical.blocks import ToolUseBlock
from dragoman.open_turns import OpenTurn
from dragoman.session.history import History
from dragoman.session.turn.answers import pending_calls, unanswered_calls
from dragoman.session.turn.run import TurnRun
from dragoman.session.turn.unfinished import UnfinishedTurn, describe_turn

if TYPE_CHECKING:
    from dragoman.session.middleware.steps import TurnSteps


class WaitingCalls:
    """What a turn that has ended, or was interrupted, waits for."""

    _history: History
    _steps: "TurnSteps | None"
    _running: TurnRun | None = None

    @property
    def pending(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the last reply that wait for their results. A new prompt gives them up."""
        return tuple(unanswered_calls(self._history.messages, self._open_turn))

    @property
    def pending_reasons(self) -> Mapping[str, str]:
        """Why the calls wait, by call id, as tools and ``approve`` said in this process. Reasons are not stored."""
        reasons = self._history.reasons_to_wait
        return {call.id: reasons[call.id] for call in self.pending if call.id in reasons}

    @property
    def unfinished(self) -> UnfinishedTurn | None:
        """The turn that a killed program has left in the store, or that a failing store has interrupted.

        ``ask(None)`` goes on with it; a new prompt gives it up. It is None while a turn runs.
        """
        turn = self._open_turn
        if turn is None or self._running is not None:
            return None
        return describe_turn(turn, self._history, pending_calls(self._history.messages))

    @property
    def _open_turn(self) -> OpenTurn | None:
        return None if self._steps is None else self._steps.turn
