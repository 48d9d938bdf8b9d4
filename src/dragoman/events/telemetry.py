"""Events as OpenTelemetry spans and metrics for generative AI. It needs the extra ``dragoman[otel]``.

A turn is a span ``invoke_agent``, a child of the program's current span. Its children are one span ``chat`` for each
request, retries and fallbacks included, and one ``execute_tool`` for each tool call.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from threading import Lock
from typing import Any

from dragoman.adapter.errors import MissingExtraError
from dragoman.events import conventions
from dragoman.events.catalogue import (
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    PolicyDenied,
    RouteDecided,
    ToolCalled,
    ToolCompleted,
    ToolFailed,
    TurnCancelled,
    TurnCompleted,
    TurnStarted,
)
from dragoman.events.event import Event

try:
    from opentelemetry import context as contexts
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "opentelemetry":
        raise
    raise MissingExtraError('telemetry needs OpenTelemetry: pip install "dragoman[otel]"') from None

_SCOPE = "dragoman"
_SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_OPEN_TURNS = 10_000
"""Open turns. A turn whose end was missed is ended when this many others have started."""


@dataclass(slots=True)
class _Call:
    """A request in flight."""

    span: Span
    started_at: datetime
    attributes: dict[str, Any]


@dataclass(slots=True)
class _Turn:
    """An open turn. ``span`` is None if its start was missed."""

    context: Context
    span: Span | None = None
    call: _Call | None = None
    tools: dict[str, Span] = field(default_factory=dict)
    error: str | None = None
    """The class of the last error, until a reply follows."""


class Telemetry:
    """A handler for `EventBus.subscribe`. Without providers it uses the program's own (`set_tracer_provider` and
    `set_meter_provider` of OpenTelemetry). Close it after the bus; this ends all open spans.

    Spans hold names, counts, cost and error classes. With ``message_content`` they also hold the messages, reasoning,
    tool calls and results as sent, after a policy's changes, so readers of the traces can read the conversations.
    ``agent_name`` names the spans of the turns.
    """

    def __init__(
        self,
        *,
        message_content: bool = False,
        agent_name: str | None = None,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._content = message_content
        self._agent_name = agent_name
        self._tracer = trace.get_tracer(
            _SCOPE, version("dragoman"), tracer_provider=tracer_provider, schema_url=_SCHEMA
        )
        meter = metrics.get_meter(_SCOPE, version("dragoman"), meter_provider=meter_provider, schema_url=_SCHEMA)
        self._duration = meter.create_histogram(
            conventions.DURATION,
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=conventions.DURATION_BUCKETS,
        )
        self._tokens = meter.create_histogram(
            conventions.TOKENS,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=conventions.TOKEN_BUCKETS,
        )
        self._lock = Lock()
        self._turns: dict[tuple[str, str | None], _Turn] = {}
        self._attachments: dict[str, Any] = {}

    def on_emit(self, event: Event, attachment: object) -> None:
        """Called in the thread that emits. The context is stored under the event's id until the event is processed."""
        if isinstance(event.payload, TurnStarted):
            self._attachments[event.id] = contexts.get_current()
        elif self._content and attachment is not None:
            self._attachments[event.id] = attachment

    def __call__(self, event: Event) -> None:
        attachment, at, payload = self._attachments.pop(event.id, None), _nanoseconds(event.timestamp), event.payload
        with self._lock:
            match payload:
                case TurnStarted():
                    self._begin_turn(event, attachment, at)
                case RouteDecided():
                    self._record_route(self._turn(event), payload, at)
                case LlmCallStarted():
                    self._begin_call(self._turn(event), event, payload, attachment, at)
                case LlmCallCompleted():
                    self._end_call(self._turn(event), event, payload, attachment, at)
                case LlmCallFailed():
                    self._fail_call(self._turn(event), event, payload, at)
                case ToolCalled():
                    self._begin_tool(self._turn(event), event, payload, attachment, at)
                case ToolCompleted() | ToolFailed():
                    self._end_tool(self._turn(event), payload, attachment, at)
                case TurnCompleted() | TurnCancelled():
                    self._finish(event, payload, at)
                case PolicyDenied():
                    self._turn(event).error = "policy_denied"

    def close(self) -> None:
        """End all open spans. Idempotent."""
        with self._lock:
            turns, self._turns = self._turns, {}
            for turn in turns.values():
                self._end_turn(turn, None, error="abandoned")

    def _turn(self, event: Event) -> _Turn:
        """Return the turn of an event. If its start was missed, the spans have no parent."""
        key = (event.session_id, event.turn_id)
        if key not in self._turns:
            while len(self._turns) >= _MAX_OPEN_TURNS:
                oldest = self._turns.pop(next(iter(self._turns)))
                self._end_turn(oldest, _nanoseconds(event.timestamp), error="abandoned")
            self._turns[key] = _Turn(Context())
        return self._turns[key]

    def _begin_turn(self, event: Event, parent_context: Context | None, at: int) -> None:
        turn = self._turn(event)
        attributes = {conventions.OPERATION: "invoke_agent", conventions.CONVERSATION: event.session_id}
        name = "invoke_agent"
        if self._agent_name is not None:
            attributes[conventions.AGENT] = self._agent_name
            name = f"{name} {self._agent_name}"
        if event.turn_id is not None:
            attributes["dragoman.turn.id"] = event.turn_id
        turn.span = self._tracer.start_span(
            name, parent_context or Context(), SpanKind.INTERNAL, attributes=attributes, start_time=at
        )
        turn.context = trace.set_span_in_context(turn.span, parent_context or Context())

    def _record_route(self, turn: _Turn, payload: RouteDecided, at: int) -> None:
        if turn.span is not None and payload.winner_index < len(payload.chain):
            winner = payload.chain[payload.winner_index]
            attributes = {"dragoman.route.model": payload.chosen_model, "dragoman.route.policy": winner.policy}
            turn.span.add_event("route.decided", attributes, at)

    def _begin_call(self, turn: _Turn, event: Event, payload: LlmCallStarted, history: Any, at: int) -> None:
        if turn.call is not None:  # the end of the call before was missed
            _set_error(turn.call.span, "abandoned", None)
            turn.call.span.end(at)
        attributes = conventions.request_attributes(payload.provider, payload.model)
        kind = SpanKind.INTERNAL if conventions.is_in_process(payload.provider) else SpanKind.CLIENT
        name = f"{attributes[conventions.OPERATION]} {attributes[conventions.REQUEST_MODEL]}"
        extra: dict[str, Any] = {conventions.CONVERSATION: event.session_id, "dragoman.request.id": payload.request_id}
        if payload.estimated_input_tokens is not None:
            extra["dragoman.estimated_input_tokens"] = payload.estimated_input_tokens
        if history is not None:
            extra[conventions.INPUT_MESSAGES] = conventions.format_messages(history)
        span = self._tracer.start_span(name, turn.context, kind, attributes=attributes | extra, start_time=at)
        turn.call = _Call(span, event.timestamp, attributes)

    def _end_call(self, turn: _Turn, event: Event, payload: LlmCallCompleted, reply: Any, at: int) -> None:
        call, turn.call, turn.error = turn.call, None, None
        if call is None:
            return
        call.span.set_attributes(conventions.reply_attributes(payload))
        if reply is not None:
            call.span.set_attribute(conventions.OUTPUT_MESSAGES, conventions.format_reply(reply))
        call.span.end(at)
        attributes = call.attributes | {conventions.RESPONSE_MODEL: conventions.model_name(payload.model)}
        self._measure(turn, call, attributes, event, payload.latency_ms)
        counts = {"input": conventions.total_input_tokens(payload), "output": payload.output_tokens}
        for kind, count in counts.items():
            if count is not None:
                self._tokens.record(count, attributes | {conventions.TOKEN_TYPE: kind}, _span_context(turn, call))

    def _fail_call(self, turn: _Turn, event: Event, payload: LlmCallFailed, at: int) -> None:
        call, turn.call, turn.error = turn.call, None, payload.error_class
        if call is None:
            return
        _set_error(call.span, payload.error_class, payload.error_message_redacted)
        call.span.set_attribute("dragoman.retry_count", payload.retry_count)
        call.span.end(at)
        self._measure(turn, call, call.attributes | {conventions.ERROR: payload.error_class}, event, payload.latency_ms)

    def _measure(
        self, turn: _Turn, call: _Call, attributes: Mapping[str, Any], event: Event, latency_ms: int | None
    ) -> None:
        seconds = (event.timestamp - call.started_at).total_seconds() if latency_ms is None else latency_ms / 1000
        self._duration.record(max(seconds, 0.0), attributes, _span_context(turn, call))

    def _begin_tool(self, turn: _Turn, event: Event, payload: ToolCalled, call: Any, at: int) -> None:
        attributes = {
            conventions.OPERATION: "execute_tool",
            conventions.TOOL_NAME: payload.tool_name,
            conventions.TOOL_CALL: payload.tool_use_id,
            conventions.TOOL_TYPE: "function",
            conventions.CONVERSATION: event.session_id,
        }
        if call is not None:
            attributes[conventions.TOOL_ARGUMENTS] = conventions.format_arguments(call)
        name = f"execute_tool {payload.tool_name}"
        span = self._tracer.start_span(name, turn.context, SpanKind.INTERNAL, attributes=attributes, start_time=at)
        turn.tools[payload.tool_use_id] = span

    def _end_tool(self, turn: _Turn, payload: ToolCompleted | ToolFailed, answer: Any, at: int) -> None:
        span = turn.tools.pop(payload.tool_use_id, None)
        if span is None:
            return
        if answer is not None:
            span.set_attribute(conventions.TOOL_RESULT, conventions.format_result(answer))
        if isinstance(payload, ToolFailed):
            _set_error(span, payload.error_class, payload.error_message)
        span.end(at)

    def _finish(self, event: Event, payload: TurnCompleted | TurnCancelled, at: int) -> None:
        turn = self._turns.pop((event.session_id, event.turn_id), None)
        if turn is None:
            return
        error = None
        if isinstance(payload, TurnCancelled):
            error = "cancelled"
        elif payload.stop_reason is not None and str(payload.stop_reason) == "error":
            error = turn.error or "_OTHER"
        if turn.span is not None and isinstance(payload, TurnCompleted):
            owners = {"user.id": payload.user_id, "dragoman.team.id": payload.team_id}
            cost = payload.total_cost_usd
            known = owners | {"dragoman.cost.usd": None if cost is None else format(cost, "f")}
            turn.span.set_attributes({name: value for name, value in known.items() if value is not None})
        self._end_turn(turn, at, error=error)

    @staticmethod
    def _end_turn(turn: _Turn, at: int | None, *, error: str | None) -> None:
        """End the turn with all of its open spans."""
        for span in (*turn.tools.values(), *([] if turn.call is None else [turn.call.span])):
            _set_error(span, "abandoned", None)
            span.end(at)
        if turn.span is not None:
            if error is not None:
                _set_error(turn.span, error, None)
            turn.span.end(at)


def _set_error(span: Span, kind: str, why: str | None) -> None:
    span.set_attribute(conventions.ERROR, kind)
    span.set_status(Status(StatusCode.ERROR, why or kind))


def _span_context(turn: _Turn, call: _Call) -> Context:
    """Return the context that links a measurement to its span."""
    return trace.set_span_in_context(call.span, turn.context)


def _nanoseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
