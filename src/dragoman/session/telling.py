"""What happens in a turn, told to an event bus: hashes, names and counts, and nothing of what is said.

A turn is a generator, so most of it is told by a second one around it, which sees every effect and how it went. Replies
and the answers of tools are told where they are known in full.
"""

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import EventOverflowError, ProviderError, RequestCancelledError
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.ids import new_ulid
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.canonical.usage import CostStatus
from dragoman.events.bus import EventBus
from dragoman.events.catalogue import (
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    PolicyDeclassified,
    PolicyDenied,
    PolicyHeadersWritten,
    ToolCalled,
    ToolCompleted,
    ToolFailed,
    ToolInputInvalid,
    TurnCancelled,
    TurnCompleted,
    TurnStarted,
)
from dragoman.events.event import Event, Payload
from dragoman.routing import RouteDecision
from dragoman.routing.events import decided
from dragoman.session import spending
from dragoman.session.calls import Prepared
from dragoman.session.turn import Ask, BrokenReplyError, Effect, Fill, Judge, Keep, RunTools, Turn, advance

if TYPE_CHECKING:
    from dragoman.policy.errors import PolicyDeniedError
    from dragoman.policy.labels import Declassification

_FAULTS = {
    "user_denied": "the call was declined",
    "not_found": "there is no such tool",
    "validation_error": "the arguments do not fit",
    "execution_error": "the tool failed",
    "cancelled": "the turn ended before it had an answer",
}
"""Words that quote nothing: what a tool says of its failure may hold anything."""


