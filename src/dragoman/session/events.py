"""What a session's stream yields besides the adapters' stream events."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.events import BackgroundProgress, OutputEvent, StreamEvent, ToolProgress


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """A tool of the session has run, or was refused: its result, as the model will read it."""

    type: ClassVar[Literal["tool_answered"]] = "tool_answered"
    tool_name: str
    """The name under which the tool was offered."""
    result: ToolResultBlock
    """The result, or the error in its place."""


SessionEvent = StreamEvent | ToolAnswered | BackgroundProgress | ToolProgress | OutputEvent
"""What a stream of a session yields. Each has a ``type``."""
