"""The decision of a router, with everything that it considered, and what speaks against a model.

Each capability is checked only if the turn needs it (docs/reference/routing-and-events.md#validation). Thinking is
never checked: a model without it answers without it. Media other than images are not checked either: unsupported media
become a loss, and rules can choose another model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.message import Message
from dragoman.canonical.message_fields import Refusal, RoutingDecisionRecord, RoutingMode
from dragoman.routing.availability import Availability
from dragoman.routing.request import ModelFacts, RouteRequest, replace_text


class RefusalReason(NamedTuple):
    """What speaks against a model. Source: docs/reference/routing-and-events.md#validation."""

    name: Refusal
    """The word for programs."""
    reason: str
    """A sentence for people."""


def find_refusals(
    model: str,
    request: RouteRequest,
    *,
    find: Callable[[str], ModelFacts],
    availability: Availability,
    at: datetime,
) -> tuple[RefusalReason, ...]:
    """Return all reasons against the model, in the order of the reference; nothing if it can take the turn."""
    try:
        facts = find(model)
        capabilities = facts.capabilities
    except ConfigurationError as error:
        return (RefusalReason(Refusal.NOT_CONFIGURED, str(error)),)
    found: list[RefusalReason] = []
    if outage := availability.outage(model, at):
        found.append(RefusalReason(Refusal.PROVIDER_UNAVAILABLE, str(outage)))
    if request.images and not capabilities.supports_images:
        found.append(RefusalReason(Refusal.NO_VISION_SUPPORT, "the turn holds images"))
    tokens, answer = request.tokens_on(model), request.max_output_tokens or 0
    if tokens + answer > capabilities.max_context_tokens:
        room = f" and an answer of up to {answer:,}" if answer else ""
        reason = f"about {tokens:,} tokens{room} in a window of {capabilities.max_context_tokens:,}"
        found.append(RefusalReason(Refusal.EXCEEDS_CONTEXT_WINDOW, reason))
    if request.tools and not capabilities.supports_tools:
        found.append(RefusalReason(Refusal.NO_TOOL_SUPPORT, "the turn offers tools"))
    if request.system_prompt and not capabilities.supports_system_prompt:
        found.append(RefusalReason(Refusal.NO_SYSTEM_PROMPT_SUPPORT, "the turn has a system prompt"))
    if request.output_schema and not capabilities.supports_structured_output:
        found.append(RefusalReason(Refusal.NO_STRUCTURED_OUTPUT_SUPPORT, "the turn has an output schema"))
    return tuple(found)


class RoutingPolicy(StrEnum):
    """The sources of proposals, in the order of the chain (docs/reference/routing-and-events.md#chain)."""

    PER_MESSAGE_OVERRIDE = "per_message_override"
    MANUAL_STICKY = "manual_sticky"
    RULE = "rule"
    PATTERN = "pattern"
    DELEGATE_REQUEST = "delegate_request"
    WORKSPACE_DEFAULT = "workspace_default"
    GLOBAL_DEFAULT = "global_default"

    @property
    def mode(self) -> RoutingMode:
        """The policy as a message's record names it (docs/reference/routing-and-events.md#decision-record)."""
        return _MODES[self]


_MODES = {
    RoutingPolicy.PER_MESSAGE_OVERRIDE: RoutingMode.OVERRIDE,
    RoutingPolicy.MANUAL_STICKY: RoutingMode.MANUAL,
    RoutingPolicy.RULE: RoutingMode.RULE,
    RoutingPolicy.PATTERN: RoutingMode.PATTERN,
    RoutingPolicy.DELEGATE_REQUEST: RoutingMode.DELEGATE,
    RoutingPolicy.WORKSPACE_DEFAULT: RoutingMode.DEFAULT,
    RoutingPolicy.GLOBAL_DEFAULT: RoutingMode.DEFAULT,
}


class Verdict(StrEnum):
    """The result of a policy: it proposed nothing, it was outranked, its model could not take the turn or failed before
    it answered, or its model answers."""

    NOT_APPLICABLE = "not_applicable"
    DEFERRED = "deferred"
    REJECTED = "rejected"
    CHOSE = "chose"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One link of the chain. ``model`` is None if the policy proposed none; ``reason`` explains the proposal or its
    absence.

    An outranked model was not checked, so its ``refusals`` are empty.
    """

    policy: RoutingPolicy
    """The link of the chain. Source: docs/reference/routing-and-events.md#chain."""
    model: str | None
    reason: str
    verdict: Verdict = Verdict.NOT_APPLICABLE
    """Whether the link proposed nothing, was outranked and not checked, was refused, or won."""
    refusals: tuple[RefusalReason, ...] = ()
    rule_name: str | None = None
    """The rule behind the proposal, if it was a rule."""
    confidence: float | None = None
    """The recommender's confidence, from 0 to 1, if it was a recommendation."""
    alternatives: tuple[str, ...] = ()
    """The recommender's next choices."""
    failure: str | None = None
    """The class of the error with which the model failed before the fallback."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The names of the reasons against the model."""
        named = tuple(str(refused.name) for refused in self.refusals)
        return named if self.failure is None else (*named, self.failure)

    def __str__(self) -> str:
        against = "; ".join(f"{refused.name}: {refused.reason}" for refused in self.refusals) or self.failure
        model = f" {self.model}" if self.model else ""
        return f"{self.policy}: {self.verdict}{model} ({self.reason}{f'; {against}' if against else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDecision:
    """A model for one turn; ``str()`` is the whole chain, one line for each link."""

    model: str
    """The model, as ``provider:name``."""
    record: RoutingDecisionRecord
    """What the reply's ``metadata.routing`` says about the decision."""
    chain: tuple[Candidate, ...]
    """All links in their order, with what each proposed."""
    winner_index: int
    """The index of the chosen candidate in the chain."""
    request: RouteRequest
    """The request that was routed, without the mention of a model in its text."""

    @property
    def text(self) -> str:
        """The prompt's text as it is sent."""
        return self.request.text

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The models that were proposed, in order."""
        return tuple(candidate for candidate in self.chain if candidate.model is not None)

    @property
    def winner(self) -> Candidate:
        """The link that chose the model."""
        return self.chain[self.winner_index]

    @property
    def failed_models(self) -> tuple[str, ...]:
        """The models that were tried before this one and failed before they answered."""
        return tuple(dict.fromkeys(link.model for link in self.candidates if link.failure is not None and link.model))

    def without_mention(self, prompt: Sequence[Message]) -> tuple[Message, ...]:
        """Return the prompt without the mention, as it is sent. Raises RequestError if nothing is left."""
        return replace_text(prompt, self.text)

    def __str__(self) -> str:
        return "\n".join(map(str, self.chain))
