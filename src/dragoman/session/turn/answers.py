"""Calls whose results come from elsewhere: which ones wait, and what answers them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.adapter.errors import CallNotPendingError, RequestError
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.session.effects import RunTools
from dragoman.session.history import History
from dragoman.tools.calls import PreparedCall, result_from_elsewhere
from dragoman.tools.toolbox import Toolbox

CallResults = Mapping[str, Any]
"""The results of calls, by call id: what a tool may return, or an exception."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The results of calls that wait, by call id. ``complete``: no other call waits."""

    calls: tuple[ToolUseBlock, ...]
    results: Mapping[str, ToolResultBlock]
    complete: bool


class WaitingCalls:
    """The part of a session that knows which calls wait."""

    _history: History

    @property
    def pending(self) -> tuple[ToolUseBlock, ...]:
        """The calls of the last reply that wait for their results. A new prompt gives them up."""
        return pending_calls(self._history.messages)

    @property
    def pending_reasons(self) -> Mapping[str, str]:
        """Why the calls wait, by call id, as tools and ``approve`` said in this process. Reasons are not stored."""
        reasons = self._history.reasons_to_wait
        return {call.id: reasons[call.id] for call in self.pending if call.id in reasons}


def has_calls_to_run(reply: Message) -> bool:
    """Whether the reply's calls are to be run.

    A reply that reached its length limit may end in an incomplete call, which is answered with an error so that the
    model can try again. Nothing is run after a refusal, or when the context is full and no result would fit.
    """
    ended = reply.stop_reason in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW)
    return bool(reply.tool_uses) and reply.metadata.status is MessageStatus.COMPLETE and not ended


def pending_calls(messages: Sequence[Message]) -> tuple[ToolUseBlock, ...]:
    """Return the calls of the last reply that have no result. There are none if anything but results and
    summaries follows it."""
    answered: set[str] = set()
    for message in reversed(messages):
        if not (message.role is Role.TOOL or message.metadata.summary_of):
            ended = message.role is Role.ASSISTANT and message.stop_reason is not StopReason.PAUSE
            waits = ended and has_calls_to_run(message)
            return tuple(call for call in message.tool_uses if call.id not in answered) if waits else ()
        answered.update(result.tool_use_id for result in message.tool_results)
    return ()


def read_answers(results: CallResults, messages: Sequence[Message]) -> Answers:
    """Return the results of calls that wait in that history.

    Raises CallNotPendingError if a call does not wait, and RequestError if no result can hold a value.
    """
    if not isinstance(results, Mapping) or not results:
        raise RequestError("results are a dict with the id of each answered call and its result or its error")
    waiting = {call.id: call for call in pending_calls(messages)}
    read: dict[str, ToolResultBlock] = {}
    for call_id, value in results.items():
        if call_id not in waiting:
            answered = any(call_id == each.tool_use_id for message in messages for each in message.tool_results)
            raise CallNotPendingError(str(call_id), tuple(waiting), answered=answered)
        try:
            read[call_id] = result_from_elsewhere(waiting[call_id], value)
        except (TypeError, ValueError) as error:
            raise RequestError(f"the result of the call {call_id:.80} cannot be sent: {error!s:.300}") from None
    calls = tuple(call for call in waiting.values() if call.id in read)
    return Answers(calls, read, complete=len(calls) == len(waiting))


def prepare_calls(effect: RunTools, toolbox: Toolbox) -> Iterator[PreparedCall]:
    """Yield the calls, checked. A result from elsewhere needs no check."""
    for call in effect.calls:
        result = effect.results.get(call.id)
        yield toolbox.prepare(call) if result is None else PreparedCall(call, outcome=result)
