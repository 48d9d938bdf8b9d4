"""What a tool can find out about its call, and what it can report while it runs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from threading import Event
from typing import Any, Generic, TypeVar

from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition

ContextT = TypeVar("ContextT", covariant=True)


class NoContext(Enum):
    """The type of the context of a function that takes none."""

    NO_CONTEXT = "no context"


NO_CONTEXT = NoContext.NO_CONTEXT


@dataclass(frozen=True, slots=True)
class Context(Generic[ContextT]):
    """The context of one call: a tool gets it if its first parameter has this type.

        @tool
        def orders(context: Context[Database], customer: str) -> list[str]:
            return context.value.orders(customer)

        Session(model, tools=[orders], context=Database(...))

    ``value`` is the ``context`` of the session. A function that chooses the tools of a turn gets it too, without a
    call: ``tool_name`` and ``tool_use_id`` are then empty.
    """

    value: ContextT
    session_id: str = ""
    """The session that the call belongs to."""
    tool_name: str = ""
    tool_use_id: str = ""
    _history: Sequence[Message] = field(default=(), repr=False)
    _ended: Event = field(default_factory=Event, repr=False, compare=False)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history of the session, the reply with the call included."""
        return tuple(self._history)

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer needed: the time of the call is over, or the caller left the turn. A function
        that runs in a thread cannot be stopped, and should look here."""
        return self._ended.is_set()


@dataclass(frozen=True, slots=True)
class Progress:
    """What a tool yields to report how far it is. ``fraction`` is between 0 and 1; ``data`` is anything else."""

    message: str = ""
    """A text for people."""
    fraction: float | None = None
    data: Any = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """What ``approve`` returns if somebody decides later, or elsewhere: the call waits for `Session.answer`."""

    reason: str = ""
    """A text for people, such as who decides."""


Approve = Callable[[ToolUseBlock, ToolDefinition], bool | Deferred | Awaitable[bool | Deferred]]
"""Decides whether a call may run. Only an AsyncSession can await the decision."""


class CallDeferred(Exception):  # noqa: N818 - not a failure: the result comes later
    """Raised by a tool whose result comes later: the call waits for `Session.answer`. The text is the reason."""


class ModelRetry(Exception):  # noqa: N818 - an instruction to the model, not a failure
    """Raised by a tool to make the model call it again; the message tells the model what to change."""
