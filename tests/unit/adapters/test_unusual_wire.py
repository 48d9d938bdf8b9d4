"""Handwritten cases that recordings rarely have: each adapter decodes or refuses them as its page says."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import MalformedReplyError, RequestError
from dragoman.adapter.losses import LossKind
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import ErrorEvent, StreamEvent, ThinkingDelta
from dragoman.canonical.message import Message

RESPONSES = "openai:gpt-6.1-sol"
INTERACTIONS = "google-interactions:gemini-3-pro"


def sse(events: Iterable[Mapping[str, Any]], kind: str = "type") -> bytes:
    return "".join(f"event: {event[kind]}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def read_stream(model: str, events: Iterable[Mapping[str, Any]], kind: str = "type") -> list[StreamEvent]:
    return list(get_adapter(model).iter_stream([sse(events, kind)], RequestContext.for_model(model)))


@pytest.mark.parametrize("model", ["anthropic:claude-opus-5-5", INTERACTIONS, "ollama:qwen3"])
def test_an_unknown_effort_is_a_loss(model: str) -> None:
    """A level that the provider does not have is a loss and not sent."""
    wire = get_adapter(model).to_wire([Message.user("Hi")], [], AdapterOptions(effort="boundless"))
    (loss,) = wire.losses
    assert loss.kind is LossKind.OPTION
    assert "'boundless' is not a level" in loss.reason
    assert b"boundless" not in wire.body


def test_anthropic_thinking_may_come_with_its_start() -> None:
    """Text of a thinking block that its start already holds is a delta."""
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    events = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "Hm."}},
    ]
    found = read_stream("anthropic:claude-opus-5-5", events)
    assert [event.text for event in found if isinstance(event, ThinkingDelta)] == ["Hm."]


def test_bedrock_refuses_a_model_name_that_no_path_can_hold() -> None:
    """A lone surrogate in the name of the model is a typed error before anything is sent."""
    adapter = type(get_adapter("bedrock:anthropic.claude"))("anthropic.\udc80")
    with pytest.raises(RequestError, match="lone surrogate"):
        adapter.to_wire([Message.user("Hi")], [], AdapterOptions(max_output_tokens=5))


def test_cohere_without_a_finish_reason_has_no_stop_reason() -> None:
    """A reply that does not say why it ended has the stop reason None."""
    body = {"id": "1", "message": {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}, "usage": {}}
    adapter = get_adapter("cohere:command-a-03-2025")
    reply = adapter.from_wire_response(
        WireResponse(status=200, body=json.dumps(body).encode()), RequestContext.for_model("cohere:command-a-03-2025")
    )
    assert (reply.text, reply.stop_reason) == ("Hi", None)


def ends_in_an_error(events: list[StreamEvent]) -> bool:
    return isinstance(events[-1], ErrorEvent) and isinstance(events[-1].error, MalformedReplyError)


@pytest.mark.parametrize("delta", [{"type": "text", "text": 5}, {"type": "thought_summary", "content": None}])
def test_interactions_deltas_of_another_shape(delta: dict[str, Any]) -> None:
    """A delta whose text is not text is a malformed reply; an empty summary adds nothing."""
    kind = "model_output" if delta["type"] == "text" else "thought"
    step: dict[str, Any] = {"type": kind}
    if kind == "model_output":
        step["content"] = [{"type": "text", "text": ""}]
    events = [
        {"event_type": "interaction.created", "interaction": {"id": "i1", "status": "in_progress"}},
        {"event_type": "step.start", "index": 0, "step": step},
        {"event_type": "step.delta", "index": 0, "delta": delta},
    ]
    found = read_stream(INTERACTIONS, events, "event_type")
    assert ends_in_an_error(found) == (kind == "model_output")
    assert not [event for event in found if isinstance(event, ThinkingDelta)]


def response_events(item: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    created = {"id": "resp_1", "object": "response", "status": "in_progress", "model": "m", "output": []}
    return [
        {"type": "response.created", "response": created},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({"output_index": 0, "item_id": item["id"], **delta} for delta in deltas),
    ]


def test_responses_deltas_of_another_shape() -> None:
    """A delta that is not text is a malformed reply; an empty delta of arguments is not an event."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": ""}
    kind = "response.function_call_arguments.delta"
    assert ends_in_an_error(read_stream(RESPONSES, response_events(call, {"type": kind, "delta": 5})))
    without = read_stream(RESPONSES, response_events(call))
    with_empty = read_stream(RESPONSES, response_events(call, {"type": kind, "delta": ""}))
    assert [event.type for event in with_empty] == [event.type for event in without]


def test_responses_calls_lose_their_id_with_their_reasoning() -> None:
    """An item or call after reasoning that is not sent loses its id."""
    adapter, context = get_adapter(RESPONSES), RequestContext.for_model(RESPONSES)
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
    ]
    body = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": output, "usage": None}
    reply = adapter.from_wire_response(WireResponse(status=200, body=json.dumps(body).encode()), context)
    kept = tuple(block for block in reply.content if not isinstance(block, ThinkingBlock) and block.type != "provider")
    call = next(block for block in kept if isinstance(block, ToolUseBlock))
    changed = reply.model_copy(update={"content": kept})
    history = [Message.user("Look."), changed, Message.tool(call.id, "blue")]
    wire = adapter.to_wire(history, [], AdapterOptions(context=context))
    assert b"fc_1" not in wire.body
    assert b"call_1" in wire.body


def test_responses_calls_lose_their_id_if_their_reasoning_was_not_stored() -> None:
    """Such reasoning cannot be sent, and an id would require it: the call is plain content."""
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"},
    ]
    body = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "store": False, "output": output}
    adapter, context = get_adapter(RESPONSES), RequestContext.for_model(RESPONSES)
    called = adapter.from_wire_response(WireResponse(status=200, body=json.dumps(body).encode()), context)
    history = [Message.user("Look."), called, Message.tool(called.tool_uses[0].id, "done")]
    wire = adapter.to_wire(history, [], AdapterOptions(context=context))
    _, call, _ = json.loads(wire.body)["input"]
    assert call == {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
    assert any("nor the provider's store holds" in loss.reason for loss in wire.losses)
