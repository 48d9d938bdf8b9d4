"""Native calls without a result, and what goes on after a reply that paused (docs/server-tools.md#pauses)."""

import json
from datetime import UTC, datetime
from typing import Any

from dragoman import Adapter, AdapterOptions, Message, RequestContext, get_adapter
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.server_tools.native_calls import is_paused
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import ProviderBlock, TextBlock
from dragoman.canonical.message import MessageMetadata, StopReason
from dragoman.server_tools import CodeExecution, WebSearch
from tests.conformance.validators import sdk_types
from tests.unit.adapter.server_tools.wire import CLAUDE, GPT

CALL = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
NESTED = {**CALL, "id": "srvtoolu_2", "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}}
NESTED_RESULT = {**RESULT, "tool_use_id": "srvtoolu_2", "caller": NESTED["caller"]}


def native(provider: str, *items: dict[str, Any], stop: StopReason | None = None) -> Message:
    """Return the assistant's message with these native items and a word before them."""
    blocks = [ProviderBlock(provider=provider, kind=item["type"], data=item) for item in items]
    metadata = MessageMetadata(
        provider=provider, stop_reason=stop, provider_raw={"by": provider, "items": {"0": {"string": True}}}
    )
    return Message.assistant((TextBlock(text="So."), *blocks), metadata=metadata)


def send(model: str, *history: Message, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the body and the kinds of the losses."""
    wire = get_adapter(model).to_wire(history, [], AdapterOptions(**options))
    return json.loads(wire.body), [loss.kind for loss in wire.losses]


HI, MORE = Message.user("Hi"), Message.user("More.")


def test_an_open_call_is_left_out_if_anything_but_results_follows() -> None:
    """It was cut: the API would refuse the user's next words."""
    body, losses = send(CLAUDE, HI, native("anthropic", CALL), MORE)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "So."}]
    assert losses == ["interrupted_call"]


def test_an_open_call_at_the_end_stays() -> None:
    """The provider goes on with it, and nothing is added after it."""
    body, losses = send(CLAUDE, HI, native("anthropic", CALL, stop=StopReason.PAUSE))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"]
    assert body["messages"][1]["content"][1] == CALL
    assert losses == []


def test_a_pair_may_span_messages() -> None:
    """A turn ended with the open call, and the next reply began with its result (recorded)."""
    history = (HI, native("anthropic", CALL), Message.user("Result"), native("anthropic", RESULT), MORE)
    body, losses = send(CLAUDE, *history)
    assert (body["messages"][1]["content"][1], losses) == (CALL, [])


def test_a_result_that_names_no_call_belongs_to_the_call_before_it() -> None:
    """Proxies and recorders rewrite ids, and not all alike. A result that stands elsewhere answers nothing."""
    renamed = {**RESULT, "tool_use_id": "rewritten"}
    body, losses = send(CLAUDE, HI, native("anthropic", CALL, renamed), MORE)
    assert (body["messages"][1]["content"][1:], losses) == ([CALL, renamed], [])
    other = {**CALL, "id": "srvtoolu_3"}
    answer = {**RESULT, "tool_use_id": "srvtoolu_3"}
    _, losses = send(CLAUDE, HI, native("anthropic", CALL, other, answer, renamed), MORE)
    assert losses == ["interrupted_call"]


def test_a_reply_whose_open_call_was_left_out_is_not_paused() -> None:
    """There is nothing to go on with."""
    table = get_adapter(CLAUDE).server_tools
    paused = Turn.of(native("anthropic", CALL, stop=StopReason.PAUSE))
    left_out = paused.map_blocks(lambda block, _: () if isinstance(block, ProviderBlock) else (block,))
    assert is_paused(paused, table, "anthropic")
    assert not is_paused(left_out, table, "anthropic")
    assert is_paused(Turn.of(native("anthropic", CALL, RESULT, stop=StopReason.PAUSE)), table, "anthropic")
    assert not is_paused(Turn.of(native("anthropic", stop=StopReason.PAUSE)), table, "anthropic")


def test_what_was_called_from_inside_goes_with_its_caller() -> None:
    """Pairs are nested: the inner one names the outer call."""
    body, losses = send(CLAUDE, HI, native("anthropic", CALL, NESTED, NESTED_RESULT), MORE)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "So."}]
    assert losses == ["interrupted_call"] * 3


def test_open_client_calls_are_answered_as_interrupted() -> None:
    """One item for each call; a computer's answer needs a picture, so that call is left out."""
    calls: list[dict[str, Any]] = [
        {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "x"},
        {"type": "apply_patch_call", "call_id": "c2", "status": "completed",
         "operation": {"type": "delete_file", "path": "a"}},
        {"type": "shell_call", "call_id": "c3", "action": {"commands": ["ls"]}},
        {"type": "computer_call", "id": "cc", "call_id": "c4", "status": "completed", "pending_safety_checks": []},
    ]  # fmt: skip
    body, losses = send(GPT, HI, native("openai", *calls), MORE)
    assert [(item["type"], item["call_id"]) for item in body["input"] if "call_id" in item][3:] == [
        ("custom_tool_call_output", "c1"), ("apply_patch_call_output", "c2"), ("shell_call_output", "c3"),
    ]  # fmt: skip
    assert losses == ["interrupted_call"] * 4
    assert list(sdk_types.faults("openai", body)) == []


def test_answered_calls_stay_as_they_are() -> None:
    """A hosted shell answers in the same reply, the program in the next message."""
    call = {"type": "shell_call", "call_id": "c3", "action": {"commands": ["ls"]}}
    answer = {"type": "shell_call_output", "call_id": "c3", "output": []}
    body, losses = send(GPT, HI, native("openai", call, answer), MORE)
    assert ([item.get("type") for item in body["input"][2:4]], losses) == (["shell_call", "shell_call_output"], [])


def test_the_cached_prefix_holds_no_open_call() -> None:
    """What becomes of it depends on what follows: both requests of one session are the same as fresh ones."""
    adapter = get_adapter(CLAUDE)
    history = [HI, native("anthropic", CALL), MORE, Message.assistant("Yes."), Message.user("And?")]
    context = RequestContext.for_model(CLAUDE)
    for count in (1, 2, 3, 5):
        cached = adapter.to_wire(history[:count], [], AdapterOptions(context=context)).body
        assert cached == adapter.to_wire(history[:count], [], AdapterOptions()).body


def _reply_with_container(adapter: Adapter, context: RequestContext, expires: str) -> Message:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Ran."}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "container": {"id": "container_1", "expires_at": expires},
    }
    return adapter.from_wire_response(WireResponse(200, json.dumps(body).encode()), context)


def test_a_container_is_carried_on_while_it_lives() -> None:
    """Only with a tool that runs in it; an expired one is named as lost."""
    adapter = get_adapter(CLAUDE)
    context = RequestContext.for_model(CLAUDE, clock=lambda: datetime(2026, 11, 1, tzinfo=UTC))
    options = AdapterOptions(context=context)
    reply = _reply_with_container(adapter, context, "2026-11-01T00:10:00Z")
    for tools, expected in (([CodeExecution()], "container_1"), ([WebSearch()], None), ([], None)):
        wire = adapter.to_wire([HI, reply, MORE], tools, options)
        assert (json.loads(wire.body).get("container"), wire.losses) == (expected, ())
    expired = _reply_with_container(adapter, context, "2026-10-31T23:59:00Z")
    wire = adapter.to_wire([HI, expired, MORE], [CodeExecution()], AdapterOptions(context=context))
    assert "container" not in json.loads(wire.body)
    assert [loss.kind for loss in wire.losses] == ["state"]
