"""The catalogue: every event of a turn, with its payload.

Events hold no prompt, no reply and no key, only hashes, sizes, names and counts. The content is in the messages. An
unknown value is None, never 0. Source: docs/reference/routing-and-events.md#event-catalogue.
"""

import hashlib
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from dragoman.adapter.errors import ProviderError
from dragoman.adapter.replies.drift import Drift
from dragoman.canonical.blocks import FrozenModel, ThinkingBlock, ToolUseBlock
from dragoman.canonical.guard import Count, Text
from dragoman.canonical.message import Message, StopReason
from dragoman.canonical.tools import SideEffects
from dragoman.events.event import Actor, Payload, Sensitivity


class LlmCallStarted(Payload):
    """A request is about to be sent."""

    type: ClassVar[str] = "llm.call_started"
    actor: ClassVar[Actor] = Actor.AGENT

    model: Text
    provider: Text
    estimated_input_tokens: Count | None = None
    request_id: Text
    is_worker: bool = False


class LlmCallCompleted(Payload):
    """A reply was received; the four counts are disjoint."""

    type: ClassVar[str] = "llm.call_completed"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.AGENT

    model: Text
    provider: Text
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cached_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cost_usd: Decimal | None = None
    pricing_version: Text | None = None
    latency_ms: Count | None = None
    stop_reason: StopReason | None = None
    produced_tool_calls: Count = 0
    produced_thinking_blocks: Count = 0
    gateway_key_id: Text | None = None
    inbound_shape: Text | None = None
    user_id: Text | None = None
    team_id: Text | None = None

    @classmethod
    def of(cls, reply: Message, **fields: Any) -> Self:
        """Build the payload from an assistant's message; ``fields`` are the gateway's."""
        metadata, usage = reply.metadata, reply.usage
        counts = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens")
        priced = ("cost_usd", "pricing_version", "latency_ms")
        return cls(
            model=metadata.model or "",
            provider=metadata.provider or "",
            **{name: None if usage is None else getattr(usage, name) for name in (*counts, *priced)},
            stop_reason=metadata.stop_reason,
            produced_tool_calls=len(reply.tool_uses),
            produced_thinking_blocks=sum(isinstance(block, ThinkingBlock) for block in reply.content),
            user_id=metadata.user_id,
            team_id=metadata.team_id,
            **fields,
        )


class LlmReplyDrifted(Payload):
    """A reply used names that this version does not know. ``names`` are ``kind:name``; the kinds are ``event``,
    ``field`` and ``stop_reason``. Nothing of their values is in the event."""

    type: ClassVar[str] = "llm.reply_drifted"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.AGENT

    model: Text
    provider: Text
    names: tuple[Text, ...]

    @classmethod
    def of(cls, reply: Message, drift: Sequence[Drift]) -> Self:
        metadata = reply.metadata
        names = tuple(f"{each.kind}:{each.name}" for each in drift)
        return cls(model=metadata.model or "", provider=metadata.provider or "", names=names)


class LlmCallFailed(Payload):
    type: ClassVar[str] = "llm.call_failed"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.AGENT

    model: Text
    provider: Text
    error_class: Text
    error_message_redacted: Text
    """The error's kind, status and code. The provider's message may quote the prompt, so it is left out."""
    retry_count: Count = 0
    latency_ms: Count | None = None

    @classmethod
    def of(cls, model: str, error: Exception, *, latency_ms: int | None = None) -> Self:
        """An error that is not a ProviderError, such as a missing key, is reported by its class name only."""
        provider, name = model.partition(":")[0], type(error).__name__
        if not isinstance(error, ProviderError):
            return cls(
                model=model, provider=provider, error_class="other", error_message_redacted=name, latency_ms=latency_ms
            )
        details = (("status", error.status), ("code", error.code))
        parts = [name, *(f"{name} {value}" for name, value in details if value is not None)]
        return cls(
            model=model,
            provider=provider,
            error_class=error.error_class,
            error_message_redacted=", ".join(parts).encode(errors="replace").decode(),
            retry_count=max(len(error.attempts) - 1, 0),
            latency_ms=latency_ms,
        )


