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
    """The model, as ``provider:name``."""
    provider: Text
    """The name of the provider."""
    estimated_input_tokens: Count | None = None
    """Tokens of the prompt, as the adapter estimates them; None without an estimate."""
    request_id: Text
    """The id of this request, new for each attempt. It is not the provider's request id."""
    is_worker: bool = False
    """Whether a delegated worker asks. A session of this library does not set it."""


class LlmCallCompleted(Payload):
    """A reply was received; the four counts are disjoint."""

    type: ClassVar[str] = "llm.call_completed"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.AGENT

    model: Text
    """The model that answered, as ``provider:name``."""
    provider: Text
    """The name of the provider."""
    input_tokens: Count | None = None
    """Tokens of the prompt that no cache served or stored; None if the provider reports no usage."""
    output_tokens: Count | None = None
    """Tokens of the reply, its reasoning included."""
    cached_input_tokens: Count | None = None
    """Tokens of the prompt that were read from the provider's cache."""
    cache_creation_input_tokens: Count | None = None
    """Tokens of the prompt that were written to the provider's cache."""
    cost_usd: Decimal | None = None
    """The price of the reply in US dollars; None, never 0, if it is not known."""
    pricing_version: Text | None = None
    """The price table that the cost was computed with."""
    latency_ms: Count | None = None
    """The time from sending to the end of the reply, in milliseconds, without waits for limits."""
    stop_reason: StopReason | None = None
    """Why the model stopped."""
    produced_tool_calls: Count = 0
    """The number of tool calls in the reply."""
    produced_thinking_blocks: Count = 0
    """The number of thinking blocks in the reply, redacted ones included."""
    gateway_key_id: Text | None = None
    """The gateway's key that the request came with. A session of this library does not set it."""
    inbound_shape: Text | None = None
    """The wire on which a gateway received the request. A session of this library does not set it."""
    user_id: Text | None = None
    """The pseudonymous id of the user, if the session names one."""
    team_id: Text | None = None
    """The pseudonymous id of the team, if the session names one."""

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
    """The model that answered, as ``provider:name``."""
    provider: Text
    """The name of the provider."""
    names: tuple[Text, ...]

    @classmethod
    def of(cls, reply: Message, drift: Sequence[Drift]) -> Self:
        """Build the payload from a reply and the unknown names that its adapter noted."""
        metadata = reply.metadata
        names = tuple(f"{each.kind}:{each.name}" for each in drift)
        return cls(model=metadata.model or "", provider=metadata.provider or "", names=names)


class LlmCallFailed(Payload):
    """A request gave no usable reply. Retries of one request are one event."""

    type: ClassVar[str] = "llm.call_failed"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.AGENT

    model: Text
    """The model that was asked, as ``provider:name``."""
    provider: Text
    """The name of the provider."""
    error_class: Text
    """The kind of `ProviderError`, such as ``rate_limit``; ``other`` for any other error."""
    error_message_redacted: Text
    """The error's kind, status and code. The provider's message may quote the prompt, so it is left out."""
    retry_count: Count = 0
    """How often the request was sent again before this error."""
    latency_ms: Count | None = None
    """The time from sending to the error, in milliseconds; None if nothing was sent."""

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
    """A tool is about to run. The event has the size and a hash of the input, and nothing else of it."""

    type: ClassVar[str] = "tool.called"
    actor: ClassVar[Actor] = Actor.AGENT

    tool_use_id: Text
    """The canonical id of the call."""
    tool_name: Text
    """The name that the model called."""
    input_hash: Text
    """SHA-256, in hexadecimal, of the input as JSON with sorted keys and without spaces."""
    input_size_bytes: Count
    """The size of the JSON that was hashed."""
    side_effects: SideEffects | None = None
    """What the tool may change, as it declares; None for a tool that the session does not know."""

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
    """A tool returned a result that is not an error."""

    type: ClassVar[str] = "tool.completed"
    actor: ClassVar[Actor] = Actor.TOOL

    tool_use_id: Text
    """The canonical id of the call."""
    success: bool
    """True: a call that fails is a `ToolFailed`."""
    output_size_bytes: Count
    """The size of the result in UTF-8, media included."""
    latency_ms: Count | None = None
    """How long the tool ran, in milliseconds; None if it was not timed."""
    files_modified: tuple[Text, ...] | None = None
    """The files that the tool changed. A session does not know them and leaves this out."""
    command_executed: Text | None = None
    """The command that the tool ran. A session does not know it and leaves this out."""


class ToolFailed(Payload):
    """A tool gave no result, or an error. Source: docs/reference/routing-and-events.md."""

    type: ClassVar[str] = "tool.failed"
    actor: ClassVar[Actor] = Actor.TOOL

    tool_use_id: Text
    """The canonical id of the call."""
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
    """Why the call failed. A session uses user_denied, not_found, validation_error, execution_error and cancelled."""
    error_message: Text
    """A fixed text for the class: the tool's own message may contain anything, and is left out."""
    latency_ms: Count | None = None
    """How long the tool ran, in milliseconds; None if it did not run."""


