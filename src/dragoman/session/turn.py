"""One turn, without I/O: a generator that says what is to be done and is told how it went.

`Session` and `AsyncSession` are its two drivers. What the turn yields is an effect; what it is sent is the effect's
result; what is thrown into it is the effect's failure. It returns the assistant's last message.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import ProviderError, TurnLimitError
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.events import MessageStart, StreamEvent, UsageUpdate
from dragoman.canonical.message import Message, MessageStatus, StopReason
from dragoman.canonical.tools import ToolDefinition


@dataclass(frozen=True, slots=True)
class Ask:
    """Send this and read the reply; the result is the assistant's Message."""

    adapter: Adapter
    request: WireRequest
    context: RequestContext
    unkept: tuple[Message, ...]
    """What the reply answers and the history does not hold yet; it is kept together with the reply."""


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls, side by side; the result is one ToolResultBlock for each, in the same order."""

    calls: tuple[ToolUseBlock, ...]


@dataclass(frozen=True, slots=True)
class Keep:
    """Add these messages to the history; no result."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait that many seconds; no result."""

    seconds: float


Effect = Ask | RunTools | Keep | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a turn needs: who answers, what has been said, and within which limits."""

    adapter: Adapter
    history: Sequence[Message]
    said: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
    options: AdapterOptions
    new_context: Callable[[], RequestContext]
    new_result: Callable[[ToolResultBlock], Message]
    max_rounds: int
    retry_delay: Callable[[ProviderError, int], float | None]


def run_turn(plan: Plan) -> Generator[Effect, Any, Message]:
    """Asks, runs the tools that the reply calls, and asks again until the reply calls none.

    The first reply and what it answers are kept together: a turn whose first request fails leaves no trace.
    Raises ProviderError as the driver reports it and TurnLimitError after ``max_rounds`` rounds of tools.
    """
    history = [*plan.history, *plan.said]
    unkept = plan.said
    for _ in range(plan.max_rounds):
        reply = yield from _ask(plan, history, unkept)
        history.append(reply)
        yield Keep((*unkept, reply))
        unkept = ()
        calls = reply.tool_uses
        if not calls or not _wants_results(reply):
            return reply
        results: Sequence[ToolResultBlock] = yield RunTools(calls)
        answers = tuple(plan.new_result(result) for result in results)
        history.extend(answers)
        yield Keep(answers)
    raise TurnLimitError(
        f"the model still calls tools after {plan.max_rounds} rounds: raise max_rounds, or ask(None) to go on"
    )


def _wants_results(reply: Message) -> bool:
    # A reply that ran into its length may end in half a call; it is answered all the same, as an error, so that
    # the model can try again.
    return reply.metadata.status is MessageStatus.COMPLETE and reply.stop_reason in (
        StopReason.TOOL_USE,
        StopReason.MAX_TOKENS,
    )


def _ask(plan: Plan, history: Sequence[Message], unkept: tuple[Message, ...]) -> Generator[Effect, Any, Message]:
    """One reply. What breaks before the caller saw anything of it is asked again, as the retry policy allows."""
    attempt = 0
    while True:
        context = plan.new_context()
        request = plan.adapter.to_wire(history, plan.tools, plan.options.with_context(context))
        attempt += 1
        try:
            reply: Message = yield Ask(plan.adapter, request, context, unkept)
            return reply
        except InStreamError as broken:
            delay = None if broken.seen else plan.retry_delay(broken.error, attempt)
            if delay is None:
                raise broken.error from None
        yield Wait(delay)


class InStreamError(Exception):
    """A stream that broke after its headers. ``seen``: the caller has been handed a part of it already."""

    def __init__(self, error: ProviderError, *, seen: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.seen = seen


class Gate:
    """Holds back what opens a stream until its first real content, so that an early failure can still be retried."""

    def __init__(self) -> None:
        self.seen = False
        self._held: list[StreamEvent] = []

    def pass_on(self, event: StreamEvent) -> list[StreamEvent]:
        """The events that may be shown now."""
        if not self.seen and isinstance(event, (MessageStart, UsageUpdate)):
            self._held.append(event)
            return []
        self.seen = True
        shown = [*self._held, event]
        self._held = []
        return shown
