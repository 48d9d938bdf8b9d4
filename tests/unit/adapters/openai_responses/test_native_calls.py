"""OpenAI's shell, apply_patch and custom tools, run by functions of the program."""

import json
from typing import Any

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.events import MessageComplete, ToolUseEnd, ToolUseStart
from dragoman.canonical.message import StopReason
from dragoman.server_tools import ApplyPatch, CustomTool, Shell
from tests.conformance.validators import sdk_types

MODEL = "openai:gpt-5.4"
ADAPTER = get_adapter(MODEL)
TOOLS = (Shell(function=print), ApplyPatch(function=print), CustomTool(function=print, name="sql"))
CALLS: list[dict[str, Any]] = [
    {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "completed",
     "action": {"commands": ["ls", "pwd"], "timeout_ms": 1000, "max_output_length": None},
     "environment": {"type": "local"}},
    {"type": "apply_patch_call", "id": "apc_1", "call_id": "call_2", "status": "completed",
     "operation": {"type": "delete_file", "path": "a.txt"}},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_3", "name": "sql", "input": "select 1"},
]  # fmt: skip
REPLY = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5.4", "output": CALLS}


def context() -> RequestContext:
    """Return a context that has seen a request with the tools."""
    found = RequestContext.for_model(MODEL)
    ADAPTER.to_wire([Message.user("Hi")], TOOLS, AdapterOptions(context=found))
    return found


def test_calls_are_calls_and_results_have_their_own_items() -> None:
    """The arguments are those of the functions; items of calls go back as they came, and the SDK's types accept all."""
    seen = context()
    reply = ADAPTER.from_wire_response(WireResponse(200, json.dumps(REPLY).encode()), seen)
    assert reply.stop_reason is StopReason.TOOL_USE
    assert [(call.name, call.input) for call in reply.tool_uses] == [
        ("shell", {"commands": ["ls", "pwd"], "timeout_ms": 1000}),
        ("apply_patch", {"operation": {"type": "delete_file", "path": "a.txt"}}),
        ("sql", {"input": "select 1"}),
    ]
    outputs = json.dumps([{"stdout": "a", "exit_code": 0}, {"stdout": "", "stderr": "no", "exit_code": 2}])
    results = [
        Message.tool(call.id, text, is_error=error)
        for call, text, error in zip(reply.tool_uses, (outputs, "gone", "1"), (False, True, False), strict=True)
    ]
    wire = ADAPTER.to_wire([Message.user("Hi"), reply, *results], TOOLS, AdapterOptions(context=seen))
    body = json.loads(wire.body)
    assert body["input"][1:4] == CALLS
    assert body["input"][4:] == [
        {"type": "shell_call_output", "call_id": "call_1", "output": [
            {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 2}}]},
        {"type": "apply_patch_call_output", "call_id": "call_2", "status": "failed", "output": "gone"},
        {"type": "custom_tool_call_output", "call_id": "call_3", "output": "1"},
    ]  # fmt: skip
    assert wire.losses == ()
    assert list(sdk_types.faults("openai", body)) == []


def test_a_call_without_a_result_is_answered_as_interrupted() -> None:
    """The conversation goes on after a turn that was cut."""
    seen = context()
    reply = ADAPTER.from_wire_response(WireResponse(200, json.dumps(REPLY).encode()), seen)
    wire = ADAPTER.to_wire([Message.user("Hi"), reply, Message.user("Go on.")], TOOLS, AdapterOptions(context=seen))
    body = json.loads(wire.body)
    assert [item["type"] for item in body["input"][4:7]] == [
        "shell_call_output", "apply_patch_call_output", "custom_tool_call_output",
    ]  # fmt: skip
    assert [loss.kind for loss in wire.losses] == ["interrupted_call"] * 3
    assert list(sdk_types.faults("openai", body)) == []


def test_a_stream_tells_of_the_calls() -> None:
    """Each begins and ends in the events."""
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**REPLY, "status": "in_progress", "output": []}}
    ]
    for index, item in enumerate(CALLS):
        events += [
            {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress"}},
            {"type": "response.output_item.done", "output_index": index, "item": item},
        ]
    events.append({"type": "response.completed", "response": REPLY})
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    found = list(ADAPTER.iter_stream([data], context()))
    assert [event.tool_name for event in found if isinstance(event, ToolUseStart)] == ["shell", "apply_patch", "sql"]
    ends = [(event.tool_use_id, event.final_input) for event in found if isinstance(event, ToolUseEnd)]
    last = found[-1]
    assert isinstance(last, MessageComplete)
    assert ends == [(call.id, call.input) for call in last.message.tool_uses]


def test_items_of_tools_that_were_not_declared_stay_native() -> None:
    """A custom_tool_call may be the provider's own, and is not run."""
    reply = ADAPTER.from_wire_response(WireResponse(200, json.dumps(REPLY).encode()), RequestContext.for_model(MODEL))
    assert reply.tool_uses == ()
    assert [block.type for block in reply.content] == ["provider"] * 3
