"""ComputerUse with OpenAI and Google: declared, called, answered with a screenshot, and streamed. The replies are
written by hand from the SDK's types."""

import json
from typing import Any

import pytest

from dragoman import AdapterOptions, ImageBlock, Message, RequestContext, TextBlock, ToolDefinition, get_adapter
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.blocks import MediaSource
from dragoman.canonical.events import MessageComplete, ToolUseEnd, ToolUseInputDelta, ToolUseStart
from dragoman.canonical.message import StopReason
from dragoman.errors import UnsupportedToolError
from dragoman.server_tools import ComputerUse
from tests.conformance.validators import sdk_types
from tests.unit.session.drivers import Driver

OPENAI, GEMINI = "openai:gpt-5.4", "google:gemini-3-flash-preview"
CLAUDE = "anthropic:claude-opus-5-5"
INTERACTIONS = "google-interactions:gemini-3-flash-preview"
COMPUTER = ComputerUse(function=print, environment="browser")
FUNCTION = ToolDefinition(name="note", description="Notes it.")
PICTURE = "iVBORw0KGgo="
SCREENSHOT = ImageBlock(source=MediaSource(kind="base64", data=PICTURE), media_type="image/png")
CHECKS = [{"id": "sc_1", "code": "malicious_instructions", "message": "Look."}]
CLICK = {"type": "click", "button": "left", "x": 1, "y": 2}
OPENAI_CALL = {
    "type": "computer_call", "id": "cu_1", "call_id": "call_1", "status": "completed", "actions": [CLICK],
    "pending_safety_checks": CHECKS,
}  # fmt: skip
DECISION = {"decision": "require_confirmation", "explanation": "It pays."}
PARTS: list[dict[str, Any]] = [
    {"functionCall": {"name": "click_at", "args": {"x": 5, "y": 6, "safety_decision": DECISION}},
     "thoughtSignature": "AAAA"},
    {"functionCall": {"name": "note", "args": {}}},
]  # fmt: skip


