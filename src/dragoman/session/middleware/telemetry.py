"""The middleware that reports a turn to an event bus: hashes, names and counts, without message content."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import EventOverflowError, RequestCancelledError
from dragoman.adapter.replies.drift import drift_of
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.ids import new_ulid
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.canonical.usage import CostStatus
from dragoman.effects import Abandoned, Replied, SendOutcome, intercept
from dragoman.events.bus import EventBus
from dragoman.events.catalogue import (
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    LlmReplyDrifted,
    ModelSwapped,
    ModelSwapRefused,
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
from dragoman.routing.events import own_model_event, to_event
from dragoman.session import cost
from dragoman.session.effects import AbandonedTurnError, Admit, Choose, Effect, Keep, RunTools, Send, ToolRun, Turn
from dragoman.session.history import History
from dragoman.session.preview import Preview
from dragoman.session.turn.routes import Route
from dragoman.tools.toolbox import Toolbox

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


class Telemetry:
    """Reports the turns of one session, one at a time, to an event bus.

    A slow handler never delays a turn: the bus logs the events that it missed.
    """

    def __init__(
        self,
        bus: EventBus,
        session_id: str,
        clock: Callable[[], datetime],
        toolbox: Toolbox,
        history: History,
    ) -> None:
        self.bus = bus
        self.turn_id: str | None = None
        self.may_log_content: Callable[[], bool] = lambda: True
        """Whether the data of the conversation may be written into traces."""
        self._session_id = session_id
        self._clock = clock
        self._toolbox = toolbox
        self._history = history
        self._turn_started: Event | None = None
        self._open_calls: dict[str, Event | None] = {}
        """The events of calls without a result."""
        self._runs: dict[str, ToolRun] = {}
        """Calls that ran, until their results are kept."""
        self._calls = 0
        self._replies = 0
        self._abandoned = 0
        self._last_reply: Message | None = None
        self._called_tools, self._searched = False, 0
        """Whether a message of the history has a call, and how many were searched."""

    def __call__(self, turn: Turn) -> Turn:
        started_at, mark = self._clock(), self._history.mark()
        self.turn_id, self._turn_started, self._last_reply = f"turn_{new_ulid()}", None, None
        self._open_calls, self._runs = {}, {}
        self._calls = self._replies = self._abandoned = 0

        def totals(failed: StopReason | None = None) -> Payload:
            return self._turn_totals(self._history.billed_since(mark), self._clock() - started_at, failed)

        reported = intercept(turn, self._handle)
        with closing(reported):
            try:
                yield from reported
            except AbandonedTurnError:
                self._end_open_calls()
                llm, tools = self._replies + self._abandoned, self._calls
                self._emit(lambda: TurnCancelled(reason="user_cancel", partial_llm_calls=llm, partial_tool_calls=tools))
                raise
            except Exception:
                self._end_open_calls()
                self._emit(partial(totals, StopReason.ERROR))
                raise
        self._emit(totals)

    def on_denial(self, error: "PolicyDeniedError") -> None:
        facts = {"hook": error.hook, "plugin": error.plugin, "code": error.code, "reason": error.reason}
        self._emit(partial(PolicyDenied.model_validate, facts))

    def on_declassification(self, record: "Declassification") -> None:
        facts = {"labels": tuple(record.labels), "actor_id": record.actor, "reason": record.reason}
        self._emit_between_turns(partial(PolicyDeclassified.model_validate, facts | {"subject": record.subject}))

    def on_swap(self, previous: str | None, preview: Preview) -> None:
        """Report a swap, or its refusal."""
        if preview.fits:
            self._emit_between_turns(
                lambda: ModelSwapped(
                    previous_model=previous,
                    model=preview.model,
                    losses=len(preview.losses),
                    estimated_input_tokens=preview.input_tokens,
                )
            )
            return
        self._emit_between_turns(
            lambda: ModelSwapRefused(
                previous_model=previous,
                model=preview.model,
                refusals=tuple(map(str, preview.refusals)),
                reason_count=len(preview.reasons),
            )
        )

    def on_headers_written(self, provider: str, names: Sequence[str]) -> None:
        self._emit(partial(PolicyHeadersWritten, provider=provider, names=tuple(names)))

    def _handle(self, effect: Effect) -> Generator[Effect, Any, Any]:
        match effect:
            case Admit() if effect.opens_turn:
                prompt, called = next(iter(effect.prompt), None), self._has_called_tools()
                self._turn_started = self._emit(partial(TurnStarted.of, prompt, has_tool_calls_in_history=called))
                return (yield effect)
            case Choose():
                route: Route | None = yield effect
                if route is not None:
                    self._emit(partial(_route_payload, route))
                return route
            case Send():
                return (yield from self._report_attempt(effect))
            case RunTools():
                return (yield from self._report_calls(effect))
            case Keep():
                kept = yield effect
                for message in kept:
                    self._report_results(message)
                return kept
            case _:
                return (yield effect)

    def _has_called_tools(self) -> bool:
        """Whether a model called a tool earlier. The list of messages only grows, so each is looked at once."""
        messages = self._history.messages
        if not self._called_tools:
            self._called_tools = any(message.tool_uses for message in messages[self._searched :])
            self._searched = len(messages)
        return self._called_tools

    def _report_attempt(self, send: Send) -> Generator[Effect, Any, SendOutcome]:
        self._emit(partial(self._attempt_payload, send), attachment=send.messages)
        outcome: SendOutcome
        try:
            outcome = yield send
        except Exception as error:
            self._emit(self._failure(send, error))
            raise
        match outcome:
            case Replied():
                self._last_reply, self._replies = outcome.message, self._replies + 1
                self._emit(partial(LlmCallCompleted.of, outcome.message), attachment=outcome.message)
                if drift := drift_of(outcome.message):
                    self._emit(partial(LlmReplyDrifted.of, outcome.message, drift))
            case Abandoned():
                self._abandoned = 1
                cancelled = RequestCancelledError("the caller left")
                self._emit(self._failure(send, cancelled))
            case _:
                self._emit(self._failure(send, outcome.error))
        return outcome

    def _report_calls(self, effect: RunTools) -> Generator[Effect, Any, Sequence[ToolRun]]:
        for call in effect.calls:
            payload = partial(ToolCalled.of, call, self._toolbox.side_effects(call.name))
            self._open_calls[call.id] = self._emit(payload, attachment=call)
            self._calls += 1
        runs: Sequence[ToolRun] = yield effect
        self._runs.update((run.call.id, run) for run in runs)
        for call in effect.calls if len(runs) < len(effect.calls) else ():
            if call.id not in self._runs:  # it waits for a result from elsewhere
                self._open_calls.pop(call.id, None)
        return runs

    def _report_results(self, message: Message) -> None:
        """Report results when they are kept: as the policy left them."""
        for result in message.tool_results:
            run = self._runs.pop(result.tool_use_id, None)
            if run is None:
                continue
            call_event = self._open_calls.pop(result.tool_use_id, None)
            if run.fault == "validation_error":
                invalid = partial(ToolInputInvalid, tool_name=run.call.name, validation_errors=(run.refusal,))
                self._emit(invalid, parent=call_event)
            payload = _tool_failure_payload if result.is_error else _tool_success_payload
            self._emit(partial(payload, result, run), parent=call_event, attachment=result)

    def _end_open_calls(self) -> None:
        """Report the calls that got no result."""
        open_calls, self._open_calls = self._open_calls, {}
        for call_id, call_event in open_calls.items():
            words = {"error_class": "cancelled", "error_message": _FAULT_MESSAGES["cancelled"]}
            self._emit(partial(ToolFailed.model_validate, {"tool_use_id": call_id, **words}), parent=call_event)

    def _attempt_payload(self, send: Send) -> Payload:
        return LlmCallStarted(
            model=str(send.adapter.model_id),
            provider=send.adapter.provider,
            estimated_input_tokens=send.adapter.estimate_input_tokens(send.messages, send.tools),
            request_id=send.context.request_id,
        )

    def _failure(self, send: Send, error: Exception) -> Callable[[], Payload]:
        return partial(LlmCallFailed.of, str(send.adapter.model_id), error, latency_ms=self._latency_ms(send))

    def _latency_ms(self, send: Send) -> int | None:
        """Return the milliseconds since the request was sent; None if it was not."""
        started_at = send.context.started_at
        return None if started_at is None else max(round((self._clock() - started_at) / timedelta(milliseconds=1)), 0)

    def _emit_between_turns(self, make: Callable[[], Payload]) -> None:
        """Emit an event without a turn id."""
        with suppress(EventOverflowError):
            self.bus.emit(make, session_id=self._session_id)

    def _turn_totals(self, billed: Sequence[Message], span: timedelta, failed: StopReason | None) -> Payload:
        replies = [message for message in billed if message.role is Role.ASSISTANT or message.metadata.summary_of]
        usages = [message.metadata.usage for message in billed if message.metadata.usage is not None]
        total, counted = cost.total_cost(billed), bool(replies) and all(reply.usage is not None for reply in replies)
        known = total.status in (CostStatus.PRICED, CostStatus.FREE)
        last = None if self._last_reply is None else self._last_reply.metadata
        return TurnCompleted(
            stop_reason=failed or (None if last is None else last.stop_reason),
            llm_call_count=self._replies,
            tool_call_count=self._calls,
            total_input_tokens=sum(usage.prompt_tokens for usage in usages) if counted else None,
            total_output_tokens=sum(usage.output_tokens for usage in usages) if counted else None,
            total_cost_usd=total.usd if known else None,
            wall_time_seconds=max(span.total_seconds(), 0.0),
            user_id=None if last is None else last.user_id,
            team_id=None if last is None else last.team_id,
        )

    def _emit(
        self, make: Callable[[], Payload], *, parent: Event | None = None, attachment: object = None
    ) -> Event | None:
        cause = parent or self._turn_started
        if attachment is not None and not self.may_log_content():
            attachment = None
        try:
            return self.bus.emit(
                make, session_id=self._session_id, turn_id=self.turn_id, parent=cause, attachment=attachment
            )
        except EventOverflowError:
            return None


def _route_payload(route: Route) -> Payload:
    if route.decision is None:
        return own_model_event(route.record.chosen_model, route.record.reason)
    return to_event(route.decision, route.elapsed_ms)


def _tool_failure_payload(result: ToolResultBlock, run: ToolRun) -> Payload:
    fault: Any = run.fault or "execution_error"
    return ToolFailed(
        tool_use_id=result.tool_use_id,
        error_class=fault,
        error_message=_FAULT_MESSAGES[fault],
        latency_ms=run.latency_ms,
    )


def _tool_success_payload(result: ToolResultBlock, run: ToolRun) -> Payload:
    """Return the payload. The size is that of the result as the session stores it, media included."""
    size = sum(len(block.model_dump_json(exclude_none=True).encode()) for block in result.content)
    return ToolCompleted(
        tool_use_id=result.tool_use_id, success=True, output_size_bytes=size, latency_ms=run.latency_ms
    )
