"""The two names of a hook, and which objects are not judged because they are not messages."""

from typing import Any

import pytest

from dragoman import Message
from dragoman.adapter.errors import ConfigurationError
from dragoman.policy import Extensions, Hook, Pipeline, Step, Violation, hook

HI = Message.user("Hi")


@pytest.mark.parametrize("name", [each for each in Hook if each is not Hook.EVALUATE])
def test_a_hook_has_two_names(name: Hook) -> None:
    """A hook has the name in messages and the one for plugins; both are accepted: docs/reference/policy.md#hooks."""
    bare = name.removeprefix("cmf.")
    assert Hook(bare) is name
    hooks: list[str] = []

    def record_hook(step: Step) -> None:
        hooks.append(step.hook)

    pipeline = Pipeline([hook(bare)(record_hook)])
    pipeline.run(name, HI)
    pipeline.run(bare, HI)
    assert hooks == [name, name]
    assert pipeline.has_plugins(bare)
    assert not pipeline.has_plugins("evaluate")


@pytest.mark.parametrize("name", ["llm_inptu", "cmf.evaluate", "", None])
def test_an_unknown_hook_is_refused(name: Any) -> None:
    """An unknown hook is refused with an error of this library that lists the known ones."""
    for use in (
        lambda: Pipeline().run(name, HI),
        lambda: Pipeline().has_plugins(name),
        lambda: hook(name)(lambda step: None),
    ):
        with pytest.raises(ConfigurationError, match=r"hook .*(did you mean|there are) "):
            use()


@pytest.mark.parametrize("there", [True, False])
def test_anything_but_a_message_is_refused(there: bool) -> None:
    """Whether or not a plugin is registered for the hook."""
    pipeline = Pipeline([hook("evaluate" if there else "llm_input")(lambda step: None)])
    with pytest.raises(TypeError, match="expected a Message, not a str"):
        pipeline.run("evaluate", "hunter2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be Extensions, not a dict: Extensions\.model_validate"):
        pipeline.run("evaluate", HI, {"security": {"labels": ["PII"]}})  # type: ignore[arg-type]


def test_a_single_plugin_is_a_pipeline() -> None:
    """It need not be in a list."""

    @hook("evaluate")
    def shut(step: Step) -> Violation:
        return Violation("closed")

    assert [each.name for each in Pipeline(shut).plugins] == ["shut"]


def test_views_accept_extensions_only() -> None:
    """With a dict, an error would come much later, from the first accessor."""
    with pytest.raises(TypeError, match=r"extensions must be Extensions, not a dict"):
        HI.iter_views(extensions={})  # type: ignore[arg-type]
    (view,) = HI.iter_views(extensions=Extensions())
    assert view.labels == frozenset()