def body_of(wire: WireRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(wire.body)
    return found


def openai_reply(call: dict[str, Any]) -> bytes:
    return json.dumps(
        {"id": "r", "object": "response", "status": "completed", "model": "gpt-5.4", "output": [call]}
    ).encode()


def gemini_reply() -> bytes:
    candidate = {"content": {"role": "model", "parts": PARTS}, "finishReason": "STOP"}
    return json.dumps({"modelVersion": "gemini-3-flash-preview", "candidates": [candidate]}).encode()


def request_to(model: str, *tools: ToolDefinition) -> tuple[RequestContext, dict[str, Any]]:
    context = RequestContext.for_model(model)
    wire = get_adapter(model).to_wire([Message.user("Go.")], tools, AdapterOptions(context=context))
    return context, body_of(wire)


@pytest.mark.parametrize(
    ("model", "tool", "entry"),
    [
        (OPENAI, COMPUTER, {"type": "computer"}),
        ("azure-openai:gpt-5.4", COMPUTER, {"type": "computer"}),
        ("openai:computer-use-preview", ComputerUse(function=print, display=(8, 6), environment="browser"),
         {"type": "computer_use_preview", "environment": "browser", "display_width": 8, "display_height": 6}),
        (GEMINI, ComputerUse(function=print, environment="desktop", exclude=("navigate",)),
         {"computerUse": {"environment": "ENVIRONMENT_DESKTOP", "excludedPredefinedFunctions": ["navigate"]}}),
        ("google-vertex:gemini-2.5-computer-use-preview-10-2025", COMPUTER,
         {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}),
        (CLAUDE, ComputerUse(function=print, environment="desktop", exclude=("zoom",)),
         {"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}}),
        (INTERACTIONS, ComputerUse(function=print, environment="desktop", exclude=("navigate",)),
         {"type": "computer_use", "environment": "desktop", "excluded_predefined_functions": ["navigate"]}),
    ],
)  # fmt: skip
def test_the_tool_has_the_providers_form(model: str, tool: ComputerUse, entry: dict[str, Any]) -> None:
    _, body = request_to(model, tool)
    assert body["tools"] == [entry]
    assert body.get("truncation") == ("auto" if "preview" in model and "openai" in model else None)


@pytest.mark.parametrize(
    ("model", "tool"),
    [
        (OPENAI, ComputerUse(function=print, exclude=("navigate",))),
        ("openai:computer-use-preview", COMPUTER),
        ("google:gemini-2.5-flash", COMPUTER),
        ("google-interactions:gemini-2.5-flash", COMPUTER),
        ("openai-chat:gpt-4.1", COMPUTER),
    ],
)
def test_what_a_model_lacks_is_refused(model: str, tool: ComputerUse) -> None:
    """A setting that forbids something, a screen without its size, and a model without the tool."""
    with pytest.raises(UnsupportedToolError):
        request_to(model, tool)


def test_openai_calls_and_results() -> None:
    """The call goes back as it came; checks of a call that ran are acknowledged; a text follows as the user's."""
    adapter = get_adapter(OPENAI)
    context, _ = request_to(OPENAI, COMPUTER)
    reply = adapter.from_wire_response(WireResponse(200, openai_reply(OPENAI_CALL)), context)
    (call,) = reply.tool_uses
    assert (call.name, call.input) == ("computer", {"actions": [CLICK], "pending_safety_checks": CHECKS})
    assert reply.stop_reason is StopReason.TOOL_USE
    result = Message.tool(call.id, [SCREENSHOT, TextBlock(text="done")])
    options = AdapterOptions(context=context)
    body = body_of(adapter.to_wire([Message.user("Go."), reply, result], [COMPUTER], options))
    picture = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PICTURE}"}
    assert body["input"][1:] == [
        OPENAI_CALL,
        {"type": "computer_call_output", "call_id": "call_1", "output": picture, "acknowledged_safety_checks": CHECKS},
        {"role": "user", "content": "About the computer:\ndone"},
    ]
    assert list(sdk_types.faults("openai", body)) == []


@pytest.mark.parametrize("error", [True, False])
def test_a_result_without_a_picture_is_still_an_answer(error: bool) -> None:
    """A denied or interrupted call acknowledges nothing."""
    adapter = get_adapter(OPENAI)
    context, _ = request_to(OPENAI, COMPUTER)
    reply = adapter.from_wire_response(WireResponse(200, openai_reply(OPENAI_CALL)), context)
    answer = Message.tool(reply.tool_uses[0].id, "Denied.", is_error=True) if error else Message.user("Stop.")
    body = body_of(adapter.to_wire([Message.user("Go."), reply, answer], [COMPUTER], AdapterOptions(context=context)))
    output = body["input"][2]
    assert output["output"]["image_url"].startswith("data:image/png;base64,")
    assert "acknowledged_safety_checks" not in output
    assert body["input"][3]["content"].startswith("About the computer:\n")
    assert list(sdk_types.faults("openai", body)) == []


def test_the_single_action_of_the_preview_is_a_list_of_one() -> None:
    adapter = get_adapter("openai:computer-use-preview")
    context, _ = request_to("openai:computer-use-preview", ComputerUse(function=print, display=(8, 6)))
    call = {**OPENAI_CALL, "action": CLICK, "pending_safety_checks": []}
    del call["actions"]
    reply = adapter.from_wire_response(WireResponse(200, openai_reply(call)), context)
    assert reply.tool_uses[0].input == {"actions": [CLICK]}


@pytest.mark.parametrize("model", [GEMINI, "google-vertex:gemini-2.5-computer-use-preview-10-2025"])
def test_actions_of_gemini_are_calls_of_the_tool(model: str) -> None:
    """Declared functions stay what they are, parts go back as they came, and a confirmed action says so."""
    adapter = get_adapter(model)
    context, _ = request_to(model, COMPUTER, FUNCTION)
    reply = adapter.from_wire_response(WireResponse(200, gemini_reply()), context)
    action = {"action": "click_at", "x": 5, "y": 6, "safety_decision": DECISION}
    assert [(call.name, call.input) for call in reply.tool_uses] == [("computer", action), ("note", {})]
    results = [
        Message.tool(reply.tool_uses[0].id, [SCREENSHOT, TextBlock(text='{"url": "https://example.org"}')]),
        Message.tool(reply.tool_uses[1].id, "noted"),
    ]
    history = [Message.user("Go."), reply, *results]
    for tools in ([COMPUTER, FUNCTION], []):  # also if the tool is gone from the request
        body = body_of(adapter.to_wire(history, tools, AdapterOptions(context=context)))
        assert body["contents"][1]["parts"] == PARTS
        screen, noted = (part["functionResponse"] for part in body["contents"][2]["parts"])
        assert screen == {
            "name": "click_at",
            "response": {"url": "https://example.org", "safety_acknowledgement": "true"},
            "parts": [{"inlineData": {"mimeType": "image/png", "data": PICTURE}}],
        }
        assert noted == {"name": "note", "response": {"output": "noted"}}


CLICKED = {"action": "left_click", "coordinate": [5, 6]}
BLOCKS: list[dict[str, Any]] = [
    {"type": "tool_use", "id": "toolu_1", "name": "left_click", "toolset_name": "computer",
     "input": {"coordinate": [5, 6]}, "caller": {"type": "direct"}},
    {"type": "tool_use", "id": "toolu_2", "name": "wait", "input": {}},
    {"type": "tool_use", "id": "toolu_3", "name": "navigate", "toolset_name": "browser", "input": {"url": "x"}},
]  # fmt: skip
WAIT = ToolDefinition(name="wait", description="A function of the program, with the name of an action.")


def claude_reply() -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "model": "claude-opus-5-5", "content": BLOCKS,
            "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip


def test_calls_of_a_toolset_of_claude_are_calls_of_the_tool() -> None:
    """A function of the name of an action stays one; calls go back as they came, and results name the toolset."""
    adapter = get_adapter(CLAUDE)
    context, _ = request_to(CLAUDE, COMPUTER, WAIT)
    reply = adapter.from_wire_response(WireResponse(200, json.dumps(claude_reply()).encode()), context)
    assert [(call.name, call.input) for call in reply.tool_uses] == [
        ("computer", CLICKED), ("wait", {}), ("navigate", {"url": "x"})
    ]  # fmt: skip
    results = [Message.tool(call.id, [SCREENSHOT]) for call in reply.tool_uses]
    history = [Message.user("Go."), reply, *results, Message.user("Go on.")]
    for tools in ([COMPUTER, WAIT], []):  # also if the tool is gone from the request
        for _ in range(2):  # also from the cache of what was encoded before
            body = body_of(adapter.to_wire(history, tools, AdapterOptions(context=context)))
            assert body["messages"][1]["content"] == BLOCKS
            answers = body["messages"][2]["content"]
            assert [answer.get("toolset_name") for answer in answers] == ["computer", None, "browser"]
            assert list(sdk_types.faults("anthropic", body)) == []
    elsewhere = body_of(get_adapter(OPENAI).to_wire(history, [], AdapterOptions()))
    assert "computer" in [item["name"] for item in elsewhere["input"] if item.get("type") == "function_call"]


def test_calls_of_a_toolset_of_claude_stream_as_calls_of_the_tool() -> None:
    adapter = get_adapter(CLAUDE)
    context, _ = request_to(CLAUDE, COMPUTER, WAIT)
    frames: list[dict[str, Any]] = [{"type": "message_start", "message": {**claude_reply(), "content": []}}]
    for index, block in enumerate(BLOCKS):
        frames += [
            {"type": "content_block_start", "index": index, "content_block": {**block, "input": {}}},
            *({"type": "content_block_delta", "index": index,
               "delta": {"type": "input_json_delta", "partial_json": piece}} for piece in json.dumps(block["input"])),
            {"type": "content_block_stop", "index": index},
        ]  # fmt: skip
    frames += [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
    body = b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in frames)
    events = list(adapter.iter_stream([body], context))
    assert [event.tool_name for event in events if isinstance(event, ToolUseStart)] == ["computer", "wait", "navigate"]
    (started, *_) = [event for event in events if isinstance(event, ToolUseStart)]
    pieces = [event for event in events if isinstance(event, ToolUseInputDelta)]
    joined = "".join(event.partial_json for event in pieces if event.tool_use_id == started.tool_use_id)
    assert json.loads(joined) == CLICKED
    assert isinstance(events[-1], MessageComplete)
    assert events[-1].message.tool_uses[0].input == CLICKED


def test_an_action_that_did_not_run_is_not_confirmed() -> None:
    adapter = get_adapter(GEMINI)
    context, _ = request_to(GEMINI, COMPUTER, FUNCTION)
    reply = adapter.from_wire_response(WireResponse(200, gemini_reply()), context)
    denied = Message.tool(reply.tool_uses[0].id, "Denied.", is_error=True)
    body = body_of(adapter.to_wire([Message.user("Go."), reply, denied], [COMPUTER], AdapterOptions(context=context)))
    assert body["contents"][2]["parts"][0]["functionResponse"]["response"] == {"error": "Denied."}


STEPS: list[dict[str, Any]] = [
    {"type": "function_call", "id": "c1", "name": "click_at", "signature": "AAAA",
     "arguments": {"x": 5, "y": 6, "safety_decision": DECISION}},
    {"type": "function_call", "id": "c2", "name": "note", "arguments": {}},
]  # fmt: skip
ACTION = {"action": "click_at", "x": 5, "y": 6, "safety_decision": DECISION}


def interaction() -> bytes:
    return json.dumps({"id": "v1_1", "status": "requires_action", "model": "gemini-3-flash-preview",
                       "steps": STEPS}).encode()  # fmt: skip


@pytest.mark.parametrize("state", [None, True])
def test_actions_of_an_interaction_are_calls_of_the_tool(state: bool | None) -> None:
    """Results are lists of an object as text and the screenshot, also after a stored reply."""
    adapter, context = get_adapter(INTERACTIONS), RequestContext.for_model(INTERACTIONS)
    options = AdapterOptions(context=context, server_state=state)
    adapter.to_wire([Message.user("Go.")], [COMPUTER, FUNCTION], options)
    reply = adapter.from_wire_response(WireResponse(200, interaction()), context)
    assert [(call.name, call.input) for call in reply.tool_uses] == [("computer", ACTION), ("note", {})]
    results = [
        Message.tool(reply.tool_uses[0].id, [SCREENSHOT, TextBlock(text='{"url": "https://example.org"}')]),
        Message.tool(reply.tool_uses[1].id, "noted"),
    ]
    body = body_of(adapter.to_wire([Message.user("Go."), reply, *results], [COMPUTER, FUNCTION], options))
    sent = body["input"] if state else body["input"][3:]
    assert state or body["input"][1:3] == STEPS
    assert body.get("previous_interaction_id") == ("v1_1" if state else None)
    screen, noted = sent
    assert (screen["name"], screen["call_id"]) == ("click_at", "c1")
    assert json.loads(screen["result"][0].pop("text")) == {"url": "https://example.org", "safety_acknowledgement": True}
    assert screen["result"] == [{"type": "text"}, {"type": "image", "data": PICTURE, "mime_type": "image/png"}]
    assert noted == {"type": "function_result", "call_id": "c2", "name": "note", "result": "noted"}
    denied = Message.tool(reply.tool_uses[0].id, "Denied.", is_error=True)
    body = body_of(adapter.to_wire([Message.user("Go."), reply, denied], [COMPUTER], AdapterOptions(context=context)))
    assert (body["input"][3]["result"], body["input"][3]["is_error"]) == ("Denied.", True)


def test_actions_of_an_interaction_stream_as_calls_of_the_tool() -> None:
    adapter = get_adapter(INTERACTIONS)
    context, _ = request_to(INTERACTIONS, COMPUTER, FUNCTION)
    frames: list[dict[str, Any]] = [{"event_type": "interaction.created", "interaction": {"id": "v1_1"}}]
    for index, step in enumerate(STEPS):
        frames += [
            {"event_type": "step.start", "index": index, "step": {**step, "arguments": {}}},
            {"event_type": "step.delta", "index": index,
             "delta": {"type": "arguments_delta", "arguments": json.dumps(step["arguments"])}},
            {"event_type": "step.stop", "index": index},
        ]  # fmt: skip
    frames.append({"event_type": "interaction.completed", "interaction": {"id": "v1_1", "status": "requires_action"}})
    events = list(adapter.iter_stream([b"data: " + json.dumps(each).encode() + b"\n\n" for each in frames], context))
    assert [event.tool_name for event in events if isinstance(event, ToolUseStart)] == ["computer", "note"]
    assert [event.final_input for event in events if isinstance(event, ToolUseEnd)] == [ACTION, {}]
    assert isinstance(events[-1], MessageComplete)
    assert events[-1].message.tool_uses[0].input == ACTION


def test_actions_stream_as_calls_of_the_tool() -> None:
    adapter = get_adapter(GEMINI)
    context, _ = request_to(GEMINI, COMPUTER, FUNCTION)
    events = list(adapter.iter_stream([b"data: " + gemini_reply() + b"\n\n"], context))
    assert [event.tool_name for event in events if isinstance(event, ToolUseStart)] == ["computer", "note"]
    (first, _), (last, _) = (
        [event for event in events if isinstance(event, kind)] for kind in (ToolUseInputDelta, ToolUseEnd)
    )
    assert isinstance(last, ToolUseEnd)
    assert json.loads(first.partial_json) == last.final_input  # type: ignore[union-attr]  # the first kind has it
    assert isinstance(events[-1], MessageComplete)
    assert events[-1].message.tool_uses[0].input == last.final_input


def test_without_the_tool_every_call_keeps_its_name() -> None:
    context, _ = request_to(GEMINI, FUNCTION)
    reply = get_adapter(GEMINI).from_wire_response(WireResponse(200, gemini_reply()), context)
    assert [call.name for call in reply.tool_uses] == ["click_at", "note"]


def test_a_session_runs_the_loop(driver: Driver) -> None:
    """The function gets the actions, and its screenshot goes back."""
    import httpx

    seen: list[dict[str, Any]] = []
    bodies: list[dict[str, Any]] = []
    done = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Bought.", "annotations": []}]}  # fmt: skip

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(200, content=openai_reply(OPENAI_CALL if len(bodies) == 1 else done))

    def control(actions: list[dict[str, Any]], pending_safety_checks: list[dict[str, Any]]) -> list[Any]:
        seen.extend(actions)
        return [SCREENSHOT]

    session = driver.session({"openai": answer}, OPENAI, tools=[ComputerUse(function=control)])
    assert driver.ask(session, "Buy milk.").text == "Bought."
    assert seen == [CLICK]
    assert [item.get("type") for item in bodies[1]["input"][1:]] == ["computer_call", "computer_call_output"]
