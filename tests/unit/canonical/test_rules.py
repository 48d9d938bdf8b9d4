"""The invariants of a history, each violation with its name. Source: docs/reference/canonical.md#invariants."""

import binascii
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical import rules
from dragoman.canonical.blocks import (
    ImageBlock,
    MediaSource,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from dragoman.canonical.message import Message, MessageMetadata, MessageStatus, Role
from dragoman.canonical.rules import ALLOWED_BLOCKS, check
from tests.tables import each_row
from tests.unit.canonical.samples import BLOCKS, METADATA

A, B = "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5", "tu_01M7YJFK7P2ZFT4X2CGGZPP6M6"
OF_A_MODEL = MessageMetadata.model_validate({**METADATA, "parent_tool_use_id": None})


def reply(*content: Any, **fields: Any) -> Message:
    return Message.assistant(content, **{"metadata": OF_A_MODEL, **fields})


def call(tool_use_id: str = A) -> ToolUseBlock:
    return ToolUseBlock(id=tool_use_id, name="f")


text = TextBlock(text="Hi")
image = ImageBlock(source=MediaSource(kind="url", data="https://example.org/a.png"))
result = ToolResultBlock(tool_use_id=A, content="ok")


def test_a_clean_history_has_no_violations() -> None:
    """System prompts, parallel calls, images, thinking, native blocks: all in their place."""
    history = [
        Message.system(()),
        Message.developer("Be brief."),
        Message.user([text, image]),
        reply(ThinkingBlock(text="Hm."), RedactedThinkingBlock(data="x"), text, call(A), call(B)),
        Message.tool(B, "ok"),
        Message.tool(A, [image], is_error=True),
        reply(ProviderBlock(provider="openai", kind="web_search", data={}), text),
        Message.assistant("cut off", metadata=MessageMetadata(status=MessageStatus.CANCELLED)),
    ]
    assert check(history) == []
    assert check([]) == []


MISSING = {"model", "provider", "routing", "usage"}


@pytest.mark.parametrize(
    ("history", "violations"),
    [
        ([Message.user(())], ["[0] has no content"]),
        ([reply()], ["[0] has no content"]),
        ([Message.user([call()])], ["[0] content[0]: a user message cannot hold a tool_use"]),
        ([Message.user([text, ThinkingBlock()])], ["[0] content[1]: a user message cannot hold a thinking"]),
        ([Message.system([image])], ["[0] content[0]: a system message cannot hold a image"]),
        ([Message.developer([call()])], ["[0] content[0]: a developer message cannot hold a tool_use"]),
        ([Message.assistant("Hi", metadata=MessageMetadata(model="a:b"))],
         ["[0] metadata.provider is missing", "[0] metadata.routing is missing", "[0] metadata.usage is missing"]),
        ([Message.user("Hi"), reply(call("call_1"))], ["[1] the tool id 'call_1' is not canonical (tu_<ulid>)"]),
        ([reply(call(A), call(A))], [f"[0] the tool id {A!r} is used twice"]),
        ([reply(call(A)), reply(call(A))], [f"[1] the tool id {A!r} is used twice"]),
        ([Message.tool(A, "ok")], [f"[0] the result of {A!r} answers no earlier call"]),
        ([Message.tool(A, "ok"), reply(call(A))], [f"[0] the result of {A!r} answers no earlier call"]),
        ([reply(call(A)), Message.tool(A, "ok"), Message.tool(A, "again")], [f"[2] the call {A!r} is answered twice"]),
        ([reply(call(A), session_id="sess_1"), Message.tool(A, "ok", session_id="sess_2")],
         [f"[1] the result of {A!r} answers a call of another session"]),
    ],
)  # fmt: skip
def test_each_violation_is_named(history: list[Message], violations: list[str]) -> None:
    """Each violation is named in one sentence that starts with the index of the message."""
    assert check(history) == violations


@pytest.mark.parametrize(
    ("message", "violations"),
    [
        (Message(role=Role.TOOL, content=(result,)), ["[0] metadata.parent_tool_use_id is missing"]),
        (Message.tool(A, "ok").model_copy(update={"content": (result, result)}),
         ["[0] holds 2 blocks; a tool message must hold exactly one tool_result",
          f"[0] the call {A!r} is answered twice"]),
        (Message.tool(A, "ok").model_copy(update={"content": ()}),
         ["[0] has no content", "[0] holds 0 blocks; a tool message must hold exactly one tool_result"]),
        (Message.tool(A, "ok").model_copy(update={"content": (text,)}),
         ["[0] content[0]: a tool message cannot hold a text"]),
    ],
)  # fmt: skip
def test_a_tool_message_is_one_result_of_a_named_call(message: Message, violations: list[str]) -> None:
    """Exactly one block, and the id of the call in the metadata."""
    found = [violation for violation in check([message]) if "answers no earlier call" not in violation]
    assert found == violations


@each_row("role", Role)
@each_row("kind", BLOCKS)
def test_the_table_of_roles_and_blocks_decides(role: Role, kind: str) -> None:
    """A block that a role may not hold is a violation; any other is not."""
    message = Message.model_validate({"role": role, "content": [{"type": kind, **BLOCKS[kind]}]})
    misplaced = f"[0] content[0]: a {role} message cannot hold a {kind}"
    assert (misplaced in check([message])) is (kind not in ALLOWED_BLOCKS[role])


def test_a_partial_message_is_not_checked() -> None:
    """Only complete ones are; a cancelled one is, but may lack its usage."""
    partial = MessageMetadata(status=MessageStatus.PARTIAL)
    assert check([Message.assistant((), metadata=partial), Message.user([call()], metadata=partial)]) == []
    cancelled = MessageMetadata(status=MessageStatus.CANCELLED)
    assert check([Message.assistant((), metadata=cancelled)]) == ["[0] has no content"]


def test_blocks_of_another_version_are_no_violation() -> None:
    """This version cannot know where they belong."""
    assert check([Message.user([UnknownBlock(type="hologram")])]) == []


@given(st.text("Aa/+9=", max_size=30))
def test_base64_in_pieces_is_what_the_whole_is(data: str) -> None:
    """Large data are looked at in pieces, so that other threads run meanwhile."""
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        expected = False
    else:
        expected = True
    with patch.object(rules, "_PIECE", 8):
        assert rules._is_base64(data) is expected
