"""What is open: calls whose results come from elsewhere, what answers them, and a turn that its program has not ended,
with the calls of it that may run again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import CallNotPendingError, RequestError
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role
from dragoman.session.cost import Cost, total_cost
from dragoman.session.effects import RunTools
from dragoman.session.history import History, next_step
from dragoman.tools.calls import PreparedCall, error_result, result_from_elsewhere
from dragoman.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from dragoman.open_turns import CallProgress, FailedAttempt, OpenTurn

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
    attempts: "tuple[FailedAttempt, ...]"
    cost: Cost
    awaits_reply: bool
    """Whether the next step was a reply: a request may have been sent, and its cost is not known."""


def describe_turn(turn: "OpenTurn", history: History, open_calls: Sequence[ToolUseBlock]) -> UnfinishedTurn:
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


def has_ended(progress: "CallProgress", is_open: bool) -> bool:
    """Whether the call has a result. ``is_open``: it has none in the history."""
    return progress.result is not None or not is_open


def may_have_run(progress: "CallProgress | None") -> bool:
    """Whether the call has started, and nobody knows how it ended."""
    return progress is not None and progress.started and progress.result is None and not progress.waits


def may_run(progress: "CallProgress | None") -> bool:
    """Whether the call may be run: it has not started, or its tool says that it may run twice."""
    if progress is None:
        return True
    from dragoman.open_turns import REPEATABLE  # loaded: there is an open turn

    return may_have_run(progress) and progress.side_effects in REPEATABLE


def waiting_prompt(turn: "OpenTurn", history: History) -> tuple[Message, ...]:
    """Return the messages of the prompt that are not in the history yet."""
    known = {message.id for message in history.messages[turn.first_message :]}
    return tuple(message for message in turn.prompt if message.id not in known)


CallResults = Mapping[str, Any]
"""The results of calls, by call id: what a tool may return, or an exception."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Calls of the last reply, and the results of those that are not run, by call id.

    ``complete``: all calls without a result are among them. ``rest_waits``: the others wait for results from elsewhere.
    """

    calls: tuple[ToolUseBlock, ...]
    results: Mapping[str, ToolResultBlock]
    complete: bool
    rest_waits: bool = True
    labels: Mapping[str, set[str]] = field(default_factory=dict)
    """The security labels of the results, by call id."""


def pending_calls(messages: Sequence[Message]) -> tuple[ToolUseBlock, ...]:
    """Return the calls of the last reply that have no result. There are none if anything but results and
    summaries follows it."""
    answered: set[str] = set()
    for message in reversed(messages):
        if not (message.role is Role.TOOL or message.metadata.summary_of):
            waits = message.role is Role.ASSISTANT and next_step(message) == "run_calls"
            return tuple(call for call in message.tool_uses if call.id not in answered) if waits else ()
        answered.update(result.tool_use_id for result in message.tool_results)
    return ()


def unanswered_calls(messages: Sequence[Message], turn: "OpenTurn | None") -> Iterator[ToolUseBlock]:
    """Yield the calls of the last reply that have no result, neither in the history nor in the open turn."""
    progress = {} if turn is None else turn.calls
    for call in pending_calls(messages):
        found = progress.get(call.id)
        if found is None or found.result is None:
            yield call


def continue_calls(messages: Sequence[Message], turn: "OpenTurn") -> Answers:
    """Return the open calls of a turn that goes on: those that may run, the results of those that have ended, and an
    error for those that may have run and must not run twice.
    """
    calls: list[ToolUseBlock] = []
    results: dict[str, ToolResultBlock] = {}
    waiting = 0
    for call in pending_calls(messages):
        progress = turn.calls.get(call.id)
        if progress is not None and progress.waits:
            waiting += 1
            continue
        calls.append(call)
        if not may_run(progress):
            ended = None if progress is None else progress.result
            results[call.id] = error_result(call.id, LOST_RESULT) if ended is None else ended
    return Answers(tuple(calls), results, complete=not waiting)


def read_answers(results: CallResults, messages: Sequence[Message], turn: "OpenTurn | None" = None) -> Answers:
    """Return the results of calls that wait in that history. Those that an open turn has come with them.

    Raises CallNotPendingError if a call does not wait, and RequestError if no result can hold a value.
    """
    if not isinstance(results, Mapping) or not results:
        raise RequestError("results are a dict with the id of each answered call and its result or its error")
    waiting = {call.id: call for call in unanswered_calls(messages, turn)}
    progress = {} if turn is None else turn.calls
    ended = {call.id: call for call in pending_calls(messages) if call.id not in waiting}
    read = {call_id: result for call_id in ended if (result := progress[call_id].result) is not None}
    labels: dict[str, set[str]] = {}
    for call_id, value in results.items():
        if call_id not in waiting:
            answered = call_id in ended or any(
                call_id == each.tool_use_id for message in messages for each in message.tool_results
            )
            raise CallNotPendingError(str(call_id), tuple(waiting), answered=answered)
        try:
            read[call_id] = result_from_elsewhere(waiting[call_id], value, labels.setdefault(call_id, set()))
        except (TypeError, ValueError) as error:
            raise RequestError(f"the result of the call {call_id:.80} cannot be sent: {error!s:.300}") from None
    calls = tuple(call for call in pending_calls(messages) if call.id in read)
    rest = [call for call in waiting if call not in read]
    rest_waits = turn is None or all(call in progress and progress[call].waits for call in rest)
    return Answers(calls, read, complete=not rest, rest_waits=rest_waits, labels=labels)


def prepare_calls(effect: RunTools, toolbox: Toolbox, *, is_judged: bool) -> Iterator[PreparedCall]:
    """Yield the calls, checked. A result from elsewhere needs no check. ``is_judged``: a policy judges the results."""
    for call in effect.calls:
        result = effect.results.get(call.id)
        if result is None:
            prepared = toolbox.prepare(call)
            yield replace(prepared, is_judged=True) if is_judged else prepared
        else:
            yield PreparedCall(call, outcome=result, labels=effect.labels.get(call.id, set()))
