"""Confirmation: which calls need it, and what an answer causes."""

import asyncio
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.policy import Extensions, Hook, MessageView
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.extensions import MCPExtension, ToolMetadata
from dragoman.policy.pipeline import Pipeline
from dragoman.policy.plugins import Confirmation

WRITE = ToolUseBlock(id="tu_1", name="write_file", input={"path": "a"})
READ = ToolUseBlock(id="tu_2", name="read_file")
TOOLS = {"write_file": SideEffects.WRITE, "read_file": "read"}


class HandwrittenApproval:
    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.views: list[MessageView] = []

    def __call__(self, view: MessageView) -> Any:
        self.views.append(view)
        return self.answers.pop(0)

    async def later(self, view: MessageView) -> Any:
        await asyncio.sleep(0)
        return self(view)


def run(plugin: Confirmation, *calls: ToolUseBlock, extensions: Extensions | None = None) -> None:
    message = Message.assistant(list(calls), session_id="s")
    Pipeline([plugin]).run(Hook.TOOL_PRE_INVOKE, message, extensions)


def test_a_call_with_side_effects_needs_confirmation() -> None:
    """The question has its name and arguments; a call that only reads needs none."""
    approval = HandwrittenApproval(True)
    run(Confirmation(approval, TOOLS), READ, WRITE)
    assert [(view.name, view.args) for view in approval.views] == [("write_file", {"path": "a"})]


@pytest.mark.parametrize("answer", [False, None, 0, "yes", 1, object()])
def test_anything_but_true_means_no(answer: Any) -> None:
    """No further question is asked."""
    approval = HandwrittenApproval(answer)
    with pytest.raises(PolicyDeniedError, match="not confirmed") as raised:
        run(Confirmation(approval, TOOLS), WRITE, WRITE.model_copy(update={"id": "tu_3"}))
    assert (raised.value.code, raised.value.plugin, len(approval.views)) == ("not_confirmed", "confirmation", 1)


def test_each_call_is_confirmed_separately() -> None:
    """All have to be confirmed."""
    approval = HandwrittenApproval(True, False)
    with pytest.raises(PolicyDeniedError):
        run(Confirmation(approval, TOOLS), WRITE, WRITE.model_copy(update={"id": "tu_3"}))
    assert len(approval.views) == 2


def test_a_failing_confirmation_means_no() -> None:
    """The call does not run."""

    def fail(_: MessageView) -> bool:
        raise EOFError

    with pytest.raises(PolicyDeniedError, match="EOFError"):
        run(Confirmation(fail, TOOLS), WRITE)


@pytest.mark.parametrize("effects", SideEffects)
def test_reading_needs_no_confirmation_by_default(effects: SideEffects) -> None:
    """Settings can change that; definitions declare side effects as well as names do."""
    definition = ToolDefinition(name="write_file", side_effects=effects)
    approval = HandwrittenApproval(True)
    run(Confirmation(approval, [definition]), WRITE)
    assert bool(approval.views) is (effects not in ("none", "read"))
    run(Confirmation(HandwrittenApproval(), [definition], harmless=SideEffects), WRITE)
    approval = HandwrittenApproval(True)
    run(Confirmation(approval, [definition], harmless=()), WRITE)
    assert len(approval.views) == 1


def test_an_unknown_tool_has_side_effects() -> None:
    """An MCP server's read-only hint counts only if it is trusted, and for that tool only."""
    hint = ToolMetadata(name="read_file", annotations={"readOnlyHint": True})
    extensions = Extensions(mcp=MCPExtension(tool=hint))
    for settings, calls, expected in (
        ({}, (READ,), 1), ({"trust_hints": True}, (READ,), 0), ({"trust_hints": True}, (WRITE,), 1),
        ({"trust_hints": True, "harmless": ["none"]}, (READ,), 1),
    ):  # fmt: skip
        approval = HandwrittenApproval(True)
        run(Confirmation(approval, **settings), *calls, extensions=extensions)
        assert len(approval.views) == expected, settings
    dishonest = Extensions(mcp=MCPExtension(tool=ToolMetadata(name="read_file", annotations={"readOnlyHint": "yes"})))
    approval = HandwrittenApproval(True)
    run(Confirmation(approval, trust_hints=True), READ, extensions=dishonest)
    assert len(approval.views) == 1


def test_the_programs_own_table_outranks_a_hint() -> None:
    hint = MCPExtension(tool=ToolMetadata(name="write_file", annotations={"readOnlyHint": True}))
    approval = HandwrittenApproval(True)
    run(Confirmation(approval, TOOLS, trust_hints=True), WRITE, extensions=Extensions(mcp=hint))
    assert len(approval.views) == 1


@pytest.mark.parametrize("answer", [True, False])
def test_a_coroutine_is_awaited(answer: bool) -> None:
    """In an async driver; its pipeline reports that it needs one."""
    approval = HandwrittenApproval(answer)
    pipeline = Pipeline([Confirmation(approval.later, TOOLS)])
    assert pipeline.async_names == ("confirmation",)
    step = pipeline.run_async(Hook.TOOL_PRE_INVOKE, Message.assistant([READ, WRITE], session_id="s"))
    if answer:
        asyncio.run(step)
    else:
        with pytest.raises(PolicyDeniedError):
            asyncio.run(step)
    assert len(approval.views) == 1


def test_a_coroutine_needs_an_async_driver() -> None:
    """The call does not run without one."""
    with pytest.raises(ConfigurationError, match="must be awaited"):
        run(Confirmation(HandwrittenApproval(True).later, TOOLS), WRITE)
