"""Which policies propose a model, in which order, and which one wins."""

from itertools import combinations

import pytest

from dragoman.adapter.errors import ConfigurationError, UnknownProviderError
from dragoman.canonical.message_fields import RoutingMode
from dragoman.routing import NoModelError, Recommendation, Router, RouteRequest, RoutingPolicy, Rule, Verdict, When
from tests.tables import each_row
from tests.unit.routing.models import KEYLESS, find, router

ORDER = list(RoutingPolicy)
PAIRS = list(combinations(ORDER, 2))
MODES = {
    RoutingPolicy.PER_MESSAGE_OVERRIDE: RoutingMode.OVERRIDE,
    RoutingPolicy.MANUAL_STICKY: RoutingMode.MANUAL,
    RoutingPolicy.RULE: RoutingMode.RULE,
    RoutingPolicy.PATTERN: RoutingMode.PATTERN,
    RoutingPolicy.DELEGATE_REQUEST: RoutingMode.DELEGATE,
    RoutingPolicy.WORKSPACE_DEFAULT: RoutingMode.DEFAULT,
    RoutingPolicy.GLOBAL_DEFAULT: RoutingMode.DEFAULT,
}


def proposing(models: dict[RoutingPolicy, str]) -> tuple[Router, RouteRequest]:
    """A router and a request in which each of these policies proposes its model."""
    recommended = models.get(RoutingPolicy.PATTERN)
    routed = router(
        rules=[Rule(model=models[RoutingPolicy.RULE], name="always")] if RoutingPolicy.RULE in models else [],
        recommender=(lambda _: Recommendation(recommended, 0.9, "it did well")) if recommended else None,
        workspace_default=models.get(RoutingPolicy.WORKSPACE_DEFAULT),
        global_default=models.get(RoutingPolicy.GLOBAL_DEFAULT),
    )
    request = RouteRequest(
        override=models.get(RoutingPolicy.PER_MESSAGE_OVERRIDE),
        sticky=models.get(RoutingPolicy.MANUAL_STICKY),
        delegate=models.get(RoutingPolicy.DELEGATE_REQUEST),
        images=True,
    )
    return routed, request


@pytest.mark.parametrize("policy", ORDER)
def test_each_policy_alone_chooses_its_model(policy: RoutingPolicy) -> None:
    """Each link of the chain can decide, and the record names it."""
    routed, request = proposing({policy: "north:able"})
    decision = routed.choose(request)
    assert decision.model == decision.record.chosen_model == "north:able"
    assert decision.winner.policy is policy
    assert decision.record.mode is MODES[policy]
    assert decision.record.alternatives_considered == ()
    assert [link.policy for link in decision.chain] == ORDER
    assert {link.verdict for link in decision.chain if link is not decision.winner} == {Verdict.NOT_APPLICABLE}


@each_row(("first", "second"), PAIRS)
def test_of_two_policies_the_earlier_one_wins(first: RoutingPolicy, second: RoutingPolicy) -> None:
    """The earlier one wins for every pair in the order of the specification; the record names the outranked one."""
    routed, request = proposing({first: "north:able", second: "south:able"})
    decision = routed.choose(request)
    assert decision.model == "north:able"
    assert decision.record.alternatives_considered == ("south:able",)
    assert [(link.policy, link.verdict) for link in decision.candidates] == [
        (first, Verdict.CHOSE),
        (second, Verdict.DEFERRED),
    ]


@each_row(("first", "second"), PAIRS)
def test_a_refused_model_leaves_the_turn_to_the_next_policy(first: RoutingPolicy, second: RoutingPolicy) -> None:
    """It is skipped with the reason, whatever its rank."""
    routed, request = proposing({first: "east:blind", second: "south:able"})
    decision = routed.choose(request)
    assert decision.model == "south:able"
    assert decision.record.mode is MODES[second]
    assert "passed over: east:blind (no_vision_support)" in decision.record.reason
    rejected, chosen = decision.candidates
    assert (rejected.verdict, rejected.reasons, chosen.verdict) == (
        Verdict.REJECTED,
        ("no_vision_support",),
        Verdict.CHOSE,
    )


