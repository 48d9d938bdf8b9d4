"""The effects of a turn and their outcomes.

A turn is a generator without I/O. It yields effects; the session carries each out and sends back its outcome. A
middleware is a generator between the two (see `dragoman.session.middleware`), and finds all that it needs here.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.attempt.reply_reader import apply_stages as apply_stages
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.events import BackgroundProgress, OutputEvent, StreamEvent, ToolProgress
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.effects import Abandoned as Abandoned
from dragoman.effects import Broken as Broken
from dragoman.effects import Failed as Failed
from dragoman.effects import Observe as Observe
from dragoman.effects import Perform as Perform
from dragoman.effects import Replied as Replied
from dragoman.effects import SendOutcome as SendOutcome
from dragoman.effects import Stage as Stage
from dragoman.effects import intercept as intercept
from dragoman.session.turn.routes import Route
from dragoman.transport.retry import RetryState, Timing

if TYPE_CHECKING:
    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.tools.calls import Fault


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


@dataclass(frozen=True, slots=True)
class Admit:
    """Take the prompt into the conversation. The outcome is the prompt as it may be sent and kept.

    ``adapter`` is that of the model that reads the prompt; None if the router has not chosen one yet.
    """

    prompt: tuple[Message, ...]
    """The new messages of the caller."""
    adapter: Adapter | None
    opens_turn: bool = True
    """False for a request to answer again, in the middle of a turn."""
    extensions: "Extensions | None" = None
    """What the program says of this turn to the plugins of its policy."""


@dataclass(frozen=True, slots=True)
class Choose:
    """Choose the model. The outcome is the route; None if there is no fallback."""

    choose: Callable[[], Route | None]
    """The function that asks the router. It may raise NoModelError."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read the files that the history refers to. The outcome is the history as the model of ``adapter`` may receive
    it."""

    adapter: Adapter
    history: Sequence[Message]
    """The messages as the session stores them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Make one attempt of a request. The outcome is a `Replied`, `Failed`, `Broken` or `Abandoned`.

    The driver encodes the request after every middleware has seen the effect. ``history`` has the messages as the
    session stores them; ``messages`` has them as they are sent, with the content of files.
    """

    adapter: Adapter
    """The adapter of the model that is asked."""
    context: RequestContext
    """What the adapter needs beside the messages, new for each attempt."""
    history: Sequence[Message]
    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...]
    """The definitions that the model is offered."""
    options: AdapterOptions
    """The options of the request."""
    retries: RetryState
    """How many retries are left, and for which errors."""
    new_messages: tuple[Message, ...] | None = None
    """The messages of ``history`` that are kept together with the reply; None if nothing is kept."""
    stages: tuple[Stage, ...] = ()
    """What the events of a stream pass through before the caller sees them, in order."""
    observers: tuple[Observe, ...] = ()
    """Called with the headers of the response as soon as it begins; the driver performs what they return."""
    joins_text: bool = False
    """Text of a stream that arrives together may be one delta, if no stage filters the events."""


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls concurrently. The outcome is one `ToolRun` for each that has a result, in the same order; the
    others are answered later.

    ``adapter`` is that of the model that reads the results. ``results`` are those that come from elsewhere, by call id:
    these calls are not run.
    """

    adapter: Adapter
    calls: tuple[ToolUseBlock, ...]
    """The calls of one reply, in its order."""
    results: Mapping[str, ToolResultBlock] = field(default_factory=dict)
    labels: Mapping[str, set[str]] = field(default_factory=dict)
    """The security labels of these results, by call id."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Add these messages to the history. The outcome is the messages as they were added.

    The caller receives an event for each reply and for each tool result among them. ``calls`` are the tool calls that
    these results answer; those without a result wait for it. ``ends_turn``: nothing follows.
    """

    messages: tuple[Message, ...]
    """The new messages, in order."""
    calls: tuple[ToolUseBlock, ...] = ()
    ends_turn: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait before the next attempt. The caller receives the events after it."""

    seconds: float
    """How long to wait."""
    timing: Timing
    """The clock to wait by."""
    events: tuple[SessionEvent, ...] = ()
    """What the caller receives after the wait."""


Effect = Admit | Choose | Read | Send | RunTools | Keep | Wait | Perform
Turn = Generator[Effect, Any, None]


class AbandonedTurnError(Exception):
    """Ends a turn whose caller has left: the outcome of any effect except `Send`. No caller receives it."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One call with its result, as a message. ``latency_ms`` is the time of this call alone."""

    call: ToolUseBlock
    """The call as the model made it."""
    message: Message
    """The message of the role ``tool`` that the model will read."""
    latency_ms: int | None = None
    fault: "Fault | None" = None
    """Why the call was not run."""
    refusal: str = field(default="", repr=False)
    """The error that the model received instead of a result."""
