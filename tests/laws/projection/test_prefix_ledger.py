"""The prefix ledger: signed thinking that is void after a change of earlier content is reported before it is sent."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dragoman import (
    AdapterOptions,
    Message,
    RequestContext,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    WireRequest,
    WireResponse,
    get_adapter,
)
from dragoman.adapter.errors import CriticalLossError, ProjectionError
from dragoman.adapter.losses import LossKind
from dragoman.canonical.message import read_message, write_message

MODEL = "anthropic:claude-opus-5-5"
TOOL = ToolDefinition(name="read_file", description="Reads.")
RULES = Message.system("Be brief.")


def handwritten_reply(text: str, **fields: Any) -> bytes:
    content = [{"type": "thinking", "thinking": "", "signature": f"sig of {text}"}, {"type": "text", "text": text}]
    usage = {"input_tokens": 1, "output_tokens": 1}
    return json.dumps(
        {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": content,
         "stop_reason": "end_turn", "usage": usage, **fields}
    ).encode()  # fmt: skip


class SignedConversation:
    """A conversation with one model; each question gets a signed answer."""

    def __init__(self, tools: Sequence[ToolDefinition] = (TOOL,), model: str = MODEL) -> None:
        self.model, self.tools = model, tools
        self.marks: str | None = None
        self.messages: list[Message] = [RULES]
        self.context = RequestContext(model=model, session_id="s")

    def ask(self, text: str, **fields: Any) -> Message:
        self.messages.append(Message.user(text))
        self.wire()
        reply = get_adapter(self.model).from_wire_response(
            WireResponse(200, handwritten_reply(f"Re {text}", **fields)), self.context
        )
        self.messages.append(reply)
        return reply

    def wire(self, messages: Sequence[Message] | None = None, **options: Any) -> WireRequest:
        request_options = AdapterOptions(context=self.context, **options)
        return get_adapter(self.model).to_wire(messages or self.messages, self.tools, request_options)


@pytest.fixture
def conversation() -> SignedConversation:
    conversation = SignedConversation()
    for text in ("One?", "Two?", "Three?"):
        conversation.ask(text)
    conversation.messages.append(Message.user("Four?"))
    return conversation


def voided_losses(wire: WireRequest) -> list[str]:
    return [loss.message_id for loss in wire.losses if loss.kind is LossKind.THINKING]


def test_a_history_that_only_grows_loses_nothing(conversation: SignedConversation) -> None:
    """Nothing is reported, and nothing is requested from the provider, also after a restart and with other options."""
    assert voided_losses(conversation.wire()) == []
    assert voided_losses(conversation.wire(max_output_tokens=7, effort="low", prompt_cache="5m")) == []
    assert b"block_binding" not in conversation.wire().body
    conversation.messages = [read_message(write_message(message)) for message in conversation.messages]
    conversation.context = RequestContext(model=MODEL, session_id="s")
    assert voided_losses(conversation.wire()) == []


@pytest.mark.parametrize("known", [True, False], ids=["kept encodings", "a fresh context"])
def test_a_change_before_signed_thinking_voids_it(conversation: SignedConversation, known: bool) -> None:
    """A tool, the system prompt, an earlier message: each is noticed from its place on."""
    replies = [message.id for message in conversation.messages if message.role == "assistant"]
    if not known:
        conversation.context = RequestContext(model=MODEL, session_id="s")
    changed = list(conversation.messages)
    assert voided_losses(conversation.wire([Message.system("Be long."), *changed[1:]])) == replies
    assert voided_losses(conversation.wire([*changed[:3], Message.user("2?"), *changed[4:]])) == replies[1:]
    assert voided_losses(conversation.wire([*changed[:5], *changed[7:]])) == []
    assert voided_losses(conversation.wire([*changed[:3], *changed[5:]])) == replies[2:]
    conversation.tools = (TOOL, ToolDefinition(name="write_file"))
    assert voided_losses(conversation.wire(changed)) == replies


LONG = "A question with many words. " * 100
"""A message of a length that is encoded once and kept."""


def _edit(conversation: SignedConversation, place: int) -> list[Message]:
    return [*conversation.messages[:place], Message.user("Edited."), *conversation.messages[place + 1 :]]


CHANGES: dict[str, Callable[[SignedConversation], None]] = {
    "nothing": lambda conversation: None,
    "tools": lambda conversation: setattr(conversation, "tools", ()),
    "a cache marker": lambda conversation: setattr(conversation, "marks", "5m"),
    "instructions": lambda conversation: conversation.messages.__setitem__(0, Message.system("Be long.")),
    "an early question": lambda conversation: setattr(conversation, "messages", _edit(conversation, 3)),
    "a late question": lambda conversation: setattr(conversation, "messages", _edit(conversation, 15)),
    "a turn is gone": lambda conversation: conversation.messages.__delitem__(slice(3, 5)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("later", range(3), ids=lambda count: f"{count} turns later")
def test_what_was_compared_before_is_not_forgotten(change: str, later: int) -> None:
    """With kept encodings a request says the same as without, whatever changes in the middle of a conversation, and
    also when it goes on."""
    conversation = SignedConversation()
    for number in range(8):
        conversation.ask(f"{number}: {LONG}")
    conversation.messages.append(Message.user(LONG))
    CHANGES[change](conversation)
    conversation.messages.pop()
    for number in range(later):
        conversation.ask(f"Later {number}: {LONG}")
    conversation.messages.append(Message.user(LONG))
    kept = conversation.wire(prompt_cache=conversation.marks)
    conversation.context = RequestContext(model=MODEL, session_id="s", tool_ids=conversation.context.tool_ids)
    fresh = conversation.wire(prompt_cache=conversation.marks)
    assert (kept.body, kept.losses) == (fresh.body, fresh.losses)
    assert bool(voided_losses(kept)) == (change not in ("nothing", "a cache marker"))


def test_the_provider_is_asked_to_drop_void_thinking(conversation: SignedConversation) -> None:
    """It would refuse the request otherwise; the caller's own beta headers stay."""
    conversation.tools = ()
    wire = conversation.wire(headers={"anthropic": {"anthropic-beta": "other-2026-01-01"}}, thinking=True)
    assert json.loads(wire.body)["thinking"] == {
        "type": "adaptive",
        "display": "summarized",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }
    assert wire.headers["anthropic-beta"] == "other-2026-01-01,thinking-binding-controls-2026-08-01"


