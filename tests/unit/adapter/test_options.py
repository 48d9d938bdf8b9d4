"""The values of a request's options: accepted, or refused with an error that says what to write."""

import json
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest

from dragoman import AdapterOptions, Message, RequestContext, Session, get_adapter
from dragoman.adapter.errors import RequestError
from dragoman.tools import NamedTool
from tests.tables import each_row


class Effort(StrEnum):
    HIGH = "high"


REFUSED: list[tuple[str, Any, str]] = [
    ("max_output_tokens", -1, "at least 0, not -1"),
    ("max_output_tokens", "5", "a whole number, not a value of the class str"),
    ("max_output_tokens", 5.5, "a whole number"),
    ("max_output_tokens", True, "a whole number, not a value of the class bool"),
    ("temperature", "hot", "a number"),
    ("temperature", False, "a number"),
    ("top_k", "many", "a number"),
    ("seed", 1.5, "a whole number"),
    ("stop_sequences", 5, "a list of strings, not a value of the class int"),
    ("stop_sequences", [5], "a list of strings"),
    ("stop_sequences", {"END"}, "a list of strings"),
    ("parallel_tool_calls", "no", "True or False"),
    ("thinking", 1, "True or False"),
    ("thinking_budget", "much", "a whole number"),
    ("effort", 3, "a string"),
    ("user", 5, "a string, not a value of the class int"),
    ("service_tier", ["flex"], "a string, not a value of the class list"),
    ("prompt_cache", 5, "a string"),
    ("metadata", "team", "a mapping of strings"),
    ("keep_alive", [5], "a string such as '10m' or a number of seconds"),
    ("num_ctx", "8k", "a whole number"),
    ("stream", "yes", "True or False"),
    ("headers", "x-key: secret", "a mapping by provider, such as {'openai': {...}}, not a value of the class str"),
    ("extra", ["x"], "a mapping by provider"),
]


@each_row(("name", "value", "problem"), REFUSED)
def test_a_value_of_a_wrong_class_is_refused(name: str, value: Any, problem: str) -> None:
    """The error names the option and what it takes. A number may be shown; a text may be secret."""
    with pytest.raises(RequestError) as caught:
        AdapterOptions(**{name: value})
    assert name in str(caught.value)
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("schema", [["x"], "{}", 5])
def test_an_output_schema_is_a_mapping(schema: Any) -> None:
    """Sessions take other forms too; an adapter gets what they have made of them."""
    with pytest.raises(RequestError, match="output_schema must be a JSON Schema as a mapping, not a "):
        get_adapter("openai-chat:gpt-4.1").to_wire([Message.user("Hi.")], [], AdapterOptions(output_schema=schema))


@pytest.mark.parametrize("choice", ["look_up", "any", "", 5, {"type": "tool", "name": "look_up"}, ("look_up",)])
def test_a_wrong_tool_choice_is_refused_with_the_accepted_forms(choice: Any) -> None:
    with pytest.raises(RequestError, match=r"'auto', 'none', 'required' or NamedTool\('name_of_a_tool'\) from"):
        AdapterOptions(tool_choice=choice)


def test_a_named_tool_has_a_name() -> None:
    with pytest.raises(RequestError, match="the name in NamedTool must be a string"):
        AdapterOptions(tool_choice=NamedTool(5))  # type: ignore[arg-type]


def test_a_value_of_a_right_class_is_accepted() -> None:
    """Subclasses too, whole numbers for numbers, and no tokens: that fills a provider's cache."""
    options: dict[str, Any] = {
        "max_output_tokens": 0, "temperature": 1, "top_k": 40.0, "stop_sequences": ["a", "b"], "effort": Effort.HIGH,
        "tool_choice": NamedTool("look_up"), "metadata": MappingProxyType({"team": "blue"}), "keep_alive": 5,
        "thinking_budget": -1, "headers": MappingProxyType({"openai": {}}),
    }  # fmt: skip
    made = AdapterOptions(**options)
    assert {name: getattr(made, name) for name in options} == options
    assert AdapterOptions(stop_sequences="END").stop_sequences == ("END",)  # type: ignore[arg-type]


def test_a_subclass_with_slots_is_checked_too() -> None:
    """Its values are in no ``__dict__``."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class OwnOptions(AdapterOptions):
        pass

    assert OwnOptions(user="ann").user == "ann"
    with pytest.raises(RequestError, match="user must be a string"):
        OwnOptions(user=5)  # type: ignore[arg-type]


def test_a_turn_is_refused_before_anything_is_sent() -> None:
    with Session("openai-chat:gpt-4.1", api_key="not-a-key") as session:
        with pytest.raises(RequestError, match="tool_choice must be"):
            session.ask("Hi", tool_choice="look_up")  # type: ignore[arg-type]
        assert session.messages == ()


@each_row(
    ("model", "body"),
    [
        ("openai-chat:gpt-4.1", {"model": "m", "messages": [], "temperature": "hot"}),
        ("openai-chat:gpt-4.1", {"model": "m", "messages": [], "stop": 5}),
        ("openai:gpt-4.1", {"model": "m", "input": [], "parallel_tool_calls": "no"}),
        ("anthropic:claude-haiku-4-5", {"model": "m", "messages": [], "max_tokens": "5"}),
        ("anthropic:claude-haiku-4-5",
         {"model": "m", "messages": [], "max_tokens": 5, "tool_choice": {"type": "tool", "name": 5}}),
        ("google:gemini-2.5-flash", {"contents": [], "generationConfig": {"topP": "x"}}),
        ("ollama:qwen3:4b", {"model": "m", "messages": [], "options": {"num_ctx": "8k"}}),
    ],
)  # fmt: skip
def test_a_wrong_value_of_a_clients_request_is_an_error_of_the_request(model: str, body: dict[str, Any]) -> None:
    """A server answers it with 400."""
    with pytest.raises(RequestError):
        get_adapter(model).from_wire_request(json.dumps(body).encode(), RequestContext.for_model(model))


@pytest.mark.parametrize("number", [-1, -2])
def test_ollamas_words_for_no_limit_are_kept(number: int) -> None:
    """They are not a number of tokens: Ollama receives them again, and no other provider does."""
    adapter, given = get_adapter("ollama:qwen3:4b"), {"num_predict": number}
    body = {"model": "qwen3:4b", "messages": [], "stream": True, "options": given}
    _, _, options = adapter.from_wire_request(body, RequestContext.for_model("ollama:qwen3:4b"))
    assert options.max_output_tokens is None
    assert json.loads(adapter.to_wire([Message.user("Hi")], [], options).body)["options"] == given