@dataclass(slots=True)
class Teller:
    """Tells a bus what happens in one session, which takes one turn at a time.

    A handler that has fallen behind never holds a turn up: the bus logs what it missed.
    """

    bus: EventBus
    session_id: str
    clock: Callable[[], datetime]
    side_effects: Callable[[str], SideEffects | None]
    """Of a tool by its name; None where there is no such tool."""
    tools: Callable[[], Sequence[ToolDefinition]] = tuple
    turn_id: str | None = None
    _started: Event | None = None
    _sent: Sequence[Message] = ()
    """What the request that comes next says."""
    _filled: bool = False
    _asked: Ask | None = None
    """The request under way, until its reply is there."""
    _called: dict[str, Event | None] = field(default_factory=dict)
    """The events of calls whose answers are not there yet."""
    _ran: dict[str, Prepared] = field(default_factory=dict)
    """Calls whose answers are yet to be judged."""
    _calls: int = 0
    _replies: int = 0
    _stopped: Message | None = None

    def told(
        self, turn: Turn, said: Message | None, history: Sequence[Message], billed: Callable[[], Sequence[Message]]
    ) -> Turn:
        """The same turn, told. ``billed`` are the replies and attempts of this turn, as far as it has come."""
        begun = self.clock()
        self.turn_id, self._asked, self._called, self._ran = f"turn_{new_ulid()}", None, {}, {}
        self._started, self._calls, self._replies, self._stopped = None, 0, 0, None
        self._started = self._tell(partial(TurnStarted.of, said, tuple(history)))
        effect, outcome = None, None
        with closing(turn):
            try:
                while (effect := advance(turn, outcome)) is not None:
                    self._begins(effect)
                    try:
                        outcome = yield effect
                        self._ready(effect, outcome)
                    except Exception as error:
                        self._failed(error)
                        outcome = error
            except GeneratorExit:
                self._left()
                raise
            except Exception:
                self._tell(lambda: self._totals(billed(), self.clock() - begun, StopReason.ERROR))
                raise
        self._tell(lambda: self._totals(billed(), self.clock() - begun))

    def decided(self, decision: RouteDecision, elapsed_ms: float) -> None:
        self._tell(partial(decided, decision, elapsed_ms))

    def denied(self, error: "PolicyDeniedError") -> None:
        facts = {"hook": error.hook, "plugin": error.plugin, "code": error.code, "reason": error.reason}
        self._tell(partial(PolicyDenied.model_validate, facts))

    def declassified(self, record: "Declassification") -> None:
        """Between turns: it belongs to none."""
        facts = {"labels": tuple(record.labels), "actor_id": record.actor, "reason": record.reason}
        make = partial(PolicyDeclassified.model_validate, facts | {"subject": record.subject})
        with suppress(EventOverflowError):
            self.bus.emit(make, session_id=self.session_id)

    def headed(self, provider: str, names: Sequence[str]) -> None:
        self._tell(partial(PolicyHeadersWritten, provider=provider, names=tuple(names)))

    def replied(self, reply: Message) -> None:
        """A reply is there. One that was cut by its caller is told as such when the turn ends."""
        if reply.metadata.status is MessageStatus.CANCELLED:
            return
        self._asked, self._stopped = None, reply
        self._replies += 1
        self._tell(partial(LlmCallCompleted.of, reply), about=reply)

    def answered(
        self, prepared: Sequence[Prepared], results: Sequence[ToolResultBlock], *, judged: bool = False
    ) -> None:
        """What became of the calls of one reply. Answers that a policy is to judge are told when they are kept."""
        if judged:
            self._ran = {call.call.id: call for call in prepared}
            return
        for call, result in zip(prepared, results, strict=True):
            self._answer(call, result)

    def _answer(self, call: Prepared, result: ToolResultBlock) -> None:
        called = self._called.pop(call.call.id, None)
        if call.fault == "validation_error":
            self._tell(partial(_invalid, call), parent=called)
        if result.is_error:
            fault = call.fault or "execution_error"
            self._tell(partial(_failure, result.tool_use_id, fault), parent=called, about=result)
        else:
            self._tell(partial(_success, result), parent=called, about=result)

    def _begins(self, effect: Effect) -> None:
        if isinstance(effect, Ask):
            self._asked = effect
            self._tell(partial(self._asking, effect), about=self._sent)
        elif isinstance(effect, RunTools):
            for call in effect.calls:
                self._called[call.id] = self._tell(partial(self._call, call), about=call)
                self._calls += 1
        elif isinstance(effect, Keep):
            ran, self._ran = self._ran, {}
            for result in (result for message in effect.messages for result in message.tool_results):
                if result.tool_use_id in ran:
                    self._answer(ran[result.tool_use_id], result)

    def _ready(self, effect: Effect, outcome: Any) -> None:
        """What is said has its files read in, and then a policy may have changed it."""
        if isinstance(effect, Fill) or (isinstance(effect, Judge) and self._filled):
            self._sent = outcome
        self._filled = isinstance(effect, Fill)

    def _asking(self, ask: Ask) -> Payload:
        return LlmCallStarted(
            model=str(ask.adapter.model_id),
            provider=ask.adapter.provider,
            estimated_input_tokens=ask.adapter.estimate_input_tokens(self._sent, self.tools()),
            request_id=ask.context.request_id,
        )

    def _call(self, call: ToolUseBlock) -> Payload:
        return ToolCalled.of(call, self.side_effects(call.name))

    def _failed(self, error: Exception) -> None:
        """What is under way ends with that error: a request, or the calls that have no answer yet."""
        asked, self._asked = self._asked, None
        if asked is not None:
            begun = asked.context.started_at
            spent = None if begun is None else max(round((self.clock() - begun) / timedelta(milliseconds=1)), 0)
            failed = error.error if isinstance(error, BrokenReplyError) else error
            self._tell(partial(_call_failure, asked.context.model, failed, spent))
        open_calls, self._called = self._called, {}
        for call_id, called in open_calls.items():
            self._tell(partial(_failure, call_id, "cancelled"), parent=called)

    def _left(self) -> None:
        llm, tools = self._replies + (self._asked is not None), self._calls
        self._failed(RequestCancelledError("the caller left"))
        self._tell(lambda: TurnCancelled(reason="user_cancel", partial_llm_calls=llm, partial_tool_calls=tools))

    def _totals(self, billed: Sequence[Message], span: timedelta, failed: StopReason | None = None) -> Payload:
        replies = [message for message in billed if message.role is Role.ASSISTANT or message.metadata.summary_of]
        cost, usage = spending.total_cost(billed), spending.total_usage(billed)
        counted = bool(replies) and all(reply.usage is not None for reply in replies)
        known = cost.status in (CostStatus.PRICED, CostStatus.FREE)
        last = None if self._stopped is None else self._stopped.metadata
        return TurnCompleted(
            stop_reason=failed or (None if last is None else last.stop_reason),
            llm_call_count=self._replies,
            tool_call_count=self._calls,
            total_input_tokens=usage.prompt_tokens if counted else None,
            total_output_tokens=usage.output_tokens if counted else None,
            total_cost_usd=cost.usd if known else None,
            wall_time_seconds=max(span.total_seconds(), 0.0),
            user_id=None if last is None else last.user_id,
            team_id=None if last is None else last.team_id,
        )

    def _tell(self, make: Callable[[], Payload], *, parent: Event | None = None, about: object = None) -> Event | None:
        cause = parent or self._started
        try:
            return self.bus.emit(make, session_id=self.session_id, turn_id=self.turn_id, parent=cause, about=about)
        except EventOverflowError:
            return None


def _invalid(call: Prepared) -> Payload:
    return ToolInputInvalid(tool_name=call.call.name, validation_errors=(call.refusal,))


def _call_failure(model: str, error: Exception, latency_ms: int | None) -> Payload:
    """An error that is not the provider's, such as a missing key, is told by its kind alone."""
    if isinstance(error, ProviderError):
        return LlmCallFailed.of(model, error, latency_ms=latency_ms)
    provider, kind = model.partition(":")[0], type(error).__name__
    return LlmCallFailed(
        model=model, provider=provider, error_class="other", error_message_redacted=kind, latency_ms=latency_ms
    )


def _failure(tool_use_id: str, kind: Any) -> Payload:
    return ToolFailed(tool_use_id=tool_use_id, error_class=kind, error_message=_FAULTS[kind])


def _success(result: ToolResultBlock) -> Payload:
    """The size is that of the answer as the session keeps it, media included."""
    size = sum(len(block.model_dump_json(exclude_none=True).encode()) for block in result.content)
    return ToolCompleted(tool_use_id=result.tool_use_id, success=True, output_size_bytes=size)
