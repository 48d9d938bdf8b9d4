"""Tools of clients that only the Responses API has: namespaces of functions, and tools with free text as input."""

import json
from typing import Any

from dragoman import Message, RequestContext, ToolUseBlock, get_adapter
from dragoman.answers import ClientToolIds
from dragoman.canonical.events import MessageComplete, MessageStart, StreamEvent, ToolUseEnd, ToolUseStart
from dragoman.messages import MessageMetadata
from tests.conformance.validators import sdk_types

BEHIND = "mistral:mistral-large-latest"
PATCH = '*** Begin Patch\n*** Add File: ü.txt\n+"x"\n*** End Patch'
SPAWN = {"type": "object", "properties": {"task": {"type": "string"}}}
BODY: dict[str, Any] = {
    "model": "client",
    "input": [
        {"role": "user", "content": "Go"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "apply_patch", "input": PATCH},
        {"type": "function_call", "id": "fc_2", "call_id": "call_2", "namespace": "agents", "name": "spawn",
         "arguments": '{"task":"a"}'},
        {"type": "custom_tool_call_output", "id": "ctco_1", "call_id": "call_1", "output": "done"},
        {"type": "function_call_output", "call_id": "call_2", "output": "started"},
    ],
    "tools": [
        {"type": "custom", "name": "apply_patch", "description": "Patches files",
         "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
        {"type": "namespace", "name": "agents", "description": "Agents", "tools": [
            {"type": "function", "name": "spawn", "description": "Starts", "parameters": SPAWN, "strict": False},
            {"type": "custom", "name": "tell", "description": "Tells"}]},
        {"type": "function", "name": "spawn", "description": "Another", "parameters": SPAWN, "strict": False},
    ],
}  # fmt: skip


def read(model: str = BEHIND) -> tuple[RequestContext, list[Message], Any, dict[str, Any], tuple[Any, ...]]:
    context = RequestContext.for_model(model, tool_ids=ClientToolIds(), prices=None)
    messages, tools, options = get_adapter("openai:client").from_wire_request(json.dumps(BODY), context)
    sent = get_adapter(model).to_wire(messages, tools, options)
    return context, messages, tools, json.loads(sent.body), sent.losses


def test_another_provider_gets_functions() -> None:
    """A tool with a grammar takes one text, and a function of a namespace has both names; the grammar is a loss."""
    _, _, _, body, losses = read()
    functions = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
    assert list(functions) == ["apply_patch", "agents__spawn", "agents__tell", "spawn"]
    assert "start: x" in functions["apply_patch"]["description"]
    assert functions["apply_patch"]["parameters"]["required"] == ["input"]
    calls = [call["function"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    assert [(call["name"], json.loads(call["arguments"])) for call in calls] == [
        ("apply_patch", {"input": PATCH}),
        ("agents__spawn", {"task": "a"}),
    ]
    assert [message["content"] for message in body["messages"] if message["role"] == "tool"] == ["done", "started"]
    assert [loss.reason for loss in losses] == [
        "the tool apply_patch: mistral-large-latest is not held to its grammar: the description says it"
    ]


def test_the_provider_itself_gets_the_request_as_it_came() -> None:
    _, _, _, body, losses = read("openai:gpt-5.4")
    assert body["input"] == BODY["input"]
    assert body["tools"] == BODY["tools"]
    assert losses == ()
    assert list(sdk_types.faults("openai", body)) == []


def test_a_call_is_the_item_that_the_client_declared() -> None:
    """Whole and streamed alike: the raw text of a patch, byte for byte, and the two names of a function."""
    context, *_ = read()
    adapter = get_adapter("openai:client")
    calls = [
        ToolUseBlock(id="tu_01K0000000000000000000000A", name="apply_patch", input={"input": PATCH}),
        ToolUseBlock(id="tu_01K0000000000000000000000B", name="agents__spawn", input={"task": "b"}),
        ToolUseBlock(id="tu_01K0000000000000000000000C", name="spawn", input={"task": "c"}),
    ]
    reply = Message.assistant(calls, metadata=MessageMetadata(model=BEHIND, provider="mistral"))
    whole = json.loads(adapter.to_wire_response(reply, context).body)["output"]
    events: list[StreamEvent] = [MessageStart(reply.id, "m")]
    for index, call in enumerate(calls):
        events += [
            ToolUseStart(reply.id, index, call.id, call.name),
            ToolUseEnd(reply.id, index, call.id, call.input),
        ]
    frames = b"".join(adapter.iter_encoded([*events, MessageComplete(reply)], context)).decode().split("\n\n")
    sent = [json.loads(frame.partition("data: ")[2]) for frame in frames if frame]
    assert sent[-1]["response"]["output"] == whole
    names = [(item["type"], item.get("namespace"), item["name"], item.get("input")) for item in whole]
    assert names == [
        ("custom_tool_call", None, "apply_patch", PATCH),
        ("function_call", "agents", "spawn", None),
        ("function_call", None, "spawn", None),
    ]
    deltas = [each["delta"] for each in sent if each["type"] == "response.custom_tool_call_input.delta"]
    assert deltas == [PATCH]
