"""What a running turn leaves behind, for its `Reply`."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dragoman.adapter.losses import Loss
from dragoman.canonical.events import MessageStart, TextDelta
from dragoman.canonical.message import Message, Role
from dragoman.session.effects import Failed, SendOutcome
from dragoman.session.events import SessionEvent
from dragoman.session.history import History
from dragoman.session.replies.reply import NO_OUTPUT, Reply, last_reply
from dragoman.session.replies.response import ResponseDetails

if TYPE_CHECKING:
    from dragoman.output.check import AnswerCheck


@dataclass(slots=True, eq=False)
class TurnRecord:
    """The messages, losses and responses of one turn. ``history`` is the session's."""

    history: History
    losses: dict[Loss, None] = field(default_factory=dict)
    """The losses in order, each once: a dict is an ordered set."""
    response: ResponseDetails | None = None
    check: "AnswerCheck[Any] | None" = None
    """The check of a typed answer."""
    text: list[str] = field(default_factory=list, init=False)
    """The pieces of the current reply's text, if the turn is a stream."""
    ended: bool = field(default=False, init=False)
    """Whether the stream of the turn has ended."""
    _mark: tuple[int, int] = field(default=(0, 0), init=False)
    _kept: tuple[tuple[Message, ...], tuple[Message, ...]] = field(default=((), ()), init=False)
    """The messages and the attempts of the turn, from its end on: the history goes on."""

    def begin(self) -> None:
        """Note where the turn begins."""
        self._mark = self.history.mark()

    def end(self) -> None:
        """Note what the turn added to the history."""
        messages, attempts = self.history.since(self._mark)
        if all(message.role is Role.TOOL for message in messages):
            messages = self.history.last_round()  # results, if any, while other calls of the same reply still wait
        self._kept = messages, attempts

    def complete(self, error: Exception | None) -> None:
        """Give an OutputError the reply of the turn."""
        from dragoman.output.errors import OutputError  # loaded: the turn has a typed answer

        if isinstance(error, OutputError):
            error.reply = self.to_reply()

    def note_event(self, event: SessionEvent) -> None:
        """Note the text of a stream as the caller receives it."""
        if isinstance(event, TextDelta):
            self.text.append(event.text)
        elif isinstance(event, MessageStart):
            self.text.clear()

    def add_losses(self, losses: tuple[Loss, ...]) -> None:
        self.losses.update(dict.fromkeys(losses))

    def note(self, outcome: SendOutcome) -> None:
        """Note the response of an attempt."""
        if not isinstance(outcome, Failed) and outcome.response is not None:
            self.response = outcome.response

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
