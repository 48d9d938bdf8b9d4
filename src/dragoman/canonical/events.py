"""Stream events: the parts of a reply as they arrive.

They are slotted dataclasses, because one is created for every chunk. Deltas carry only what is new. The last event is
`MessageComplete` or `ErrorEvent`; nothing follows it. Source: docs/reference/canonical.md#events.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import TokenUsage

OutputT = TypeVar("OutputT", covariant=True)


@dataclass(frozen=True, slots=True)
class MessageStart:
    """The first event of a reply."""

    type: ClassVar[Literal["message_start"]] = "message_start"
    role: ClassVar[Role] = Role.ASSISTANT
    """Always the assistant."""
    message_id: str
    """The id of the message that `MessageComplete` brings."""
    model: str
    """The model as ``provider:name``, as the provider reports it."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of a text block."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"
    message_id: str
    """The id of the message that the piece belongs to."""
    content_block_index: int
    """The index of the block in ``message.content``, from 0."""
    text: str
    """The new piece alone."""


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """The next piece of a thinking block. ``signature`` is set only on the last delta of the block. ``redacted`` is the
    data of redacted thinking, which has no text and comes whole."""

    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    message_id: str
    """The id of the message that the piece belongs to."""
    content_block_index: int
    """The index of the block in ``message.content``, from 0."""
    text: str
    """The new piece alone; it may be empty."""
    signature: str | None = None
    redacted: str | None = None


@dataclass(frozen=True, slots=True)
class ToolUseStart:
    """A tool call begins. ``signature`` is what its provider wants back with the call, if that is known at its
    start."""

    type: ClassVar[Literal["tool_use_start"]] = "tool_use_start"
    message_id: str
    """The id of the message that the call belongs to."""
    content_block_index: int
    """The index of the call in ``message.content``, from 0."""
    tool_use_id: str
    """The canonical id of the call (``tu_<ulid>``)."""
    tool_name: str
    """The name under which the tool was offered."""
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class ToolUseInputDelta:
    """The next piece of a call's arguments. ``partial_json`` is the provider's literal fragment: join the fragments, do
    not parse a single one."""

    type: ClassVar[Literal["tool_use_input_delta"]] = "tool_use_input_delta"
    message_id: str
    """The id of the message that the call belongs to."""
    content_block_index: int
    """The index of the call in ``message.content``, from 0."""
    tool_use_id: str
    """The canonical id of the call (``tu_<ulid>``)."""
    partial_json: str


@dataclass(frozen=True, slots=True)
class ToolUseEnd:
    """A tool call is complete. ``final_input`` is authoritative. A call that is cut off never gets this event."""

    type: ClassVar[Literal["tool_use_end"]] = "tool_use_end"
    message_id: str
    """The id of the message that the call belongs to."""
    content_block_index: int
    """The index of the call in ``message.content``, from 0."""
    tool_use_id: str
    """The canonical id of the call (``tu_<ulid>``)."""
    final_input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class UsageUpdate:
    """The tokens of the reply so far. The counts are cumulative: replace the last ones, do not add."""

    type: ClassVar[Literal["usage_update"]] = "usage_update"
    message_id: str
    """The id of the message that is being billed."""
    usage: TokenUsage
    """All tokens of the reply so far, without a price."""


@dataclass(frozen=True, slots=True)
class MessageComplete:
    """The last event of a reply that arrived whole."""

    type: ClassVar[Literal["message_complete"]] = "message_complete"
    message: Message
    """The whole message, with its usage and its stop reason."""


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The last event of a stream that broke or was left. ``error`` is a DragomanError. ``partial`` is the message so
    far, with the status error or cancelled."""

    type: ClassVar[Literal["error"]] = "error"
    error: Exception
    partial: Message | None = None


StreamEvent = (
    MessageStart
    | TextDelta
    | ThinkingDelta
    | ToolUseStart
    | ToolUseInputDelta
    | ToolUseEnd
    | UsageUpdate
    | MessageComplete
    | ErrorEvent
)
"""What the stream of one reply yields. Each has a ``type``. Source: docs/reference/streams.md."""


@dataclass(frozen=True, slots=True)
class OutputProblem:
    """Why an answer is not of the requested type. ``path`` leads to the value in the JSON of the answer."""

    path: tuple[str | int, ...]
    message: str
    """What is wrong with the value, as the model is told."""

    def __str__(self) -> str:
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return f"${''.join(steps)}: {self.message}"


@dataclass(frozen=True, slots=True)
class OutputPartial(Generic[OutputT]):
    """The part of a typed answer that has arrived and is valid. The next one replaces it."""

    type: ClassVar[Literal["output_partial"]] = "output_partial"
    value: OutputT
    """The answer so far, as the requested type or as a partial value of it."""


@dataclass(frozen=True, slots=True)
class OutputComplete(Generic[OutputT]):
    """The typed answer: the reply before this event is complete and valid."""

    type: ClassVar[Literal["output_complete"]] = "output_complete"
    value: OutputT
    """The answer, of the requested type."""


@dataclass(frozen=True, slots=True)
class OutputRetry:
    """The answer is not valid, and the model is asked again: what was shown so far does not count."""

    type: ClassVar[Literal["output_retry"]] = "output_retry"
    problems: tuple[OutputProblem, ...]
    """Why the answer was refused; the model gets the same list."""


@dataclass(frozen=True, slots=True)
class BackgroundProgress:
    """The provider still works on a reply in the background. ``state`` is its own word, such as queued."""

    type: ClassVar[Literal["background_progress"]] = "background_progress"
    state: str
    seconds: float
    """The seconds since the reply was requested."""


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running tool reports how far it is. ``fraction`` is between 0 and 1."""

    type: ClassVar[Literal["tool_progress"]] = "tool_progress"
    tool_name: str
    """The name under which the tool was offered."""
    tool_use_id: str
    """The canonical id of the call (``tu_<ulid>``)."""
    message: str = ""
    """A text for people; empty if the tool gave none."""
    fraction: float | None = None
    data: Any = None
    """Anything else that the tool yielded with it."""


OutputEvent = OutputPartial[Any] | OutputComplete[Any] | OutputRetry
"""The events of a turn with a typed answer, between those of its replies."""
