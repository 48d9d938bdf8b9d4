"""The two words of a hook, and what is not judged because it is no message."""

from typing import Any

import pytest

from dragoman import Message
from dragoman.adapter.errors import ConfigurationError
from dragoman.policy import Extensions, Hook, Pipeline, Step, Violation, hook

HI = Message.user("Hi")


@pytest.mark.parametrize("name", [each for each in Hook if each is not Hook.EVALUATE])
def test_a_hook_has_two_words(name: Hook) -> None:
    """A hook has the name in messages and the one for plugins; both are accepted: docs/reference/policy.md#hooks."""
    bare = name.removeprefix("cmf.")
    assert Hook(bare) is name
    hooks: list[str] = []

    def noting(step: Step) -> None:
        hooks.append(step.hook)

    pipeline = Pipeline([hook(bare)(noting)])
    pipeline.run(name, HI)
    pipeline.run(bare, HI)
    assert hooks == [name, name]
    assert pipeline.has_plugins(bare)
    assert not pipeline.has_plugins("evaluate")


@pytest.mark.parametrize("name", ["llm_inptu", "cmf.evaluate", "", None])
def test_a_hook_that_is_none_is_refused(name: Any) -> None:
    """In the words of the library, with those that there are."""
    for use in (
        lambda: Pipeline().run(name, HI),
        lambda: Pipeline().has_plugins(name),
        lambda: hook(name)(lambda step: None),
    ):
        with pytest.raises(ConfigurationError, match=r"hook .*(did you mean|there are) "):
            use()


@pytest.mark.parametrize("there", [True, False])
def test_what_is_no_message_does_not_pass_unjudged(there: bool) -> None:
    """Whether any plugin is asked there or not."""
    pipeline = Pipeline([hook("evaluate" if there else "llm_input")(lambda step: None)])
    with pytest.raises(TypeError, match="expected a Message, not a str"):
        pipeline.run("evaluate", "hunter2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be Extensions, not a dict: Extensions\.model_validate"):
        pipeline.run("evaluate", HI, {"security": {"labels": ["PII"]}})  # type: ignore[arg-type]


def test_one_plugin_alone_is_a_pipeline_too() -> None:
    """A list of one need not be written."""

    @hook("evaluate")
    def shut(step: Step) -> Violation:
        return Violation("closed")

    assert [each.name for each in Pipeline(shut).plugins] == ["shut"]


def test_views_look_at_extensions_and_nothing_else() -> None:
    """A dict would be found out much later, by the first accessor that is asked."""
    with pytest.raises(TypeError, match=r"extensions must be Extensions, not a dict"):
        HI.iter_views(extensions={})  # type: ignore[arg-type]
    (view,) = HI.iter_views(extensions=Extensions())
    assert view.labels == frozenset()
