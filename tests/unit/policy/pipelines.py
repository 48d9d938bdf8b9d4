"""Plugins for the tests of pipelines, and the type of their driver (see ``conftest.py``)."""

from collections.abc import Callable
from typing import Any

from dragoman.canonical.blocks import TextBlock
from dragoman.canonical.message import Message
from dragoman.policy import PipelineResult, Plugin, Step, hook

HI = Message.user("Hi", session_id="s")
Run = Callable[..., PipelineResult]


def recording_plugin(order: list[str], name: str, **declared: Any) -> Plugin:
    """Append ``name`` to ``order`` when called."""

    def note(step: Step) -> None:
        order.append(name)

    return hook("evaluate", name=name, **declared)(note)


def appending_plugin(text: str, **declared: Any) -> Plugin:
    """Append ``text`` to the message."""

    def write(step: Step) -> Message:
        text_after = step.message.text + text
        return step.message.model_copy(update={"content": (TextBlock(text=text_after),)})

    return hook("evaluate", name=f"append {text}", **declared)(write)
