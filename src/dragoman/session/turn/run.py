"""What both drivers share: the state of a running turn, and the effects that they carry out alike."""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.losses import log_losses
from dragoman.adapter.wire import WireRequest
from dragoman.attempt.reply_reader import ReplyReader
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.events import MessageComplete
from dragoman.canonical.extensions.message_labels import with_message_labels
from dragoman.canonical.message import Message, MessageStatus, Role
from dragoman.effects.outcomes import Failed, Replied, SendOutcome
from dragoman.session.effects import Effect, Keep, Send, SessionEvent, ToolAnswered, ToolRun, Turn
from dragoman.session.history import History
from dragoman.session.media import MediaFiles
from dragoman.session.replies.reply import TurnRecord
from dragoman.tools.call_runner import CallRunner
from dragoman.tools.calls import PreparedCall, error_result


@dataclass(slots=True, eq=False)
class TurnRun:
    """The state of a turn that a driver runs.

    ``effect`` is the next one to carry out. At the end it is None, and ``error`` is the exception that ended the turn,
    if any.
    """

    turn: Turn
    record: TurnRecord
    get_transport: Callable[[Adapter], Any]
    effect: Effect | None = None
    events: Callable[[], Any] | None = field(default=None, init=False)
    """Returns the generator of its events, or None if that is gone; None if nobody reads them."""
    error: Exception | None = field(default=None, init=False)
    calls: CallRunner | None = field(default=None, init=False)
    """Runs the tool calls of the turn; None before the first one."""
    is_left: bool = field(default=False, init=False)
    """Whether the caller has left: nobody receives events any more."""
    answers_with_text: bool = field(default=False, init=False)
    """Whether the caller asked for a text as the typed answer."""

    def follow_answer(self) -> Callable[[Iterable[SessionEvent]], Iterator[SessionEvent]] | None:
        """Return what the events of a stream pass through if the answer is typed: it may add events, and raise."""
        if self.answers_with_text:
            from dragoman.output.check import follow_text  # imported late: few turns have a typed answer

            return follow_text
        return None if self.record.check is None else self.record.check.follow().follow

    _following: Generator[Effect, Any, SendOutcome] | None = field(default=None, init=False)
    """Follows a reply that its provider still works on; its effects come before the turn's."""

    def finish_attempt(self, reader: ReplyReader) -> None:
        """Send the turn the outcome of a `Send`. A reply that its provider still works on is followed first."""
        outcome = reader.outcome or Failed(ConfigurationError("a stage removed the end of the reply"))
        if not isinstance(outcome, Failed) and outcome.response is not None:
            self.record.response = outcome.response
        if isinstance(outcome, Replied) and outcome.message.metadata.status is MessageStatus.PARTIAL:
            from dragoman.session.turn import background  # imported late: few replies come later

            send = self.effect
            assert isinstance(send, Send)
            if background.is_unfinished(send, outcome):
                self._following = background.follow(send, outcome, self.get_transport)
                self.advance(None)
                return
        self.advance(outcome)

    def advance(self, outcome: Any) -> None:
        """Send the turn the outcome of the effect: its result, or its exception."""
        if (following := self._following) is not None:
            try:
                self.effect = following.throw(outcome) if isinstance(outcome, Exception) else following.send(outcome)
                return
            except StopIteration as ended:
                self._following, outcome = None, ended.value
        turn, self.effect = self.turn, None
        try:
            self.effect = turn.throw(outcome) if isinstance(outcome, Exception) else turn.send(outcome)
        except StopIteration:
            pass
        except Exception as error:
            self.error = error
        if self.effect is None:
            self.record.end()
            if self.record.check is not None:
                self.record.complete(self.error)


def encode(send: Send, record: TurnRecord) -> WireRequest:
    """Encode the request of an attempt. Each loss is logged once per turn."""
    send.context.started_at = send.context.clock()
    request = send.adapter.to_wire(send.messages, send.tools, send.options.with_context(send.context))
    new = tuple(loss for loss in request.losses if loss not in record.losses)
    if new:
        model = str(send.adapter.model_id)
        log_losses(new, session_id=send.context.session_id, adapter=send.adapter.provider, model=model)
        record.losses.update(dict.fromkeys(new))
    return request


def keep(effect: Keep, history: History) -> list[SessionEvent]:
    """Add the messages to the history. Return the events of the replies and of the tool results among them."""
    history.add(effect.messages)
    names = {call.id: call.name for call in effect.calls}
    events: list[SessionEvent] = []
    for message in effect.messages:
        if message.role is Role.ASSISTANT:
            events.append(MessageComplete(message))
        if names:
            events += [ToolAnswered(names[each.tool_use_id], each) for each in message.tool_results]
    return events


def tool_run(
    prepared: PreparedCall,
    result: ToolResultBlock,
    seconds: float,
    files: MediaFiles,
    adapter: Adapter,
    new_message: Callable[[ToolResultBlock], Message],
) -> ToolRun:
    """Return the call with its result as a message, which carries the labels of what the tool returned.

    A result that names a file which cannot be read becomes an error: it would make every later request fail.
    """
    try:
        files.inline_blocks(result.content, files.inlined_kinds(adapter.capabilities))
    except RequestError as error:
        result = error_result(result.tool_use_id, str(error))
    latency_ms = None if prepared.tool is None else max(round(seconds * 1000), 0)
    message = new_message(result)
    if prepared.labels:
        message = with_message_labels(message, frozenset(prepared.labels))
    return ToolRun(prepared.call, message, latency_ms, prepared.fault, prepared.refusal)