class ToolInputInvalid(Payload):
    """Private, because the error may quote the input."""

    type: ClassVar[str] = "tool.input_invalid"

    tool_name: Text
    """The name that the model called."""
    validation_errors: tuple[Text, ...]
    """What is wrong with the arguments, as the model is told."""


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
    """The link of the chain. Source: docs/reference/routing-and-events.md#chain."""
    verdict: Literal["not_applicable", "deferred", "rejected", "chose"]
    """Whether the link proposed nothing, was outranked and not checked, was refused, or won."""
    candidate_model: Text | None = None
    """The model that the link proposed, as ``provider:name``."""
    reason: Text
    """One sentence for people."""
    rule_name: Text | None = None
    """The rule behind the proposal, if it was a rule."""
    confidence: float | None = Field(default=None, ge=0, le=1)
    """The recommender's confidence, from 0 to 1, if it was a recommendation."""
    pattern_alternatives: tuple[Text, ...] | None = None
    """The other models that the recommender named, best first."""
    validation_failure: Text | None = None
    """The name of the first failure. Source: docs/reference/routing-and-events.md#validation."""
    validation_failures: tuple[Text, ...] = ()
    """The names of all failures. Source: docs/reference/routing-and-events.md#validation."""
    failure: Text | None = None
    """The class of the error with which the model failed, before the fallback was used."""


class RouteDecided(Payload):
    """The turn has a model. Another event follows in the same turn only if that model fails before it answers."""

    type: ClassVar[str] = "route.decided"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS

    chosen_model: Text
    """The model of the turn, as ``provider:name``."""
    winner_index: Count
    """The index in ``chain`` of the link that won, from 0."""
    elapsed_ms: float = Field(ge=0, allow_inf_nan=False)
    """How long the decision took, in milliseconds."""
    chain: tuple[PolicyEvaluation, ...]
    """All links in their order, with what each proposed."""


class ModelSwapped(Payload):
    """The session is set to another model. ``losses``: how many things its next request cannot carry."""

    type: ClassVar[str] = "model.swapped"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.USER

    previous_model: Text | None = None
    """The model before, as ``provider:name``; None if routing chose it."""
    model: Text
    """The model from the next turn on."""
    losses: Count = 0
    estimated_input_tokens: Count | None = None
    """Tokens of the history for the new model, as its adapter estimates them."""


class ModelSwapRefused(Payload):
    """A swap was refused; the model stays. ``refusals`` are names of docs/reference/routing-and-events.md#validation;
    a refusal without such a name counts in ``reason_count`` alone."""

    type: ClassVar[str] = "model.swap_refused"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.USER

    previous_model: Text | None = None
    """The model that stays, as ``provider:name``; None if routing chooses it."""
    model: Text
    """The model that was refused."""
    refusals: tuple[Text, ...] = ()
    reason_count: Count = 0


class PolicyDenied(Payload):
    """A plugin of the session's policy denied a step. Private, because its reason may quote the content."""

    type: ClassVar[str] = "policy.denied"

    hook: Text
    """The hook at which the plugin ran, such as ``llm_input``."""
    plugin: Text
    """The name of the plugin."""
    code: Text
    """The plugin's own word for the violation."""
    reason: Text
    """The plugin's sentence, which may quote the content."""


class PolicyDeclassified(Payload):
    """Labels were removed from a session's data. Private, because the reason may quote the data."""

    type: ClassVar[str] = "policy.declassified"
    actor: ClassVar[Actor] = Actor.USER

    labels: tuple[Text, ...]
    """The labels that were removed."""
    actor_id: Text
    """Who removed them."""
    reason: Text
    """Why, in the actor's words."""
    subject: Text | None = None
    """The id of the authenticated caller at that time, if there was one."""


class PolicyHeadersWritten(Payload):
    """Plugins added headers to a request. The event holds only their names."""

    type: ClassVar[str] = "policy.headers_written"

    provider: Text
    """The name of the provider that receives the headers."""
    names: tuple[Text, ...]
    """The names of the added headers, without their values."""


class TurnStarted(Payload):
    """A prompt was accepted, and a model is about to be chosen for it."""

    type: ClassVar[str] = "turn.started"
    actor: ClassVar[Actor] = Actor.USER

    user_message_hash: Text
    """SHA-256 of the text, in hexadecimal. Short texts can be guessed from it."""
    user_message_text_redacted: Text | None = None
    """Set only if the user agreed to share it."""
    estimated_input_tokens: Count | None = None
    """Tokens of the whole request, as the adapter estimates them; None without an estimate."""
    has_images: bool = False
    """Whether the prompt contains an image."""
    has_tool_calls_in_history: bool = False
    """Whether a model called a tool earlier in the session."""

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
    """A turn ended: with a reply, or with an error as its stop reason."""

    type: ClassVar[str] = "turn.completed"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.AGENT

    stop_reason: StopReason | None = None
    """Why the last model stopped; ``error`` if the turn failed."""
    llm_call_count: Count
    """The number of replies that were received in the turn."""
    tool_call_count: Count
    """The number of tools that were called in the turn."""
    total_input_tokens: Count | None = None
    """Everything billed as prompt."""
    total_output_tokens: Count | None = None
    """Tokens of all replies of the turn; None if one has no usage."""
    total_cost_usd: Decimal | None = None
    """The price of all replies in US dollars; None, never 0, if one is not known."""
    wall_time_seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The time from the prompt to the end, waits for tools and limits included."""
    user_id: Text | None = None
    """The pseudonymous id of the user, if the session names one."""
    team_id: Text | None = None
    """The pseudonymous id of the team, if the session names one."""


class TurnCancelled(Payload):
    """The caller left a turn before its end."""

    type: ClassVar[str] = "turn.cancelled"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS
    actor: ClassVar[Actor] = Actor.USER

    reason: Literal["user_cancel", "client_disconnect", "timeout"]
    """Who ended it. A session reports user_cancel."""
    partial_llm_calls: Count = 0
    """The number of replies until then, those that were cut off included."""
    partial_tool_calls: Count = 0
    """The number of tools that had been called until then."""


CATALOGUE: dict[str, type[Payload]] = {
    payload.type: payload
    for payload in tuple(globals().values())
    if isinstance(payload, type) and issubclass(payload, Payload) and payload is not Payload
}
"""Every event of the library by its type. A program may add its own: see `EventBus`."""
