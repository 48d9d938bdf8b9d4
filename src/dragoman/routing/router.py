"""The routing chain (docs/reference/routing-and-events.md#chain).

The router collects proposals for a turn's model in a fixed order and picks the first valid one. If none is valid, the
turn does not start: it never chooses a model that was not proposed. There is no I/O, and the clock is a parameter.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, partial
from typing import Any, Self

from dragoman.adapter.contract import Prices, bundled_prices
from dragoman.adapter.errors import (
    ConfigurationError,
    ContentFilterError,
    DragomanError,
    InvalidRequestError,
    MissingExtraError,
    MissingKeyError,
    NoModelError,
    NotFoundError,
    ProviderError,
    RequestCancelledError,
    UnknownProviderError,
)
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.log import get_logger, one_line
from dragoman.canonical.message_fields import RoutingDecisionRecord
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.routing.aliases import Aliases, Mention, read_mention
from dragoman.routing.availability import Availability
from dragoman.routing.configuration import (
    ReplyFault,
    ReplyTest,
    ReplyTests,
    RouterConfiguration,
    read_mapping,
    read_toml,
)
from dragoman.routing.decision import Candidate, RouteDecision, RoutingPolicy, Verdict, find_refusals
from dragoman.routing.request import ModelFacts, Recommendation, Recommender, RouteRequest
from dragoman.routing.rules import Rule, named_labels

logger = get_logger("dragoman.routing")

_MAX_REASON_CHARS = 300


class Router:
    """Picks the model of a turn. Threads and sessions may share one: its only state between turns is the availability.

    ``aliases`` override the bundled ones. ``recommender`` counts from ``min_confidence`` on. With ``mentions``,
    ``@sonnet`` at the start of a text chooses the model of that message: turn them on only if whoever writes the text
    may choose any model, at any price and address.
    ``fall_back_on`` names replies after which the next model is asked: ``"refusal"``, ``"empty"``, ``"truncated"``,
    ``"invalid"`` (not of the requested type), or functions of the message. The cost of such a reply is counted, and a
    stream gives nothing of the first reply before it has passed.
    ``find`` returns the facts of a model and raises ConfigurationError if it cannot be used here, e.g. MissingKeyError.
    ``prices`` are used only for rules on cost.

    Raises ConfigurationError if two rules have one name, if something is not a Rule, or if a name is neither a model id
    nor an alias.
    """

    def __init__(
        self,
        *,
        rules: Iterable[Rule] | Rule = (),
        aliases: Mapping[str, str] | None = None,
        workspace_default: str | None = None,
        global_default: str | None = None,
        recommender: Recommender | None = None,
        min_confidence: float = 0.5,
        availability: Availability | None = None,
        mentions: bool = False,
        fall_back_on: Iterable[ReplyFault | ReplyTest] = (),
        find: Callable[[str], ModelFacts] = get_adapter,
        prices: Prices | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.aliases = Aliases(aliases)
        self.rules = _name_rules(rules, self.aliases)
        """The rules in their order: the first one that fits proposes its model."""
        self.workspace_default = self._resolve(workspace_default)
        """The model id that is proposed if no earlier link of the chain has a model that can be used."""
        self.global_default = self._resolve(global_default)
        """The model id that is proposed last."""
        self.availability = availability if availability is not None else Availability()
        """The outages that are known. A model that is down is refused."""
        self._recommender = recommender
        self._min_confidence = min_confidence
        self._mentions = mentions
        self.reply_tests = ReplyTests(fall_back_on)
        """What a reply must not be, so that no other model is asked."""
        self._find = find
        self._prices = prices
        self._clock = clock

    @classmethod
    def from_toml(cls, text: str, **settings: Any) -> Self:
        """Return a router from a configuration: ``workspace_default``, ``global_default``, ``min_confidence``,
        ``mentions``, ``fall_back_on``, a table ``aliases``, and one ``[[rule]]`` for each rule. ``settings`` are other
        arguments, or override these.

        Raises ConfigurationError, which names every fault.
        """
        return cls(**(read_toml(text) | settings))

    @classmethod
    def from_configuration(cls, policy: Mapping[str, Any], **settings: Any) -> Self:
        """Return a router from what `configuration` returned; otherwise as `from_toml`."""
        return cls(**(read_mapping(policy) | settings))

    def with_mentions(self, mentions: bool = True) -> Self:
        """Return a router that reads mentions, for texts of people who may choose the model. It shares the
        availability."""
        changed = copy(self)
        changed._mentions = mentions
        return changed

    def without_mentions(self) -> Self:
        """Return a router that takes a mention for ordinary text. It shares the availability."""
        return self.with_mentions(False)

    @property
    def configuration(self) -> dict[str, Any]:
        """The rules, own aliases and defaults as JSON values, to store with a session. Aliases are resolved to their
        current models, so they keep their meaning.
        """
        configuration = RouterConfiguration(
            rule=self.rules,
            aliases=self.aliases.custom,
            workspace_default=self.workspace_default,
            global_default=self.global_default,
            min_confidence=Decimal(str(self._min_confidence)),
            mentions=self._mentions,
            fall_back_on=self.reply_tests.words,
        )
        return configuration.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)

    def choose(self, request: RouteRequest) -> RouteDecision:
        """Return the decision for the whole turn.

        Raises NoModelError if no proposal is valid, and UnknownProviderError if the text or an argument names an
        unknown model: another model must not answer because of a typing error.
        """
        mention = read_mention(request.text) if self._mentions else Mention(None, request.text)
        tokens = request.estimated_tokens
        request = replace(request, text=mention.rest, estimated_tokens=cache(tokens) if callable(tokens) else tokens)
        return self._pick(request, tuple(self._proposals(request, mention.name)), 0)

    def choose_fallback(
        self, decision: RouteDecision, error: DragomanError | str, *, seen: bool = False
    ) -> RouteDecision | None:
        """Return the next valid candidate after the chosen one failed with that error, or None to re-raise. A string is
        the fault of its reply (`ReplyTests.find_fault`).

        None if the caller has ``seen`` events of the reply, if another model would fail in the same way (the request is
        invalid or was cancelled, or a filter blocked it), or if no candidate is left; the error then gets a note on
        each remaining candidate. The new record names the fallback model.
        """
        if seen or not (isinstance(error, str) or _can_fall_back(error)):
            return None
        index = decision.winner_index
        kind = error if isinstance(error, str) else getattr(error, "error_class", "not_configured")
        rejected = replace(decision.winner, verdict=Verdict.REJECTED, failure=kind)
        chain = (*decision.chain[:index], rejected, *decision.chain[index + 1 :])
        try:
            return self._pick(decision.request, chain, index + 1)
        except NoModelError as nothing_left:
            is_left = any(index < later and link.model for later, link in enumerate(chain))
            if is_left and not isinstance(error, str):
                error.add_note(str(nothing_left))
            return None

    def labels_allow(self, model: str, request: RouteRequest) -> bool:
        """Return whether content with the request's labels may go to that model.

        For each of the labels that a rule names, a rule that names it has to match and to choose the model. Each
        attempt is checked when it leaves (`dragoman.attempt.labels`), whoever chose its model.
        """
        resolved = self.aliases.resolve(model)
        known = {rule.name: named_labels(rule.when) & request.labels for rule in self.rules}
        allowed = {rule.name for rule in self.rules if rule.model == resolved and self._matches(rule, request)}
        return all(any(label in known[name] for name in allowed) for labels in known.values() for label in labels)

    def _pick(self, request: RouteRequest, proposed: Sequence[Candidate], start: int) -> RouteDecision:
        """Return a decision for the first valid candidate from ``start`` on. Raises NoModelError."""
        chain, at, winner = list(proposed), self._clock(), None
        failed = {link.model: link.failure for link in chain if link.failure is not None}
        refusals = cache(
            partial(find_refusals, request=request, find=self._find, availability=self.availability, at=at)
        )
        for index, link in enumerate(chain[start:], start):
            if link.model is None:
                continue
            if winner is not None:
                chain[index] = replace(link, verdict=Verdict.DEFERRED)
                continue
            refused, failure = refusals(link.model), failed.get(link.model)
            if refused or failure is not None:
                chain[index] = replace(link, verdict=Verdict.REJECTED, refusals=refused, failure=failure)
            else:
                winner = index
                chain[index] = replace(link, verdict=Verdict.CHOSE)
        if winner is None:
            attempts = []
            for link in chain:
                against = [(str(refused.name), refused.reason) for refused in link.refusals]
                against += [] if link.failure is None else [(link.failure, "it failed before it answered")]
                if link.model is not None:
                    attempts.append((link.model, str(link.policy), tuple(against)))
            raise NoModelError(attempts)
        model = chain[winner].model
        assert model is not None
        return RouteDecision(
            model=model,
            record=_to_record(model, chain, winner),
            chain=tuple(chain),
            winner_index=winner,
            request=request,
        )

    def _proposals(self, request: RouteRequest, mentioned: str | None) -> Iterator[Candidate]:
        yield from self._override_proposals(request, mentioned)
        sticky = self._resolve(request.sticky)
        yield _candidate(RoutingPolicy.MANUAL_STICKY, sticky, "the session's model", "the session has no model")
        matching = [rule for rule in self.rules if self._matches(rule, request)]
        for rule in matching:
            reason = f"the rule {rule.name!r} matches"
            yield Candidate(policy=RoutingPolicy.RULE, model=rule.model, reason=reason, rule_name=rule.name)
        if not matching:
            yield _candidate(RoutingPolicy.RULE, None, "", "no rule matches")
        yield self._recommendation(request)
        delegate = self._resolve(request.delegate)
        yield _candidate(
            RoutingPolicy.DELEGATE_REQUEST, delegate, "a delegating model requested it", "nothing was delegated"
        )
        workspace, everywhere = self.workspace_default, self.global_default
        yield _candidate(
            RoutingPolicy.WORKSPACE_DEFAULT, workspace, "the default of the workspace", "the workspace has no default"
        )
        yield _candidate(RoutingPolicy.GLOBAL_DEFAULT, everywhere, "the global default", "there is no global default")

    def _override_proposals(self, request: RouteRequest, mentioned: str | None) -> Iterator[Candidate]:
        """Yield the proposal of the argument, then that of the mention."""
        policy = RoutingPolicy.PER_MESSAGE_OVERRIDE
        if request.override is None and mentioned is None:
            yield _candidate(policy, None, "", "the message names no model")
        if request.override is not None:
            model = self._resolve_existing(request.override)
            yield Candidate(policy=policy, model=model, reason="requested in this message")
        if mentioned is not None:
            try:
                model = self._resolve_existing(mentioned)
            except UnknownProviderError as error:
                literal = f"to write @{mentioned:.80} literally, begin with a backslash"
                raise UnknownProviderError(f"the text begins with a mention: {error}; {literal}") from None
            yield Candidate(policy=policy, model=model, reason=f"the text begins with @{mentioned}")

    def _matches(self, rule: Rule, request: RouteRequest) -> bool:
        tokens = partial(self._estimate_tokens, request, rule.model)
        return rule.when.matches(request, tokens, partial(self._max_cost, request, rule.model))

    def _recommendation(self, request: RouteRequest) -> Candidate:
        none_recommended = Candidate(policy=RoutingPolicy.PATTERN, model=None, reason="nothing is recommended")
        if self._recommender is None:
            return none_recommended
        try:
            answer = self._recommender(request)
            if answer is None:
                return none_recommended
            found = Recommendation(*answer)
            model, confidence = self.aliases.resolve(found.model), float(found.confidence)
            alternatives = tuple(map(str, found.alternatives))
        except Exception as error:
            logger.warning("the recommender failed: %s", type(error).__name__, exc_info=True)
            return replace(none_recommended, reason=f"the recommender failed: {type(error).__name__}")
        if not 0 <= confidence <= 1:
            logger.warning("the recommender's confidence is %s, not 0 to 1: the recommendation is ignored", confidence)
            return replace(none_recommended, reason="the recommender's confidence is not a number from 0 to 1")
        if confidence < self._min_confidence:
            reason = f"{model} is recommended with {confidence:.2f}, less than {self._min_confidence:.2f}"
            return replace(none_recommended, reason=reason, confidence=confidence, alternatives=alternatives)
        reason = one_line(str(found.reason))[:_MAX_REASON_CHARS]
        return replace(none_recommended, model=model, reason=reason, confidence=confidence, alternatives=alternatives)

    def _resolve(self, name: str | None) -> str | None:
        return None if name is None else self.aliases.resolve(name)

    def _resolve_existing(self, name: str) -> str:
        """Return the model id of an existing provider. Raises UnknownProviderError."""
        model = self.aliases.resolve(name)
        try:
            self._find(model)
        except UnknownProviderError:
            raise
        except ConfigurationError:
            pass  # the provider exists; validation reports what is missing
        return model

    def _estimate_tokens(self, request: RouteRequest, model: str) -> int | None:
        """Return the size of the prompt on that model; None if the model cannot be used here."""
        try:
            self._find(model)
        except ConfigurationError:
            return None
        return request.tokens_on(model)

    def _max_cost(self, request: RouteRequest, model: str) -> Decimal | None:
        """Return the maximum cost of one reply on that model; None if some of it is unknown."""
        try:
            facts = self._find(model)
        except ConfigurationError:
            return None
        output_tokens = request.max_output_tokens
        if output_tokens is None:
            output_tokens = facts.default_output_tokens
        usage = TokenUsage(input_tokens=request.tokens_on(model), output_tokens=output_tokens)
        prices = self._prices if self._prices is not None else bundled_prices()
        priced = prices.price(model, usage, self._clock())
        return priced.cost_usd if priced.cost_status in (CostStatus.PRICED, CostStatus.FREE) else None


def _candidate(policy: RoutingPolicy, model: str | None, reason: str, without_model: str) -> Candidate:
    return Candidate(policy=policy, model=model, reason=without_model if model is None else reason)


def _name_rules(rules: Iterable[Rule] | Rule, aliases: Aliases) -> tuple[Rule, ...]:
    """Return the rules with names, and with model ids in place of aliases."""
    named: dict[str, Rule] = {}
    if isinstance(rules, Rule):
        rules = (rules,)
    for index, rule in enumerate(rules, 1):
        if not isinstance(rule, Rule):
            raise ConfigurationError(
                f"rule {index} is a {type(rule).__name__}, not a Rule: from_toml reads rules from a file"
            )
        name = f"rule {index}" if rule.name is None else rule.name
        if name in named:
            raise ConfigurationError(f"two rules are named {name!r:.80}: give each rule a different name")
        named[name] = rule.model_copy(update={"name": name, "model": aliases.resolve(rule.model)})
    return tuple(named.values())


def _to_record(model: str, chain: Sequence[Candidate], winner: int) -> RoutingDecisionRecord:
    """Return the record for the reply's metadata; the whole chain goes into an event."""
    chosen = chain[winner]
    passed = [
        f"{link.model} ({', '.join(link.reasons)})" for link in chain[:winner] if link.verdict is Verdict.REJECTED
    ]
    others = dict.fromkeys(link.model for link in chain if link.model is not None and link.model != model)
    return RoutingDecisionRecord(
        mode=chosen.policy.mode,
        chosen_model=model,
        reason=chosen.reason + (f"; passed over: {', '.join(passed)}" if passed else ""),
        rule_name=chosen.rule_name,
        confidence=chosen.confidence,
        alternatives_considered=tuple(others),
    )


def _can_fall_back(error: DragomanError) -> bool:
    """Whether another model may succeed. A content filter must not be bypassed with another model."""
    if isinstance(error, (RequestCancelledError, ContentFilterError)):
        return False
    if isinstance(error, InvalidRequestError):
        return isinstance(error, NotFoundError)
    return isinstance(error, (ProviderError, MissingKeyError, MissingExtraError))
