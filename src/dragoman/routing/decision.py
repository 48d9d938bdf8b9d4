"""What routing decided, and everything that it considered on the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dragoman.canonical.message import Message
from dragoman.canonical.routing import RoutingDecisionRecord, RoutingMode
from dragoman.routing.request import RouteRequest, with_text
from dragoman.routing.validation import Refused


class Policy(StrEnum):
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
    Policy.PER_MESSAGE_OVERRIDE: RoutingMode.OVERRIDE,
    Policy.MANUAL_STICKY: RoutingMode.MANUAL,
    Policy.RULE: RoutingMode.RULE,
    Policy.PATTERN: RoutingMode.PATTERN,
    Policy.DELEGATE_REQUEST: RoutingMode.DELEGATE,
    Policy.WORKSPACE_DEFAULT: RoutingMode.DEFAULT,
    Policy.GLOBAL_DEFAULT: RoutingMode.DEFAULT,
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

    policy: Policy
    model: str | None
    reason: str
    verdict: Verdict = Verdict.NOT_APPLICABLE
    refusals: tuple[Refused, ...] = ()
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
        against = "; ".join(f"{refused.name}: {refused.why}" for refused in self.refusals) or self.failure
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
    def failed(self) -> tuple[str, ...]:
        """The models that were asked before this one, and failed before they answered."""
        return tuple(dict.fromkeys(link.model for link in self.candidates if link.failure is not None and link.model))

    def sent(self, said: Sequence[Message]) -> tuple[Message, ...]:
        """What the user says as it is to be sent: without the mention. Raises RequestError where nothing is left."""
        return with_text(said, self.text)

    def __str__(self) -> str:
        return "\n".join(map(str, self.chain))
