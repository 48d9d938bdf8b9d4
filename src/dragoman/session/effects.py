"""The effects of a turn and their outcomes.

A turn is a generator without I/O. It yields effects; the driver, `Session` or `AsyncSession`, carries each out and
sends back its outcome. A middleware is a generator between the two (see `dragoman.session.middleware`).
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.session.events import SessionEvent
from dragoman.session.replies.response import ResponseDetails
from dragoman.session.routes import Route
from dragoman.tools.calls import Fault
from dragoman.transport.retry import RetryState, Timing


@dataclass(frozen=True, slots=True)
class Perform:
    """Do work that may wait: a driver calls one of the two functions. The outcome is its result."""

    work: Callable[[], Any]
    work_async: Callable[[], Awaitable[Any]]


class Stage(Protocol):
    """Filters one streamed reply, event by event. A reply that is not streamed is one message_complete event.

    Returns the events that replace this one. A stage that has to wait returns a `Perform`, whose result is these
    events. An exception of a stage ends the reply, which is then `Broken`.
    """

    def __call__(self, event: StreamEvent, /) -> Sequence[StreamEvent] | Perform: ...


@dataclass(frozen=True, slots=True)
class Admit:
    """Take the prompt into the conversation. The outcome is the prompt as it may be sent and kept.

    ``adapter`` is that of the model that reads the prompt; None if the router has not chosen one yet.
    """

    prompt: tuple[Message, ...]
    adapter: Adapter | None
    opens_turn: bool = True
    """False for a request to answer again, in the middle of a turn."""


@dataclass(frozen=True, slots=True)
class Choose:
    """Choose the model. The outcome is the route; None if there is no fallback."""

    choose: Callable[[], Route | None]


@dataclass(frozen=True, slots=True)
class Read:
    """Read the files that the history refers to. The outcome is the history as the model of ``adapter`` may receive
    it."""

    adapter: Adapter
    history: Sequence[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Make one attempt of a request. The outcome is a `Replied`, `Failed`, `Broken` or `Abandoned`.

    The driver encodes the request after every middleware has seen the effect. ``history`` has the messages as the
    session stores them; ``messages`` has them as they are sent, with the content of files.
    """

    adapter: Adapter
    context: RequestContext
    history: Sequence[Message]
    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...]
    options: AdapterOptions
    retries: RetryState
    new_messages: tuple[Message, ...] | None = None
    """The messages of ``history`` that are kept together with the reply; None if nothing is kept."""
    stages: tuple[Stage, ...] = ()
    observers: tuple[Callable[[Mapping[str, str]], Perform], ...] = ()
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
    results: Mapping[str, ToolResultBlock] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Keep:
    """Add these messages to the history. The outcome is the messages as they were added.

    The caller receives an event for each reply and for each tool result among them. ``calls`` are the tool calls that
    these results answer; those without a result wait for it. ``ends_turn``: nothing follows.
    """

    messages: tuple[Message, ...]
    calls: tuple[ToolUseBlock, ...] = ()
    ends_turn: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait before the next attempt. The caller receives the events after it."""

    seconds: float
    timing: Timing
    events: tuple[SessionEvent, ...] = ()


Effect = Admit | Choose | Read | Send | RunTools | Keep | Wait | Perform
Turn = Generator[Effect, Any, None]


@dataclass(frozen=True, slots=True)
class Replied:
    """The whole reply. ``response`` is None if a middleware provided the reply and nothing was sent."""

    message: Message
    response: ResponseDetails | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt gave no reply: the request could not be sent, or the provider refused it."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Broken:
    """A reply began and cannot be used. ``partial`` is what had arrived; ``seen`` says whether the caller saw any of
    that."""

    error: Exception
    partial: Message | None
    seen: bool
    response: ResponseDetails | None = None


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The caller left. ``partial`` is what had arrived, with status cancelled.

    If no content can be kept, ``billed`` is a message with the usage of the reply.
    """

    partial: Message | None = None
    billed: Message | None = None
    response: ResponseDetails | None = None


SendOutcome = Replied | Failed | Broken | Abandoned


class AbandonedTurnError(Exception):
    """Ends a turn whose caller has left: the outcome of any effect except `Send`. No caller receives it."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One call with its result, as a message. ``latency_ms`` is the time of this call alone."""

    call: ToolUseBlock
    message: Message
    latency_ms: int | None = None
    fault: Fault | None = None
    """Why the call was not run."""
    refusal: str = field(default="", repr=False)
    """The error that the model received instead of a result."""


def advance(turn: Turn, outcome: Any) -> Effect | None:
    """Return the next effect, or None at the end. ``outcome`` is the result of the last effect, or its exception."""
    try:
        return turn.throw(outcome) if isinstance(outcome, Exception) else turn.send(outcome)
    except StopIteration:
        return None


def intercept(turn: Turn, handle: Callable[[Effect], Generator[Effect, Any, Any]]) -> Turn:
    """Wrap a turn: each of its effects goes through ``handle``.

    ``handle`` yields the effect, changed or not, and returns its outcome, changed or not. It may yield other effects
    first, or return an outcome without yielding any. Its exceptions are raised in the turn, where the turn yielded the
    effect.
    """
    outcome: Any = None
    with closing(turn):
        while (effect := advance(turn, outcome)) is not None:
            try:
                outcome = yield from handle(effect)
            except Exception as error:
                outcome = error
