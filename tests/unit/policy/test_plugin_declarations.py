"""Mistakes in policies are reported when they are made, with what to write instead."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman import Message
from dragoman.adapter.errors import ConfigurationError
from dragoman.policy import Extensions, Pipeline, Plugin, PolicyDeniedError, Step, hook
from dragoman.policy.extensions import filter_extensions
from dragoman.policy.plugins import AllowUris, Confirmation, DenyUris, LabelledModels, Redaction
from dragoman.policy.slots import expand_capabilities

HI = Message.user("Hi, hunter2")


def yields(step: Step) -> Iterator[None]:
    yield None


class Empty(Plugin):
    hooks = ("evaluate",)


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "hook without words": (lambda: hook(lambda step: None), r"as in @hook\('cmf\.llm_input'\)"),  # type: ignore[arg-type]
    "no step taken": (lambda: hook("evaluate")(lambda: None), "must take one argument, the step"),  # type: ignore[arg-type]
    "two taken": (lambda: hook("evaluate")(lambda step, more: None), "must take one argument"),  # type: ignore[arg-type]
    "a generator": (lambda: hook("evaluate")(yields), "'yields': its check is a generator"),
    "no check": (lambda: Pipeline([Empty()]), "'Empty': it has no check"),
    "a class": (lambda: Pipeline([Empty]), "a type is not a plugin"),  # type: ignore[list-item]
    "patterns in a list": (lambda: AllowUris(["tool://**"]), r"not a list: write AllowUris\("),  # type: ignore[arg-type]
    "a pattern of bytes": (lambda: DenyUris(b"tool://**"), r"not a bytes: write DenyUris\("),  # type: ignore[arg-type]
    "nobody to ask": (lambda: Confirmation("yes"), "ask must be a function, not a str"),  # type: ignore[arg-type]
    "no such effect": (
        lambda: Confirmation(bool, {"f": "reads"}),
        "'reads' is not a side effect: use one of none, read, ",
    ),
    "tools by name alone": (lambda: Confirmation(bool, ["f"]), "or side effects by name, not a str"),  # type: ignore[list-item]
    "a finder by name": (lambda: Redaction(["email"]), "from a text to findings, not a str"),  # type: ignore[list-item]
    "a key of text": (lambda: Redaction([], key="secret"), "the key of a redaction must be non-empty bytes"),  # type: ignore[arg-type]
    "labels without models": (lambda: LabelledModels(["PII"]), "map labels to models, .* not a list"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_at_declaration(mistake: str) -> None:
    """A mistake is reported at declaration, not when it denies the first message."""
    build, pattern = MISTAKES[mistake]
    with pytest.raises(ConfigurationError, match=pattern):
        build()


@pytest.mark.parametrize("answer", [True, "no", {"violation": "no"}])
def test_an_invalid_answer_is_named(answer: Any) -> None:
    """By its type, and never by its content; the step is denied."""
    pipeline = Pipeline([hook("evaluate", name="odd")(lambda step: answer)])
    with pytest.raises(PolicyDeniedError) as denied:
        pipeline.run("evaluate", HI)
    assert denied.value.reason.startswith(f"check returned a {type(answer).__name__}: return a Violation, a Message, ")
    assert "hunter2" not in str(denied.value)


def test_a_check_may_have_more_parameters() -> None:
    """A check may have more parameters: defaults, variadic ones, a method, and functions written in C."""

    class Method:
        def look(self, step: Step) -> None:
            """Lets everything pass."""

    for check in (lambda step, more=1: None, lambda *anything: None, Method().look, [].append):
        assert Pipeline([hook("evaluate", name="p")(check)]).run("evaluate", HI).message == HI


def test_a_single_string_is_one_item() -> None:
    """A capability is not its letters, and one finder is a list of one."""
    assert expand_capabilities("read_labels") == expand_capabilities(["read_labels"])
    assert filter_extensions(Extensions(), "read_labels") == Extensions()
    assert Redaction(lambda text: []).redact("Hi") == "Hi"  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected Extensions, not a dict"):
        filter_extensions({}, [])  # type: ignore[arg-type]