def test_all_policies_at_once() -> None:
    """All candidates are listed in order, each with its source."""
    routed, request = proposing(dict(zip(ORDER, ["east:blind", KEYLESS, *["south:able"] * 5], strict=True)))
    decision = routed.choose(request)
    assert [(link.policy, link.verdict) for link in decision.candidates] == [
        (RoutingPolicy.PER_MESSAGE_OVERRIDE, Verdict.REJECTED),
        (RoutingPolicy.MANUAL_STICKY, Verdict.REJECTED),
        (RoutingPolicy.RULE, Verdict.CHOSE),
        *((policy, Verdict.DEFERRED) for policy in ORDER[3:]),
    ]
    assert decision.record.rule_name == "always"
    assert decision.record.alternatives_considered == ("east:blind", KEYLESS)


def test_no_candidate_left_is_an_error_with_every_reason() -> None:
    """The turn does not start, and no unlisted model answers it."""
    routed, request = proposing(
        {
            RoutingPolicy.MANUAL_STICKY: KEYLESS,
            RoutingPolicy.RULE: "east:blind",
            RoutingPolicy.GLOBAL_DEFAULT: "west:nothing",
        }
    )
    with pytest.raises(NoModelError) as caught:
        routed.choose(request)
    assert caught.value.reasons == {
        KEYLESS: ("not_configured",),
        "east:blind": ("no_vision_support",),
        "west:nothing": ("no_vision_support",),
    }
    assert [(model, by) for model, by, _ in caught.value.candidates] == [
        (KEYLESS, "manual_sticky"),
        ("east:blind", "rule"),
        ("west:nothing", "global_default"),
    ]
    assert "set LOCKED_API_KEY" in str(caught.value)


def test_an_empty_chain_is_an_error() -> None:
    """A router without defaults needs a request that names a model."""
    with pytest.raises(NoModelError, match="none was requested, and there is no default"):
        router().choose(RouteRequest())


def test_a_mention_chooses_and_is_not_sent() -> None:
    """``@model`` outranks the session's model, and is not part of the sent text."""
    routed = router(aliases={"top": "north:large"}, mentions=True)
    decision = routed.choose(RouteRequest(text="@top what is this?", sticky="south:able"))
    assert (decision.model, decision.text) == ("north:large", "what is this?")
    assert decision.record.reason == "the text begins with @top"


def test_an_argument_outranks_a_mention() -> None:
    """The mention is not sent either way."""
    decision = router(mentions=True).choose(RouteRequest(text="@north:able hello", override="south:able"))
    assert (decision.model, decision.text) == ("south:able", "hello")
    assert [link.model for link in decision.candidates] == ["south:able", "north:able"]


@pytest.mark.parametrize("text", ["@sonet hello", "@nowhere:model hello"])
def test_an_unknown_mention_does_not_start_the_turn(text: str) -> None:
    """Another model must not answer after a typo."""
    with pytest.raises(UnknownProviderError, match="begin with a backslash"):
        router(global_default="north:able", mentions=True).choose(RouteRequest(text=text))


def test_an_unknown_argument_does_not_start_the_turn() -> None:
    routed = router(global_default="north:able")
    with pytest.raises(UnknownProviderError, match="did you mean 'sonnet'"):
        routed.choose(RouteRequest(override="sonet"))
    with pytest.raises(UnknownProviderError):
        routed.choose(RouteRequest(override="nowhere:model"))


def test_a_model_without_a_key_is_not_configured() -> None:
    """It is not a typo, so the next candidate is tried, and the record says so."""
    routed = router(global_default="north:able", mentions=True)
    decision = routed.choose(RouteRequest(text=f"@{KEYLESS} hello"))
    assert decision.model == "north:able"
    assert decision.candidates[0].reasons == ("not_configured",)


def test_mentions_are_off_unless_they_are_turned_on() -> None:
    """Strangers who write must not choose what is paid for."""
    decision = router(global_default="north:able").choose(RouteRequest(text="@north:large hello"))
    assert (decision.model, decision.text) == ("north:able", "@north:large hello")