def test_in_strict_mode_the_request_is_refused(conversation: SignedConversation) -> None:
    """The error names the message, and nothing is sent."""
    assert conversation.wire(strict_prefix=True).body
    conversation.tools = ()
    with pytest.raises(ProjectionError, match=conversation.messages[2].id):
        conversation.wire(strict_prefix=True)


def test_critical_thinking_is_not_voided(conversation: SignedConversation) -> None:
    """A critical block fails the request instead."""
    reply = conversation.messages[2]
    marked = reply.model_copy(update={"metadata": reply.metadata.model_copy(update={"critical": True})})
    conversation.messages[2] = marked
    assert conversation.wire().body
    conversation.tools = ()
    with pytest.raises(CriticalLossError):
        conversation.wire()


def test_models_without_prefix_binding_are_not_watched() -> None:
    """Their replies carry no note."""
    conversation = SignedConversation(model="anthropic:claude-sonnet-4-6")
    reply = conversation.ask("One?")
    assert "sealed_prefix" not in (reply.metadata.provider_raw or {})
    conversation.tools = ()
    assert voided_losses(conversation.wire([*conversation.messages, Message.user("Two?")])) == []


def test_a_swap_to_another_model_and_back_voids_nothing(conversation: SignedConversation) -> None:
    """The other provider's replies come after the signed thinking."""
    conversation.messages.append(
        Message.assistant(
            [ThinkingBlock(text="Hm", signature="theirs"), TextBlock(text="4.")],
            metadata=conversation.messages[2].metadata.model_copy(
                update={"model": "openai:gpt-6.1-sol", "provider": "openai", "provider_raw": None}
            ),
        )
    )
    conversation.ask("Five?")
    wire = conversation.wire([*conversation.messages, Message.user("Six?")])
    assert [loss.reason for loss in wire.losses if "void" in loss.reason] == []
    assert b"sig of Re Five?" in wire.body
    assert b"theirs" not in wire.body


@pytest.mark.parametrize(
    ("model", "reported", "expected"),
    [
        (
            MODEL,
            {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"},
            ("thinking_dropped", "prefix_binding_mismatch", "messages.1.content.0"),
        ),
        (
            "openai:gpt-6.1-sol",
            {"type": "reasoning", "action": "removed", "id": "rs_1", "reason": "prefix_mismatch"},
            ("reasoning_removed", "prefix_mismatch", "rs_1"),
        ),
    ],
)
def test_changes_reported_by_the_provider_are_read(
    model: str, reported: dict[str, str], expected: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """They are stored with the reply, and are a warning."""
    body = json.loads(handwritten_reply("Yes."))
    if model.startswith("openai"):
        body = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-6.1-sol", "output": []}
    body["input_transformations"] = [reported, "nonsense"]
    reply = get_adapter(model).from_wire_response(
        WireResponse(200, json.dumps(body).encode()), RequestContext(model=model, session_id="s")
    )
    (change,) = read_message(write_message(reply)).metadata.input_transformations or ()
    assert (change.kind, change.reason, change.where) == expected
    assert expected[1] in caplog.text