class ToolCalled(Payload):
    type: ClassVar[str] = "tool.called"
    actor: ClassVar[Actor] = Actor.AGENT

    tool_use_id: Text
    tool_name: Text
    input_hash: Text
    """SHA-256, in hexadecimal, of the input as JSON with sorted keys and without spaces."""
    input_size_bytes: Count
    side_effects: SideEffects | None = None

    @classmethod
    def of(cls, call: ToolUseBlock, side_effects: SideEffects | None = None) -> Self:
        """Build the payload from a call. ``side_effects`` is None for a tool that the session does not know."""
        encoded = json.dumps(call.input, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        return cls(
            tool_use_id=call.id,
            tool_name=call.name,
            input_hash=hashlib.sha256(encoded).hexdigest(),
            input_size_bytes=len(encoded),
            side_effects=side_effects,
        )


class ToolCompleted(Payload):
    type: ClassVar[str] = "tool.completed"
    actor: ClassVar[Actor] = Actor.TOOL

    tool_use_id: Text
    success: bool
    output_size_bytes: Count
    latency_ms: Count | None = None
    files_modified: tuple[Text, ...] | None = None
    command_executed: Text | None = None


class ToolFailed(Payload):
    type: ClassVar[str] = "tool.failed"
    actor: ClassVar[Actor] = Actor.TOOL

    tool_use_id: Text
    error_class: Literal[
        "timeout",
        "permission_denied",
        "not_found",
        "validation_error",
        "execution_error",
        "cancelled",
        "user_denied",
        "confirmation_timeout",
    ]
    error_message: Text
    latency_ms: Count | None = None


class ToolInputInvalid(Payload):
    """Private, because the error may quote the input."""

    type: ClassVar[str] = "tool.input_invalid"

    tool_name: Text
    validation_errors: tuple[Text, ...]


class PolicyEvaluation(FrozenModel):
    """One step of the routing chain."""

    policy: Literal[
        "per_message_override",
        "manual_sticky",
        "rule",
        "pattern",
        "delegate_request",
        "workspace_default",
        "global_default",
    ]
    verdict: Literal["not_applicable", "deferred", "rejected", "chose"]
    candidate_model: Text | None = None
    reason: Text
    rule_name: Text | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    pattern_alternatives: tuple[Text, ...] | None = None
    validation_failure: Text | None = None
    """The name of the first failure. Source: docs/reference/routing-and-events.md#validation."""
    validation_failures: tuple[Text, ...] = ()
    failure: Text | None = None
    """The class of the error with which the model failed, before the fallback was used."""


class RouteDecided(Payload):
    """The turn has a model. Another event follows in the same turn only if that model fails before it answers."""

    type: ClassVar[str] = "route.decided"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS

    chosen_model: Text
    winner_index: Count
    elapsed_ms: float = Field(ge=0, allow_inf_nan=False)
    chain: tuple[PolicyEvaluation, ...]


class ModelSwapped(Payload):
    """The session is set to another model. ``losses``: how many things its next request cannot carry."""

    type: ClassVar[str] = "model.swapped"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.USER

    previous_model: Text | None = None
    model: Text
    losses: Count = 0
    estimated_input_tokens: Count | None = None


class ModelSwapRefused(Payload):
    """A swap was refused; the model stays. ``refusals`` are names of docs/reference/routing-and-events.md#validation;
    a refusal without such a name counts in ``reason_count`` alone."""

    type: ClassVar[str] = "model.swap_refused"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.USER

    previous_model: Text | None = None
    model: Text
    refusals: tuple[Text, ...] = ()
    reason_count: Count = 0


class PolicyDenied(Payload):
    """A plugin of the session's policy denied a step. Private, because its reason may quote the content."""

    type: ClassVar[str] = "policy.denied"

    hook: Text
    plugin: Text
    code: Text
    reason: Text


class PolicyDeclassified(Payload):
    """Labels were removed from a session's data. Private, because the reason may quote the data."""

    type: ClassVar[str] = "policy.declassified"
    actor: ClassVar[Actor] = Actor.USER

    labels: tuple[Text, ...]
    actor_id: Text
    reason: Text
    subject: Text | None = None


class PolicyHeadersWritten(Payload):
    """Plugins added headers to a request. The event holds only their names."""

    type: ClassVar[str] = "policy.headers_written"

    provider: Text
    names: tuple[Text, ...]


class TurnStarted(Payload):
    type: ClassVar[str] = "turn.started"
    actor: ClassVar[Actor] = Actor.USER

    user_message_hash: Text
    """SHA-256 of the text, in hexadecimal. Short texts can be guessed from it."""
    user_message_text_redacted: Text | None = None
    """Set only if the user agreed to share it."""
    estimated_input_tokens: Count | None = None
    has_images: bool = False
    has_tool_calls_in_history: bool = False

    @classmethod
    def of(cls, prompt: Message | None, history: tuple[Message, ...] = (), **fields: Any) -> Self:
        """Build the payload of a turn in which ``prompt`` follows the history."""
        text = "" if prompt is None else prompt.text
        fields_of_turn: dict[str, Any] = {
            "user_message_hash": hashlib.sha256(text.encode()).hexdigest(),
            "has_images": prompt is not None and any(block.type == "image" for block in prompt.content),
            "has_tool_calls_in_history": any(message.tool_uses for message in history),
        }
        return cls(**(fields_of_turn | fields))


class TurnCompleted(Payload):
    type: ClassVar[str] = "turn.completed"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.AGENT

    stop_reason: StopReason | None = None
    llm_call_count: Count
    tool_call_count: Count
    total_input_tokens: Count | None = None
    """Everything billed as prompt."""
    total_output_tokens: Count | None = None
    total_cost_usd: Decimal | None = None
    wall_time_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    user_id: Text | None = None
    team_id: Text | None = None


class TurnCancelled(Payload):
    type: ClassVar[str] = "turn.cancelled"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.USER

    reason: Literal["user_cancel", "client_disconnect", "timeout"]
    partial_llm_calls: Count = 0
    partial_tool_calls: Count = 0


CATALOGUE: dict[str, type[Payload]] = {
    payload.type: payload
    for payload in (
        LlmCallStarted,
        LlmCallCompleted,
        LlmCallFailed,
        LlmReplyDrifted,
        ToolCalled,
        ToolCompleted,
        ToolFailed,
        ToolInputInvalid,
        RouteDecided,
        ModelSwapped,
        ModelSwapRefused,
        PolicyDenied,
        PolicyDeclassified,
        PolicyHeadersWritten,
        TurnStarted,
        TurnCompleted,
        TurnCancelled,
    )
}
"""Every event of the library by its type. A program may add its own: see `EventBus`."""
