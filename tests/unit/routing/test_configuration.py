"""Rules, aliases and defaults, from TOML."""

import json
from decimal import Decimal

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.names import bundled_aliases
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.ids import ModelId
from dragoman.routing import Router, RouteRequest, Rule, When
from dragoman.routing.aliases import Aliases
from tests.unit.routing.models import find

TEXT = """
workspace_default = "house"
global_default = "south:able"
min_confidence = 0.25

[aliases]
house = "north:able"

[[rule]]
name = "dear"
model = "west:small"
when = { spent_over_usd = 4.99 }

[[rule]]
model = "north:large"
when = { tokens_over = 80_000, none_of = [{ labels = ["pii"] }] }
"""


def test_a_file_configures_all_that_a_program_can() -> None:
    """Money is read exactly, names are looked up."""
    routed = Router.from_toml(TEXT, find=find)
    assert routed.workspace_default == "north:able"
    assert routed.rules[0].when.spent_over_usd == Decimal("4.99")
    assert [rule.name for rule in routed.rules] == ["dear", "rule 2"]
    assert routed.choose(RouteRequest(estimated_tokens=80_001)).model == "north:large"
    assert routed.choose(RouteRequest(estimated_tokens=80_001, labels=frozenset({"pii"}))).model == "north:able"
    assert routed.choose(RouteRequest(spent_usd=Decimal(5))).model == "west:small"


def test_arguments_outrank_the_file() -> None:
    """They replace its values."""
    assert Router.from_toml(TEXT, workspace_default=None, find=find).workspace_default is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "not valid TOML"),
        ("globel_default = 'a:b'", "globel_default: Extra inputs"),
        ("[[rule]]\nwhen = {}", "rule.0.model: Field required"),
        ("[[rule]]\nmodel = 'a:b'\nwhen = { tokens_ober = 1 }", "rule.0.when.tokens_ober: Extra inputs"),
        ("[[rule]]\nmodel = 'a:b'\nwhen = { cost_under_usd = nan }", "rule.0.when.cost_under_usd"),
        ("min_confidence = 2", "min_confidence"),
        ("global_default = 'nothing'", "neither a model id nor an alias"),
    ],
)
def test_every_fault_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Router.from_toml(text)


def test_several_faults_are_named_at_once() -> None:
    """So one correction is enough."""
    with pytest.raises(ConfigurationError, match=r"(?s)rule.0.model.*mentions"):
        Router.from_toml("mentions = 'perhaps'\n[[rule]]\nname = 'x'")


@pytest.mark.parametrize(("name", "model"), sorted(bundled_aliases().items()))
def test_a_bundled_alias_names_a_listed_model(name: str, model: str) -> None:
    """An alias that leads nowhere is worse than none."""
    adapter = get_adapter(model)
    assert adapter.capabilities
    assert ModelId.parse(model).name in adapter.listed_models
    assert name == name.lower()


def test_own_aliases_override_the_bundled_ones() -> None:
    """Case does not matter; a model id means itself."""
    aliases = Aliases({"Sonnet": "bedrock:claude", "mine": "a:b"})
    assert aliases.resolve("SONNET") == "bedrock:claude"
    assert aliases.resolve("mine") == "a:b"
    assert aliases.resolve("opus").startswith("anthropic:")
    assert aliases.resolve("x:Y") == "x:Y"
    assert "sonnet" in aliases
    assert "x:Y" not in aliases


def test_conditions_can_be_written_in_python() -> None:
    when = When(tokens_over=80_000, has_tools=True, cost_under_usd=Decimal("0.10"), labels=frozenset({"pii"}))
    assert When.model_validate_json(when.model_dump_json()) == when


def test_a_policy_is_stored_as_json() -> None:
    """And read again, the same in every process: sets are sorted, money is exact."""
    rule = Rule(
        model="sonnet", when=When(labels=frozenset("cab"), users=frozenset({"u"}), cost_under_usd=Decimal("0.10"))
    )
    routed = Router(rules=[rule], aliases={"House": "a:b"}, global_default="house", min_confidence=0.25, mentions=True)
    assert routed.configuration == {
        "rule": [
            {
                "model": "anthropic:claude-sonnet-5-5",
                "when": {"labels": ["a", "b", "c"], "users": ["u"], "cost_under_usd": "0.10"},
                "name": "rule 1",
            }
        ],
        "aliases": {"house": "a:b"},
        "global_default": "a:b",
        "min_confidence": "0.25",
        "mentions": True,
    }
    again = Router.from_configuration(json.loads(json.dumps(routed.configuration)))
    assert (again.configuration, again.rules, again.global_default) == (routed.configuration, routed.rules, "a:b")
    assert Router().configuration == {}
    with pytest.raises(ConfigurationError, match=r"rule\.0\.model"):
        Router.from_configuration({"rule": [{}]})
