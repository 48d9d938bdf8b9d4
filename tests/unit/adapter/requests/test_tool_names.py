"""Names of tools that a wire refuses: sent under another one, and read back under their own."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import AdapterOptions, Message, RequestContext, ToolDefinition, ToolUseBlock, WireResponse, get_adapter
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.facts.capabilities import ToolNameRule
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.registry import adapter_class, providers
from dragoman.canonical.events import MessageComplete, ToolUseStart

MODEL = "anthropic:claude-sonnet-4-6"
ODD = "repo.read/file"
RULES = {
    provider: get_adapter(f"{provider}:{(adapter_class(provider).listed_models or ('m',))[0]}").capabilities
    for provider in providers()
}


@pytest.mark.parametrize("provider", list(RULES))
@given(names=st.lists(st.text(max_size=300), unique=True))
def test_every_name_becomes_a_unique_legal_one(provider: str, names: list[str]) -> None:
    """Legal names stay, others become distinct, and every new name is legal."""
    rule = RULES[provider].tool_name_rule
    legal = [rule.make_legal(name) for name in names]
    assert all(map(rule.accepts, legal))
    assert len(set(legal)) == len(names)
    assert [rule.make_legal(name) for name in legal] == legal
    assert all(name == its for name, its in zip(names, legal, strict=True) if rule.accepts(name))


def test_a_generated_name_depends_on_the_name_only() -> None:
    assert ToolNameRule().make_legal(ODD) == "repo_read_file_5b37f167"
    assert ToolNameRule().make_legal("9 lives").startswith("t_9_lives_")
    assert len(ToolNameRule().make_legal("x" * 300)) <= 64


def call_of(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": {"path": "a"}}


def handwritten_reply(name: str) -> bytes:
    native = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6"}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return json.dumps({**native, "content": [call_of(name)], "stop_reason": "tool_use", "usage": usage}).encode()


def test_a_tool_keeps_its_canonical_name() -> None:
    """The wire has the generated name everywhere; the message has the canonical one, and the next request agrees."""
    tools = [ToolDefinition(name=ODD), ToolDefinition(name="plain")]
    context = RequestContext(model=MODEL, session_id="s")
    adapter = get_adapter(MODEL)
    question = [Message.user("Read a")]
    wire = adapter.to_wire(question, tools, AdapterOptions(tool_choice=NamedTool(ODD), context=context))
    body = json.loads(wire.body)
    legal = body["tools"][0]["name"]
    assert [tool["name"] for tool in body["tools"]] == [legal, "plain"]
    assert body["tool_choice"]["name"] == legal
    assert [(loss.kind, loss.severity) for loss in wire.losses] == [(LossKind.TOOLS, Severity.INFO)]

    reply = adapter.from_wire_response(WireResponse(200, handwritten_reply(legal)), context)
    (call,) = reply.tool_uses
    assert call.name == ODD
    history = [*question, reply, Message.tool(call.id, "text of a")]
    again = json.loads(adapter.to_wire(history, tools, AdapterOptions(context=context)).body)
    assert again["messages"][1]["content"] == [call_of(legal)]


def test_a_stream_reports_the_canonical_name() -> None:
    context = RequestContext(model=MODEL, session_id="s")
    adapter = get_adapter(MODEL)
    wire = adapter.to_wire([Message.user("Read")], [ToolDefinition(name=ODD)], AdapterOptions(context=context))
    legal = json.loads(wire.body)["tools"][0]["name"]
    native = json.loads(handwritten_reply(legal))
    events = [
        {"type": "message_start", "message": {**native, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {**call_of(legal), "input": {}}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    body = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)
    received = list(adapter.iter_stream([body], context))
    assert [event.tool_name for event in received if isinstance(event, ToolUseStart)] == [ODD]
    assert isinstance(received[-1], MessageComplete)
    assert [call.name for call in received[-1].message.tool_uses] == [ODD]


@pytest.mark.parametrize(
    "model", ["openai:gpt-6.1-sol", "mistral:mistral-large-latest", "bedrock:us.amazon.nova-lite-v1:0"]
)
def test_calls_of_another_provider_get_legal_names(model: str) -> None:
    """Calls of another provider get legal names, also in a history whose tools no longer exist."""
    call = ToolUseBlock(id="tu_1", name=ODD, input={})
    history = [Message.user("Go"), Message.assistant([call]), Message.tool("tu_1", "done"), Message.user("And?")]
    wire = get_adapter(model).to_wire(history, [], AdapterOptions())
    assert ODD.encode() not in wire.body
    assert b"repo_read_file_" in wire.body


def test_an_impossible_rule_is_refused() -> None:
    """No name could satisfy it."""
    with pytest.raises(ValueError, match="leaves no room"):
        ToolNameRule(max_length=9)
