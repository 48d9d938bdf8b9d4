"""A running turn: where it stands, and what it leaves for the reply."""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.losses import Loss
from dragoman.attempt.reply_reader import ReplyReader
from dragoman.canonical.events import MessageStart, TextDelta
from dragoman.canonical.message import Message, MessageStatus, Role
from dragoman.effects import Failed, Replied, ResponseDetails, SendOutcome
from dragoman.session.effects import Effect, Send, SessionEvent, Turn
from dragoman.session.history import History
from dragoman.session.reply import NO_OUTPUT, Reply, last_reply

if TYPE_CHECKING:
    from dragoman.output.check import AnswerCheck
    from dragoman.tools.call_runner import CallRunner


@dataclass(slots=True, eq=False)
class TurnRun:
    """The state of a turn that a driver runs. ``history`` is the session's.

    ``effect`` is the next one to carry out. At the end it is None, and ``error`` is the exception that ended the turn,
    if any.
    """

    turn: Turn
    history: History
    get_transport: Callable[[Adapter], Any]
    check: "AnswerCheck[Any] | None" = None
    """The check of a typed answer."""
    answers_with_text: bool = False
    """Whether the caller asked for a text as the typed answer."""
    effect: Effect | None = field(default=None, init=False)
    events: Callable[[], Any] | None = field(default=None, init=False)
    """Returns the generator of its events, or None if that is gone; None if nobody reads them."""
    error: Exception | None = field(default=None, init=False)
    calls: "CallRunner | None" = field(default=None, init=False)
    """Runs the tool calls of the turn; None before the first one."""
    is_left: bool = field(default=False, init=False)
    """Whether the caller has left: nobody receives events any more."""
    ended: bool = field(default=False, init=False)
    """Whether the stream of the turn has ended."""

    losses: dict[Loss, None] = field(default_factory=dict, init=False)
    """The losses in order, each once: a dict is an ordered set."""
    response: ResponseDetails | None = field(default=None, init=False)
    """That of the last attempt that had one."""
    text: list[str] = field(default_factory=list, init=False)
    """The pieces of the current reply's text, if the turn is a stream."""
    _mark: tuple[int, int] = field(default=(0, 0), init=False)
    _kept: tuple[tuple[Message, ...], tuple[Message, ...]] = field(default=((), ()), init=False)
    """The messages and the attempts of the turn, from its end on: the history goes on."""
    _following: Generator[Effect, Any, SendOutcome] | None = field(default=None, init=False)
    """Follows a reply that its provider still works on; its effects come before the turn's."""

    def begin(self) -> None:
        """Go to the first effect."""
        self._mark = self.history.mark()
        self.advance(None)

    def follow_answer(self) -> Callable[[Iterable[SessionEvent]], Iterator[SessionEvent]] | None:
        """Return what the events of a stream pass through if the answer is typed: it may add events, and raise."""
        if self.answers_with_text:
            from dragoman.output.check import follow_text  # imported late: few turns have a typed answer

            return follow_text
        return None if self.check is None else self.check.follow().follow

    def note_event(self, event: SessionEvent) -> None:
        """Note the text of a stream as the caller receives it."""
        if isinstance(event, TextDelta):
            self.text.append(event.text)
        elif isinstance(event, MessageStart):
            self.text.clear()

    def finish_attempt(self, reader: ReplyReader) -> None:
        """Send the turn the outcome of a `Send`. A reply that its provider still works on is followed first."""
        outcome = reader.outcome or Failed(ConfigurationError("a stage removed the end of the reply"))
        if not isinstance(outcome, Failed) and outcome.response is not None:
            self.response = outcome.response
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
            self._end()

    def _end(self) -> None:
        """Note what the turn added to the history, and give an OutputError the reply of the turn."""
        messages, attempts = self.history.since(self._mark)
        if all(message.role is Role.TOOL for message in messages):
            messages = self.history.last_round()  # results, if any, while other calls of the same reply still wait
        self._kept = messages, attempts
        if self.check is not None:
            from dragoman.output.errors import OutputError  # loaded: the turn has a typed answer

            if isinstance(self.error, OutputError):
                self.error.reply = self.to_reply()

    def to_reply(self) -> Reply[Any]:
        """Return the turn's result. Raises LookupError if it has no reply."""
        messages, attempts = self._kept
        text = last_reply(messages).text  # raises without a reply, whatever the type of the answer
        output = text if self.check is None else self.check.values[0] if self.check.values else NO_OUTPUT
        return Reply(
            output=output,
            messages=messages,
            attempts=attempts,
            losses=tuple(self.losses),
            response=self.response,
        )
