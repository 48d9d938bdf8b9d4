"""One payload of each event type of the catalogue."""

from decimal import Decimal

from dragoman.canonical.message import StopReason
from dragoman.canonical.tools import SideEffects
from dragoman.events import (
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    LlmReplyDrifted,
    ModelSwapped,
    ModelSwapRefused,
    Payload,
    PolicyDeclassified,
    PolicyDenied,
    PolicyEvaluation,
    PolicyHeadersWritten,
    RouteDecided,
    ToolCalled,
    ToolCompleted,
    ToolFailed,
    ToolInputInvalid,
    TurnCancelled,
    TurnCompleted,
    TurnStarted,
)

STARTED = LlmCallStarted(model="a:x", provider="a", estimated_input_tokens=12, request_id="req_1")
FAILED = LlmCallFailed(model="a:x", provider="a", error_class="auth", error_message_redacted="AuthenticationError")
PAYLOADS: list[Payload] = [
    STARTED,
    LlmCallCompleted(
        model="a:x",
        provider="a",
        input_tokens=8,
        output_tokens=42,
        cost_usd=Decimal("0.000654"),
        stop_reason=StopReason.END_TURN,
        user_id="usr_1",
    ),
    FAILED,
    LlmReplyDrifted(model="a:x", provider="a", names=("stop_reason:bored",)),
    ToolCalled(
        tool_use_id="tu_1", tool_name="look", input_hash="0" * 64, input_size_bytes=2, side_effects=SideEffects.READ
    ),
    ToolCompleted(tool_use_id="tu_1", success=True, output_size_bytes=3, files_modified=("a.txt",)),
    ToolFailed(tool_use_id="tu_1", error_class="timeout", error_message="it took too long", latency_ms=5),
    ToolInputInvalid(tool_name="look", validation_errors=("$.path: required",)),
    RouteDecided(
        chosen_model="a:x",
        winner_index=0,
        elapsed_ms=0.5,
        chain=(PolicyEvaluation(policy="rule", verdict="chose", candidate_model="a:x", reason="it fits"),),
    ),
    PolicyDenied(hook="cmf.llm_output", plugin="no_secrets", code="secret", reason="the reply holds a secret"),
    PolicyDeclassified(labels=("PII",), actor_id="officer", reason="published", subject="sess_1"),
    PolicyHeadersWritten(provider="a", names=("x-trace",)),
    ModelSwapped(previous_model="a:m", model="b:m", losses=2, estimated_input_tokens=40),
    ModelSwapRefused(previous_model="a:m", model="b:m", refusals=("no_tool_support",), reason_count=1),
    TurnStarted(user_message_hash="0" * 64),
    TurnCompleted(llm_call_count=1, tool_call_count=0, total_cost_usd=Decimal("0.000654")),
    TurnCancelled(reason="user_cancel"),
]
