"""Labels and models: labelled content goes only to the models that may see it."""

from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, NoModelError
from dragoman.canonical.message import Message
from dragoman.policy import Extensions, Hook, SecurityExtension
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.extensions import LLMExtension
from dragoman.policy.pipeline import Pipeline
from dragoman.policy.plugins import LabelledModels
from dragoman.routing import Router, RouteRequest, label_rules

SONNET, LOCAL, LLAMA = "anthropic:claude-sonnet-4-6", "local:smollm2-135m", "ollama:llama3.3:8b"
TABLE = {"PII": ["ollama:**", "local:**"], "EU": ["ollama:**", "mistral:**"], "NEVER": []}


def extensions_for(labels: set[str], model: str | None, provider: str | None = None) -> Extensions:
    return Extensions(
        security=SecurityExtension(labels=frozenset(labels)), llm=LLMExtension(model_id=model, provider=provider)
    )


def is_denied(extensions: Extensions | None) -> str | None:
    try:
        Pipeline([LabelledModels(TABLE)]).run(Hook.LLM_INPUT, Message.user("Hi", session_id="s"), extensions)
    except PolicyDeniedError as error:
        return f"{error.code}: {error.reason}"
    return None


@pytest.mark.parametrize(
    ("labels", "model", "passes"),
    [
        (set(), SONNET, True), ({"harmless"}, SONNET, True), ({"PII"}, SONNET, False), ({"PII"}, LOCAL, True),
        ({"PII"}, LLAMA, True), ({"PII", "EU"}, LLAMA, True), ({"PII", "EU"}, LOCAL, False),
        ({"PII", "harmless"}, LOCAL, True), ({"NEVER"}, LOCAL, False), ({"pii"}, SONNET, True),
        ({"PII"}, None, False), (set(), None, True), ({"PII"}, "", False),
    ],
)  # fmt: skip
def test_every_label_has_to_allow_the_model(labels: set[str], model: str | None, passes: bool) -> None:
    """If a label names no model, none is allowed."""
    assert (is_denied(extensions_for(labels, model)) is None) is passes


def test_a_model_name_matches_with_and_without_its_provider() -> None:
    assert is_denied(extensions_for({"PII"}, "llama3.3:8b", "ollama")) is None
    assert is_denied(extensions_for({"PII"}, LLAMA, "ollama")) is None
    assert is_denied(extensions_for({"PII"}, "ollama:lookalike", "openai")) == (
        "model_not_allowed: content under the label 'PII' is not for openai:ollama:lookalike"
    )


def test_missing_labels_restrict_nothing() -> None:
    """Labels without a model do."""
    assert is_denied(None) is None
    assert is_denied(Extensions(security=SecurityExtension(labels=frozenset({"PII"})))) is not None


def test_a_single_string_is_no_list() -> None:
    """Its letters would be the items."""
    for make in (LabelledModels, label_rules):
        with pytest.raises(ConfigurationError, match="must be a list"):
            make({"PII": "ollama:**"})


LISTED = {"PII": [LOCAL, LLAMA], "EU": [LLAMA]}


class Facts:
    """A model with all capabilities."""

    default_output_tokens = 1_000

    def __init__(self) -> None:
        from dragoman.adapter.registry import get_adapter

        self.capabilities = get_adapter(SONNET).capabilities


@pytest.mark.parametrize(
    ("labels", "model"),
    [((), SONNET), (("other",), SONNET), (("PII",), LOCAL), (("EU",), LLAMA), (("PII", "EU"), LLAMA),
     (("PII", "other"), LOCAL)],
)  # fmt: skip
def test_a_router_chooses_an_allowed_model(labels: tuple[str, ...], model: str) -> None:
    """The first model that all labels list is chosen; other turns are routed as before."""
    router = Router(rules=label_rules(LISTED), global_default=SONNET, find=lambda _: Facts())
    chosen = router.choose(RouteRequest(text="Hi", labels=frozenset(labels)))
    assert chosen.model == model


def test_a_label_that_allows_no_model_has_no_rule() -> None:
    """Without a default such a turn finds no model; with one, the plugin denies it."""
    router = Router(rules=label_rules({"NEVER": [], "PII": [LOCAL]}), find=lambda _: Facts())
    with pytest.raises(NoModelError):
        router.choose(RouteRequest(text="Hi", labels=frozenset({"NEVER", "PII"})))


def test_rules_can_be_stored_with_a_session() -> None:
    """They are data, and survive storage."""
    router = Router(rules=label_rules(LISTED), find=lambda _: Facts())
    again: Any = Router.from_configuration(router.configuration, find=lambda _: Facts())
    assert again.rules == router.rules
