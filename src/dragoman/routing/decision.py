"""What routing decided, and everything that it considered on the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dragoman.canonical.message import Message
from dragoman.canonical.routing import RoutingDecisionRecord, RoutingMode
from dragoman.routing.request import RouteRequest, replace_text
from dragoman.routing.validation import RefusalReason


class RoutingPolicy(StrEnum):
    """Who may propose a model, in the order of the chain (specification D11)."""

    PER_MESSAGE_OVERRIDE = "per_message_override"
    MANUAL_STICKY = "manual_sticky"
    RULE = "rule"
    PATTERN = "pattern"
    DELEGATE_REQUEST = "delegate_request"
    WORKSPACE_DEFAULT = "workspace_default"
    GLOBAL_DEFAULT = "global_default"

    @property
    def mode(self) -> RoutingMode:
        """The policy as a message's record names it (specification D2)."""
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
    """What became of a policy: it had nothing to say, it was outranked, its model could not take the turn or failed
    before it answered, or its model answers."""

    NOT_APPLICABLE = "not_applicable"
    DEFERRED = "deferred"
    REJECTED = "rejected"
    CHOSE = "chose"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One link of the chain. ``model`` is None where the policy proposed none; ``reason`` says why it did, or did not.

    A model that was outranked was not checked: its ``refusals`` are empty and say nothing.
    """

    policy: RoutingPolicy
    model: str | None
    reason: str
    verdict: Verdict = Verdict.NOT_APPLICABLE
    refusals: tuple[RefusalReason, ...] = ()
    rule_name: str | None = None
    confidence: float | None = None
    alternatives: tuple[str, ...] = ()
    """What a recommender would have taken next."""
    failure: str | None = None
    """The class of the error with which the model failed, before the next candidate was taken."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """What spoke against the model, by name."""
        named = tuple(str(refused.name) for refused in self.refusals)
        return named if self.failure is None else (*named, self.failure)

    def __str__(self) -> str:
        against = "; ".join(f"{refused.name}: {refused.reason}" for refused in self.refusals) or self.failure
        model = f" {self.model}" if self.model else ""
        return f"{self.policy}: {self.verdict}{model} ({self.reason}{f'; {against}' if against else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDecision:
    """A model for one turn; ``str()`` is the whole chain, a line for each link."""

    model: str
    record: RoutingDecisionRecord
    chain: tuple[Candidate, ...]
    winner_index: int
    """The place of the chosen one in the chain."""
    request: RouteRequest
    """As it was judged: without the mention of a model in its text."""

    @property
    def text(self) -> str:
        """What the user said, as it is to be sent."""
        return self.request.text

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The models that were proposed, in order."""
        return tuple(candidate for candidate in self.chain if candidate.model is not None)

    @property
    def winner(self) -> Candidate:
        return self.chain[self.winner_index]

    @property
    def failed_models(self) -> tuple[str, ...]:
        """The models that were asked before this one, and failed before they answered."""
        return tuple(dict.fromkeys(link.model for link in self.candidates if link.failure is not None and link.model))

    def without_mention(self, prompt: Sequence[Message]) -> tuple[Message, ...]:
        """What the user says as it is to be sent: without the mention. Raises RequestError where nothing is left."""
        return replace_text(prompt, self.text)

    def __str__(self) -> str:
        return "\n".join(map(str, self.chain))
