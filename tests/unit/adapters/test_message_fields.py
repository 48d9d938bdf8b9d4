"""Fields of native messages that no canonical field holds go back to their provider, and are a loss elsewhere."""

import json
from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.message import Message

CLAUDE = "anthropic:claude-opus-4-8"
BEDROCK = "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0"
TEXT = {"type": "text", "text": "And?"}
RULE = {
    "role": "system",
    "content": [{"type": "text", "text": "Be brief."}],
    "clear_at": "next_user_message",
    "output_config": {"effort": "low"},
}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}
MESSAGES: dict[str, Any] = {
    "max_tokens": 9,
    "messages": [
        {"role": "user", "content": "Hi", "x_text": 1},
        {"role": "assistant", "content": [CALL], "x_call": {"y": None}},
        {"role": "user", "content": [RESULT, TEXT], "x_result": True},
        RULE,
        {"role": "assistant", "content": [{**CALL, "id": "toolu_2"}]},
        {"role": "user", "content": [{**RESULT, "tool_use_id": "toolu_2"}, TEXT], "x_null": None},
    ],
}
CONVERSE_CALL = {"toolUse": {"toolUseId": "t1", "name": "f", "input": {}}, "x_block": 1}
CONVERSE_RESULT = {"toolResult": {"toolUseId": "t1", "content": [{"json": {}, "x_part": 2}]}, "x_block": 3}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "s"}}, "x_block": 4}
IMAGE = {"image": {"format": "png", "source": {"bytes": "YQ=="}, "x_inner": 5}, "x_block": 6}
CONVERSE: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": [{"text": "Hi", "x_block": 0}, IMAGE], "x_user": 1},
        {"role": "assistant", "content": [THOUGHT, CONVERSE_CALL], "x_call": 2},
        {"role": "user", "content": [CONVERSE_RESULT, {"text": "And?"}], "x_result": 3},
    ],
    "toolConfig": {"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}, "x_tool": 1}]},
}
BODIES = [
    (CLAUDE, {"model": "claude-opus-4-8", **MESSAGES}),
    ("bedrock:us.anthropic.claude-opus-4-8", {"anthropic_version": "bedrock-2023-05-31", **MESSAGES}),
    (BEDROCK, CONVERSE),
]


def send(messages: list[Message], model: str, **options: Any) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    wire = get_adapter(model).to_wire(messages, [], AdapterOptions(**options))
    return json.loads(wire.body), wire.losses


@pytest.mark.parametrize(("model", "body"), BODIES, ids=["anthropic", "invoke", "converse"])
def test_unknown_fields_go_back_in_their_place(model: str, body: dict[str, Any]) -> None:
    """Unknown fields go back in their place on messages, their blocks and tools, and without a loss."""
    adapter = get_adapter(model)
    messages, tools, options = adapter.from_wire_request(body, RequestContext.for_model(model))
    wire = adapter.to_wire(messages, tools, options)
    assert json.loads(wire.body) == body
    assert wire.losses == ()


def test_fields_of_a_message_are_a_loss_elsewhere() -> None:
    """Each message is named, and a field without a value is none."""
    history = get_adapter(CLAUDE).from_wire_request(MESSAGES, RequestContext.for_model(CLAUDE))[0]
    for model in ("openai:gpt-5.4", "ollama:qwen3", BEDROCK):
        body, losses = send(history, model)
        assert "clear_at" not in json.dumps(body)
        found = [loss for loss in losses if loss.kind is LossKind.FIELD]
        assert {loss.severity for loss in found} == {Severity.WARNING}
        assert [loss.reason.partition(" of a message means")[0] for loss in found] == [
            "x_text",
            "x_call",
            "x_result",
            "clear_at, output_config",
        ]
        assert found[-1].message_id == next(message.id for message in history if message.role == "system")


def test_each_of_bedrocks_forms_keeps_its_own_fields() -> None:
    """They are a loss in the other form, too."""
    history = get_adapter(BEDROCK).from_wire_request(BODIES[1][1], RequestContext.for_model(BEDROCK))[0]
    body, losses = send(history[:1], BEDROCK)
    assert body["messages"] == [{"role": "user", "content": [{"text": "Hi"}]}]
    (loss,) = losses
    assert loss.reason == "x_text of a message means nothing outside of its form of Bedrock's: left out"


def test_losses_of_fields_stay_while_a_history_grows() -> None:
    """Losses of fields stay while a history grows, also those of messages whose encoding is cached."""
    history = get_adapter(CLAUDE).from_wire_request(MESSAGES, RequestContext.for_model(CLAUDE))[0]
    context = RequestContext.for_model("openai:gpt-5.4")
    for _ in range(2):
        _, losses = send(history, "openai:gpt-5.4", context=context)
        assert sum(loss.kind is LossKind.FIELD for loss in losses) == 4


def test_fields_do_not_go_with_a_message_that_changes_its_place() -> None:
    """Claude 4.5 gets a late system message as the user's, and a second message of the assistant with the first."""
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9}
    again = {"role": "assistant", "content": [TEXT], "x_more": 1}
    history = [MESSAGES["messages"][0], RULE, *MESSAGES["messages"][1:2], again, MESSAGES["messages"][2]]
    adapter = get_adapter(BEDROCK)
    messages, _, options = adapter.from_wire_request({**body, "messages": history}, RequestContext.for_model(BEDROCK))
    wire = adapter.to_wire(messages, [], options)
    assert b"clear_at" not in wire.body
    assert b"x_more" not in wire.body
    assert [loss.reason for loss in wire.losses if loss.kind is LossKind.FIELD] == [
        "x_more of a message means nothing outside of a message of its own: left out",
        "clear_at, output_config of a message means nothing outside of the system role: left out",
    ]
