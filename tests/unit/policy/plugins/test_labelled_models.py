"""Labels and models: labelled content goes to the models that may see it, and to no others."""

from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, NoModelError
from dragoman.canonical.message import Message
from dragoman.policy import Extensions, Hook, LLMExtension, SecurityExtension
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.pipeline import Pipeline
from dragoman.policy.plugins import LabelledModels
from dragoman.routing import Router, RouteRequest, label_rules

SONNET, LOCAL, LLAMA = "anthropic:claude-sonnet-4-6", "local:smollm2-135m", "ollama:llama3.3:8b"
TABLE = {"PII": ["ollama:**", "local:**"], "EU": ["ollama:**", "mistral:**"], "NEVER": []}


def extensions_for(labels: set[str], model: str | None, provider: str | None = None) -> Extensions:
    return Extensions(
        security=SecurityExtension(labels=frozenset(labels)), llm=LLMExtension(model_id=model, provider=provider)
    )


def denied(extensions: Extensions | None) -> str | None:
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
def test_who_may_see_what(labels: set[str], model: str | None, passes: bool) -> None:
    """Every label has to allow the model; where none is named, none is allowed."""
    assert (denied(extensions_for(labels, model)) is None) is passes


def test_a_name_with_and_without_its_provider() -> None:
    """Both are the same model."""
    assert denied(extensions_for({"PII"}, "llama3.3:8b", "ollama")) is None
    assert denied(extensions_for({"PII"}, LLAMA, "ollama")) is None
    assert denied(extensions_for({"PII"}, "ollama:lookalike", "openai")) == (
        "model_not_allowed: content under the label 'PII' is not for openai:ollama:lookalike"
    )


def test_without_a_slot_nothing_is_known() -> None:
    """No labels are no restriction; labels without a model are one."""
    assert denied(None) is None
    assert denied(Extensions(security=SecurityExtension(labels=frozenset({"PII"})))) is not None


def test_one_word_is_no_list() -> None:
    """It would be its letters."""
    for make in (LabelledModels, label_rules):
        with pytest.raises(ConfigurationError, match="must be a list"):
            make({"PII": "ollama:**"})


LISTED = {"PII": [LOCAL, LLAMA], "EU": [LLAMA]}


class Facts:
    """A model that takes anything."""

    default_output_tokens = 1_000

    def __init__(self) -> None:
        from dragoman.adapter.registry import get_adapter

        self.capabilities = get_adapter(SONNET).capabilities


@pytest.mark.parametrize(
    ("labels", "model"),
    [((), SONNET), (("other",), SONNET), (("PII",), LOCAL), (("EU",), LLAMA), (("PII", "EU"), LLAMA),
     (("PII", "other"), LOCAL)],
)  # fmt: skip
def test_a_router_sends_it_there(labels: tuple[str, ...], model: str) -> None:
    """By rules: the first model that all of its labels list; other turns go where they always went."""
    router = Router(rules=label_rules(LISTED), global_default=SONNET, find=lambda _: Facts())
    chosen = router.choose(RouteRequest(text="Hi", labels=frozenset(labels)))
    assert chosen.model == model


def test_a_label_for_nobody_has_no_rule() -> None:
    """Such a turn finds no model where there is no default, and the plugin stops it where there is one."""
    router = Router(rules=label_rules({"NEVER": [], "PII": [LOCAL]}), find=lambda _: Facts())
    with pytest.raises(NoModelError):
        router.choose(RouteRequest(text="Hi", labels=frozenset({"NEVER", "PII"})))


def test_rules_can_be_kept_with_a_session() -> None:
    """They are data, and come back the same."""
    router = Router(rules=label_rules(LISTED), find=lambda _: Facts())
    again: Any = Router.from_configuration(router.configuration, find=lambda _: Facts())
    assert again.rules == router.rules
