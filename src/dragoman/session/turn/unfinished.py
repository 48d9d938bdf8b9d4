"""A turn that its program has not ended: what is known of it, and which calls may run again."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.open_turns import REPEATABLE, CallProgress, FailedAttempt, OpenTurn
from dragoman.session.cost import Cost, total_cost
from dragoman.session.history import History

LOST_RESULT = "The program ended while this call ran. What it did is not known, and it was not run again."
"""The result that the model reads for a call that may have run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedTurn:
    """A turn that has not ended: its program was killed, or its store failed.

    ``prompt`` is what the model was asked. It is in the history if there was a reply. ``cost`` is what the replies and
    the failed ``attempts`` of the turn have cost.
    """

    prompt: tuple[Message, ...]
    ran: tuple[ToolUseBlock, ...]
    """Calls that have ended. Those of the last reply may not have their results in the history yet."""
    may_have_run: tuple[ToolUseBlock, ...]
    """Calls that had started. ``ask(None)`` runs those again whose tools have the side effects ``none`` or ``read``.
    The others are never run again: the model is told that what they did is not known, unless `Session.answer` gives
    their results."""
    not_run: tuple[ToolUseBlock, ...]
    """Calls that had not started. ``ask(None)`` runs them."""
    attempts: tuple[FailedAttempt, ...]
    cost: Cost
    awaits_reply: bool
    """Whether the next step was a reply: a request may have been sent, and its cost is not known."""


def describe_turn(turn: OpenTurn, history: History, open_calls: Sequence[ToolUseBlock]) -> UnfinishedTurn:
    """Return what is known of the turn. ``open_calls`` are those of the last reply without a result in the history."""
    messages = history.messages[turn.first_message :]
    broken = {attempt.reply_id for attempt in turn.attempts if attempt.reply_id is not None}
    progress, open_ids = turn.calls, {call.id for call in open_calls}
    ran = [
        call
        for message in messages
        for call in message.tool_uses
        if (found := progress.get(call.id)) is not None and found.started and has_ended(found, call.id in open_ids)
    ]
    return UnfinishedTurn(
        prompt=turn.prompt,
        ran=tuple(ran),
        may_have_run=tuple(call for call in open_calls if may_have_run(progress.get(call.id))),
        not_run=tuple(call for call in open_calls if call.id not in progress),
        attempts=turn.attempts,
        cost=total_cost([*messages, *(reply for reply in history.attempts.all if reply.id in broken)]),
        awaits_reply=not open_calls,
    )


def has_ended(progress: CallProgress, is_open: bool) -> bool:
    """Whether the call has a result. ``is_open``: it has none in the history."""
    return progress.result is not None or not is_open


def may_have_run(progress: CallProgress | None) -> bool:
    """Whether the call has started, and nobody knows how it ended."""
    return progress is not None and progress.started and progress.result is None and not progress.waits


def may_run(progress: CallProgress | None) -> bool:
    """Whether the call may be run: it has not started, or its tool says that it may run twice."""
    return progress is None or (may_have_run(progress) and progress.side_effects in REPEATABLE)


def waiting_prompt(turn: OpenTurn, history: History) -> tuple[Message, ...]:
    """Return the messages of the prompt that are not in the history yet."""
    known = {message.id for message in history.messages[turn.first_message :]}
    return tuple(message for message in turn.prompt if message.id not in known)
