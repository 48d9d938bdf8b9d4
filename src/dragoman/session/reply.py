"""Reply: the result of a whole turn, with its usage and cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dragoman.adapter.errors import PendingCallsError, RequestError
from dragoman.adapter.losses import Loss
from dragoman.adapter.names import foreign_attribute
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.canonical.usage import TokenUsage, describe_tokens
from dragoman.effects import ResponseDetails

if TYPE_CHECKING:
    from dragoman.session.cost import Cost

OutputT = TypeVar("OutputT", covariant=True)


class Answer(Enum):
    """What stands in place of a typed answer."""

    TEXT = "text"
    """No type was requested: the answer is the text."""
    NONE = "none"
    """It did not arrive, or is not valid."""


_MAX_REPR = 60
"""Characters of the text that the repr shows."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Reply(Generic[OutputT]):
    """The result of a turn. ``print(reply)`` shows its text.

    ``messages`` are all messages that the turn added to the history, the prompt included, and ``attempts`` are the
    replies that were billed and not kept, without content. ``losses`` lists what the requests could not carry, each
    loss once.
    """

    _output: OutputT | Answer
    messages: tuple[Message, ...]
    attempts: tuple[Message, ...]
    losses: tuple[Loss, ...]
    response: ResponseDetails | None = field(compare=False)
    """The last response; None if nothing was sent."""

    def __init__(  # by hand, because `output` is a property: it may raise
        self,
        *,
        output: OutputT | Answer,
        messages: tuple[Message, ...],
        attempts: tuple[Message, ...] = (),
        losses: tuple[Loss, ...] = (),
        response: ResponseDetails | None = None,
    ) -> None:
        keep = object.__setattr__
        keep(self, "_output", output)
        keep(self, "messages", messages)
        keep(self, "attempts", attempts)
        keep(self, "losses", losses)
        keep(self, "response", response)

    if not TYPE_CHECKING:  # a type checker would believe that every name exists

        def __getattr__(self, name: str) -> Any:
            """Answer the attributes of other libraries' replies with ours."""
            raise AttributeError(f"a Reply has no attribute {name!r:.60}{foreign_attribute(name)}")

    @property
    def output(self) -> OutputT:
        """The answer: its text, or a value of the type that the turn requested.

        Raises PendingCallsError if tool calls wait for their results, and RequestError if the turn ended without a
        valid answer, as the reply of an OutputError did.
        """
        if pending := self.pending:
            names = ", ".join(dict.fromkeys(call.name for call in pending))
            raise PendingCallsError(f"there is no answer yet: these tool calls have no result: {names:.200}", pending)
        if self._output is Answer.TEXT:
            return self.text  # type: ignore[return-value]  # such a reply is a Reply[str]
        if isinstance(self._output, Answer):
            raise RequestError("the turn ended without an answer of the requested type: read the text of the reply")
        return self._output

    @property
    def message(self) -> Message:
        """The last message of the model."""
        return last_reply(self.messages)

    @property
    def text(self) -> str:
        """The text of the last message, all text blocks together."""
        return self.message.text

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the model stopped, of the last message; None if the provider does not say."""
        return self.message.stop_reason

    @property
    def usage(self) -> TokenUsage:
        """The tokens of all replies and attempts of the turn."""
        from dragoman.session.cost import total_usage  # imported late: many programs ask for no sums

        return total_usage((*self.messages, *self.attempts))

    @property
    def cost(self) -> "Cost":
        """The cost of all replies and attempts of the turn."""
        from dragoman.session.cost import total_cost  # as above

        return total_cost((*self.messages, *self.attempts))

    @property
    def pending(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls that have no result yet."""
        answered = {result.tool_use_id for message in self.messages for result in message.tool_results}
        return tuple(call for call in self.message.tool_uses if call.id not in answered)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= _MAX_REPR else f"{self.text[:_MAX_REPR]}…"
        return f"Reply({text!r}, {self.stop_reason}, {describe_tokens(self.usage)}, {self.cost})"

    def _repr_html_(self) -> str | None:
        from dragoman.canonical.message import render_html  # imported late: notebooks alone ask

        return render_html(self.messages)


def last_reply(messages: Sequence[Message]) -> Message:
    """Return the last message that a model wrote: a reply, or the summary of a compaction. Raises LookupError if there
    is none."""
    for message in reversed(messages):
        if message.role is Role.ASSISTANT or message.metadata.summary_of:
            return message
    raise LookupError("the turn has no reply")