def test_rules_are_tried_in_order_with_the_next_as_fallback() -> None:
    """A second rule with the same conditions is a second choice."""
    routed = router(
        rules=[
            Rule(model="south:able", when=When(has_tools=True)),
            Rule(model="east:blind", name="seeing", when=When(has_images=True)),
            Rule(model="north:able", name="seeing too", when=When(has_images=True)),
            Rule(model="north:large"),
        ]
    )
    decision = routed.choose(RouteRequest(images=True))
    assert (decision.model, decision.record.rule_name) == ("north:able", "seeing too")
    assert [link.rule_name for link in decision.candidates] == ["seeing", "seeing too", "rule 4"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "nothing is recommended"),
        (("north:able", 0.4, "perhaps"), "north:able is recommended with 0.40, less than 0.50"),
        (("north:able", float("nan"), "?"), "the recommender's confidence is not a number from 0 to 1"),
        (("north:able", 1.5, "surely"), "the recommender's confidence is not a number from 0 to 1"),
        (("no model", 0.9, "?"), "the recommender failed: UnknownProviderError"),
        (("north:able",), "the recommender failed: TypeError"),
    ],
)
def test_an_unusable_recommendation_is_ignored(answer: object, message: str) -> None:
    """A suggestion never stops a turn."""
    routed = router(recommender=lambda _: answer, global_default="south:able")
    decision = routed.choose(RouteRequest())
    assert decision.model == "south:able"
    (link,) = [link for link in decision.chain if link.policy is RoutingPolicy.PATTERN]
    assert (link.verdict, link.reason) == (Verdict.NOT_APPLICABLE, message)


def test_a_failing_recommender_stops_no_turn(caplog: pytest.LogCaptureFixture) -> None:
    """Its error is logged."""

    def broken(request: RouteRequest) -> None:
        raise ValueError("no data")

    assert router(recommender=broken, global_default="south:able").choose(RouteRequest()).model == "south:able"
    assert "the recommender failed: ValueError" in caplog.text


def test_a_recommendation_is_recorded() -> None:
    """A recommendation is recorded with its confidence, its reason made printable, and the next choice."""
    routed = router(
        recommender=lambda _: Recommendation("north:able", 0.75, "14 turns\nlike this \ud800", ("south:able",)),
        global_default="south:able",
    )
    decision = routed.choose(RouteRequest())
    assert (decision.model, decision.record.confidence) == ("north:able", 0.75)
    assert decision.record.reason == "14 turns\\nlike this \\ud800"
    assert decision.winner.alternatives == ("south:able",)


def test_a_recommender_is_asked_even_if_outranked() -> None:
    """Its suggestion is worth recording."""
    routed = router(recommender=lambda _: ("south:able", 0.9, "cheaper"))
    decision = routed.choose(RouteRequest(sticky="north:able"))
    assert [(link.model, link.verdict) for link in decision.candidates] == [
        ("north:able", Verdict.CHOSE),
        ("south:able", Verdict.DEFERRED),
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rules": [Rule(model="a:b", name="x"), Rule(model="a:c", name="x")]}, "two rules are named 'x'"),
        ({"rules": [Rule(model="a:b", name="rule 2"), Rule(model="a:c")]}, "two rules are named 'rule 2'"),
        ({"rules": [Rule(model="nothing")]}, "neither a model id nor an alias"),
        ({"global_default": "nothing"}, "neither a model id nor an alias"),
        ({"workspace_default": ":x"}, "is not a model id"),
        ({"aliases": {"a:b": "north:able"}}, "is not a valid alias"),
        ({"aliases": {"9": "north:able"}}, "is not a valid alias"),
        ({"aliases": {"x": "able"}}, "which is not a model id"),
    ],
)
def test_an_invalid_router_is_refused(settings: dict[str, object], message: str) -> None:
    """At once, not at the turn that needs it."""
    with pytest.raises(ConfigurationError, match=message):
        Router(find=find, **settings)  # type: ignore[arg-type]


def test_the_chain_is_printable() -> None:
    """The chain is printable: one line per link, policy, result and reason."""
    routed = router(rules=[Rule(model="east:blind", name="cheap")], global_default="north:able")
    assert str(routed.choose(RouteRequest(images=True))).splitlines()[2:] == [
        "rule: rejected east:blind (the rule 'cheap' matches; no_vision_support: the turn holds images)",
        "pattern: not_applicable (nothing is recommended)",
        "delegate_request: not_applicable (nothing was delegated)",
        "workspace_default: not_applicable (the workspace has no default)",
        "global_default: chose north:able (the global default)",
    ]


def test_rules_have_to_be_rules() -> None:
    """One alone works; a dict belongs into a configuration."""
    rule = Rule(model="openai:o3")
    assert [each.model for each in Router(rules=rule).rules] == ["openai:o3"]
    with pytest.raises(ConfigurationError, match="rule 2 is a dict, not a Rule: from_toml reads rules from a file"):
        Router(rules=[rule, {"model": "openai:o3"}])  # type: ignore[list-item]
