"""Each condition of a rule: when it holds, and when it does not."""

import ast
import inspect
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.adapter.registry import get_adapter
from dragoman.routing import RouteRequest, Rule, When
from tests.tables import each_row
from tests.unit.routing.models import router

BIG = {"estimated_tokens": 50_000}
TABLE: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({}, {}, True),
    ({"tokens_over": 49_999}, BIG, True),
    ({"tokens_over": 50_000}, BIG, False),
    ({"tokens_under": 50_001}, BIG, True),
    ({"tokens_under": 50_000}, BIG, False),
    ({"tokens_over": 10, "tokens_under": 100}, {"estimated_tokens": 50}, True),
    ({"has_tools": True}, {"tools": True}, True),
    ({"has_tools": True}, {}, False),
    ({"has_tools": False}, {}, True),
    ({"has_tools": False}, {"tools": True}, False),
    ({"has_images": True}, {"images": True}, True),
    ({"has_images": True}, {}, False),
    ({"has_audio": True}, {"audio": True}, True),
    ({"has_audio": True}, {}, False),
    ({"has_video": True}, {"video": True}, True),
    ({"has_video": True}, {}, False),
    ({"has_documents": True}, {"documents": True}, True),
    ({"has_documents": True}, {}, False),
    ({"has_output_schema": True}, {"output_schema": True}, True),
    ({"has_output_schema": True}, {}, False),
    ({"text_contains": ["commit"]}, {"text": "write a COMMIT message"}, True),
    ({"text_contains": ["commit", "push"]}, {"text": "push it"}, True),
    ({"text_contains": ["commit"]}, {"text": "hello"}, False),
    ({"labels": {"pii"}}, {"labels": frozenset({"pii", "eu"})}, True),
    ({"labels": {"pii", "eu"}}, {"labels": frozenset({"pii"})}, False),
    ({"labels": {"pii"}}, {}, False),
    ({"users": {"usr_1"}}, {"user_id": "usr_1"}, True),
    ({"users": {"usr_1"}}, {}, False),
    ({"teams": {"team_1"}}, {"team_id": "team_1"}, True),
    ({"teams": {"team_1"}}, {"team_id": "team_2"}, False),
    # A dollar for a million tokens; a reply may have 1,000 unless the turn sets a limit.
    ({"cost_under_usd": "0.0510001"}, BIG, True),
    ({"cost_under_usd": "0.051"}, BIG, False),
    ({"cost_under_usd": "0.051"}, {**BIG, "max_output_tokens": 10}, True),
    ({"cost_over_usd": "0.05"}, BIG, True),
    ({"cost_over_usd": 1}, BIG, False),
    ({"spent_over_usd": 5}, {"spent_usd": Decimal("5.01")}, True),
    ({"spent_over_usd": 5}, {"spent_usd": Decimal(5)}, False),
    ({"spent_over_usd": 0}, {}, False),
    ({"has_tools": True, "has_images": True}, {"tools": True}, False),
    ({"any_of": [{"has_tools": True}, {"has_images": True}]}, {"tools": True}, True),
    ({"any_of": [{"has_tools": True}, {"has_images": True}]}, {}, False),
    ({"none_of": [{"has_tools": True}, {"has_images": True}]}, {}, True),
    ({"none_of": [{"has_tools": True}, {"has_images": True}]}, {"tools": True}, False),
    ({"any_of": [{"none_of": [{"tokens_over": 5}]}]}, {"estimated_tokens": 5}, True),
]


@each_row(("when", "facts", "holds"), TABLE)
def test_conditions_hold_or_not(when: dict[str, Any], facts: dict[str, Any], holds: bool) -> None:
    """A rule whose conditions hold chooses; others propose nothing."""
    routed = router(rules=[Rule(model="north:able", when=When.model_validate(when))], global_default="south:able")
    decision = routed.choose(RouteRequest(**facts))
    assert decision.model == ("north:able" if holds else "south:able")


@pytest.mark.parametrize("when", [{"cost_under_usd": 1000}, {"cost_over_usd": 0}])
def test_an_unknown_price_fulfils_no_condition(when: dict[str, Any]) -> None:
    """Unknown is not zero."""
    routed = router(rules=[Rule(model="east:blind", when=When.model_validate(when))], global_default="south:able")
    assert routed.choose(RouteRequest()).model == "south:able"


@pytest.mark.parametrize("when", [{"tokens_under": 1000}, {"cost_under_usd": 1000}])
def test_an_unknown_model_has_no_size_and_no_price(when: dict[str, Any]) -> None:
    """Nothing can be counted for it."""

    def estimate(model: str) -> int:
        assert model != "nowhere:model"
        return 1

    routed = router(rules=[Rule(model="nowhere:model", when=When.model_validate(when))], global_default="south:able")
    assert routed.choose(RouteRequest(estimated_tokens=estimate)).model == "south:able"


def test_prices_are_those_of_the_rules_own_model() -> None:
    """The same turn costs ten times as much in the south."""
    cheap = When(cost_under_usd=Decimal("0.1"))
    routed = router(rules=[Rule(model="south:able", when=cheap), Rule(model="north:able", when=cheap)])
    assert routed.choose(RouteRequest(estimated_tokens=50_000)).model == "north:able"


def test_the_constructor_for_type_checkers_has_every_field() -> None:
    """`When.__init__` is there for type checkers alone. pydantic reads the fields."""
    tree = ast.parse(inspect.getsource(When))
    methods = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert [parameter.arg for parameter in methods["__init__"].args.kwonlyargs] == list(When.model_fields)


def test_bundled_prices_are_the_default() -> None:
    """A router without prices uses those of the library."""
    routed = router(
        find=get_adapter,
        prices=None,
        rules=[Rule(model="haiku", when=When(cost_under_usd=Decimal("0.5")))],
        global_default="sonnet",
    )
    assert routed.choose(RouteRequest(estimated_tokens=100)).model == "anthropic:claude-haiku-5-5"


@pytest.mark.parametrize(
    "fields",
    [
        {"cost_under_usd": 0.1},
        {"cost_under_usd": "NaN"},
        {"cost_under_usd": -1},
        {"tokens_over": -1},
        {"message_matches": "(a+)+$"},
    ],
)
def test_an_invalid_condition_is_refused(fields: dict[str, Any]) -> None:
    """The set of conditions is closed, and money is exact."""
    with pytest.raises(ValidationError):
        When.model_validate(fields)
