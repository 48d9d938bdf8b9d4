"""Reports a turn to an event bus: hashes, names and counts, without message content.

A turn is a generator. `TurnTelemetry.wrap` is a generator around it that sees every effect and its outcome. Replies and
tool results are reported when they are complete.
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
from dragoman.routing.events import to_event
from dragoman.session import cost
from dragoman.session.turn import BrokenReplyError, Effect, Keep, Read, RunPolicy, RunTools, Send, Turn, advance
from dragoman.tools.calls import PreparedCall

if TYPE_CHECKING:
    from dragoman.policy.errors import PolicyDeniedError
    from dragoman.policy.labels import Declassification

_FAULT_MESSAGES = {
    "user_denied": "the call was declined",
    "not_found": "there is no such tool",
    "validation_error": "the arguments do not fit",
    "execution_error": "the tool failed",
    "cancelled": "the turn ended before it had an answer",
}
"""Fixed texts: a tool's own error message may contain anything."""


@dataclass(slots=True)
class TurnTelemetry:
    """Reports the turns of one session, one at a time, to an event bus.

    A slow handler never delays a turn: the bus logs the events that it missed.
    """

    bus: EventBus
    session_id: str
    clock: Callable[[], datetime]
    side_effects: Callable[[str], SideEffects | None]
    """Returns the side effects of a tool by its name; None if there is no such tool."""
    tools: Callable[[], Sequence[ToolDefinition]] = tuple
    turn_id: str | None = None
    _turn_started: Event | None = None
    _sent: Sequence[Message] = ()
    """The messages of the next request."""
    _files_just_read: bool = False
    _open_request: Send | None = None
    """The request in flight."""
    _open_calls: dict[str, Event | None] = field(default_factory=dict)
    """The events of calls without a result."""
    _deferred_calls: dict[str, PreparedCall] = field(default_factory=dict)
    """Calls whose results the policy has still to check."""
    _calls: int = 0
    _replies: int = 0
    _last_reply: Message | None = None

    def wrap(
        self, turn: Turn, prompt: Message | None, history: Sequence[Message], billed: Callable[[], Sequence[Message]]
    ) -> Turn:
        """The same turn, reported. ``billed`` returns the replies and attempts of this turn so far."""
        started_at = self.clock()
        self.turn_id, self._open_request, self._open_calls, self._deferred_calls = f"turn_{new_ulid()}", None, {}, {}
        self._turn_started, self._calls, self._replies, self._last_reply = None, 0, 0, None
        self._turn_started = self._emit(partial(TurnStarted.of, prompt, tuple(history)))
        effect, outcome = None, None
        with closing(turn):
            try:
                while (effect := advance(turn, outcome)) is not None:
                    self._on_effect(effect)
                    try:
                        outcome = yield effect
                        self._on_outcome(effect, outcome)
                    except Exception as error:
                        self._on_failure(error)
                        outcome = error
            except GeneratorExit:
                self._on_cancel()
                raise
            except Exception:
                self._emit(lambda: self._turn_totals(billed(), self.clock() - started_at, StopReason.ERROR))
                raise
        self._emit(lambda: self._turn_totals(billed(), self.clock() - started_at))

    def on_route_decision(self, decision: RouteDecision, elapsed_ms: float) -> None:
        self._emit(partial(to_event, decision, elapsed_ms))

    def on_denial(self, error: "PolicyDeniedError") -> None:
        facts = {"hook": error.hook, "plugin": error.plugin, "code": error.code, "reason": error.reason}
        self._emit(partial(PolicyDenied.model_validate, facts))

    def on_declassification(self, record: "Declassification") -> None:
        """Emitted between turns, so the event has no turn id."""
        facts = {"labels": tuple(record.labels), "actor_id": record.actor, "reason": record.reason}
        make = partial(PolicyDeclassified.model_validate, facts | {"subject": record.subject})
        with suppress(EventOverflowError):
            self.bus.emit(make, session_id=self.session_id)

    def on_headers_written(self, provider: str, names: Sequence[str]) -> None:
        self._emit(partial(PolicyHeadersWritten, provider=provider, names=tuple(names)))

    def on_reply(self, reply: Message) -> None:
        """Report a complete reply. A cancelled one is reported when the turn ends."""
        if reply.metadata.status is MessageStatus.CANCELLED:
            return
        self._open_request, self._last_reply = None, reply
        self._replies += 1
        self._emit(partial(LlmCallCompleted.of, reply), attachment=reply)

    def on_tool_results(
        self, prepared: Sequence[PreparedCall], results: Sequence[ToolResultBlock], *, deferred: bool = False
    ) -> None:
        """Report the results of one reply's calls; if ``deferred``, after the policy has checked them."""
        if deferred:
            self._deferred_calls = {call.call.id: call for call in prepared}
            return
        for call, result in zip(prepared, results, strict=True):
            self._emit_tool_result(call, result)

    def _emit_tool_result(self, call: PreparedCall, result: ToolResultBlock) -> None:
        call_event = self._open_calls.pop(call.call.id, None)
        if call.fault == "validation_error":
            self._emit(partial(_invalid_input_payload, call), parent=call_event)
        if result.is_error:
            fault = call.fault or "execution_error"
            self._emit(partial(_tool_failure_payload, result.tool_use_id, fault), parent=call_event, attachment=result)
        else:
            self._emit(partial(_tool_success_payload, result), parent=call_event, attachment=result)

    def _on_effect(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self._open_request = effect
            self._emit(partial(self._llm_call_payload, effect), attachment=self._sent)
        elif isinstance(effect, RunTools):
            for call in effect.calls:
                self._open_calls[call.id] = self._emit(partial(self._tool_call_payload, call), attachment=call)
                self._calls += 1
        elif isinstance(effect, Keep):
            deferred_calls, self._deferred_calls = self._deferred_calls, {}
            for result in (result for message in effect.messages for result in message.tool_results):
                if result.tool_use_id in deferred_calls:
                    self._emit_tool_result(deferred_calls[result.tool_use_id], result)

    def _on_outcome(self, effect: Effect, outcome: Any) -> None:
        """Note what is sent: first the history with file content, then what a policy made of it."""
        if isinstance(effect, Read) or (isinstance(effect, RunPolicy) and self._files_just_read):
            self._sent = outcome
        self._files_just_read = isinstance(effect, Read)

    def _llm_call_payload(self, send: Send) -> Payload:
        return LlmCallStarted(
            model=str(send.adapter.model_id),
            provider=send.adapter.provider,
            estimated_input_tokens=send.adapter.estimate_input_tokens(self._sent, self.tools()),
            request_id=send.context.request_id,
        )

    def _tool_call_payload(self, call: ToolUseBlock) -> Payload:
        return ToolCalled.of(call, self.side_effects(call.name))

    def _on_failure(self, error: Exception) -> None:
        """Report the failure of the request in flight, or of the calls without a result."""
        request, self._open_request = self._open_request, None
        if request is not None:
            started_at = request.context.started_at
            spent = (
                None if started_at is None else max(round((self.clock() - started_at) / timedelta(milliseconds=1)), 0)
            )
            failed = error.error if isinstance(error, BrokenReplyError) else error
            self._emit(partial(_llm_failure_payload, request.context.model, failed, spent))
        open_calls, self._open_calls = self._open_calls, {}
        for call_id, call_event in open_calls.items():
            self._emit(partial(_tool_failure_payload, call_id, "cancelled"), parent=call_event)

    def _on_cancel(self) -> None:
        llm, tools = self._replies + (self._open_request is not None), self._calls
        self._on_failure(RequestCancelledError("the caller left"))
        self._emit(lambda: TurnCancelled(reason="user_cancel", partial_llm_calls=llm, partial_tool_calls=tools))

    def _turn_totals(self, billed: Sequence[Message], span: timedelta, failed: StopReason | None = None) -> Payload:
        replies = [message for message in billed if message.role is Role.ASSISTANT or message.metadata.summary_of]
        total, usage = cost.total_cost(billed), cost.total_usage(billed)
        counted = bool(replies) and all(reply.usage is not None for reply in replies)
        known = total.status in (CostStatus.PRICED, CostStatus.FREE)
        last = None if self._last_reply is None else self._last_reply.metadata
        return TurnCompleted(
            stop_reason=failed or (None if last is None else last.stop_reason),
            llm_call_count=self._replies,
            tool_call_count=self._calls,
            total_input_tokens=usage.prompt_tokens if counted else None,
            total_output_tokens=usage.output_tokens if counted else None,
            total_cost_usd=total.usd if known else None,
            wall_time_seconds=max(span.total_seconds(), 0.0),
            user_id=None if last is None else last.user_id,
            team_id=None if last is None else last.team_id,
        )

    def _emit(
        self, make: Callable[[], Payload], *, parent: Event | None = None, attachment: object = None
    ) -> Event | None:
        cause = parent or self._turn_started
        try:
            return self.bus.emit(
                make, session_id=self.session_id, turn_id=self.turn_id, parent=cause, attachment=attachment
            )
        except EventOverflowError:
            return None


def _invalid_input_payload(call: PreparedCall) -> Payload:
    return ToolInputInvalid(tool_name=call.call.name, validation_errors=(call.refusal,))


def _llm_failure_payload(model: str, error: Exception, latency_ms: int | None) -> Payload:
    """An error that is not a ProviderError, such as a missing key, is reported by its class name only."""
    if isinstance(error, ProviderError):
        return LlmCallFailed.of(model, error, latency_ms=latency_ms)
    provider, kind = model.partition(":")[0], type(error).__name__
    return LlmCallFailed(
        model=model, provider=provider, error_class="other", error_message_redacted=kind, latency_ms=latency_ms
    )


def _tool_failure_payload(tool_use_id: str, kind: Any) -> Payload:
    return ToolFailed(tool_use_id=tool_use_id, error_class=kind, error_message=_FAULT_MESSAGES[kind])


def _tool_success_payload(result: ToolResultBlock) -> Payload:
    """The size is that of the result as the session stores it, media included."""
    size = sum(len(block.model_dump_json(exclude_none=True).encode()) for block in result.content)
    return ToolCompleted(tool_use_id=result.tool_use_id, success=True, output_size_bytes=size)
