"""Streamed interactions, handwritten: lost, repeated and truncated events, and rare contents of steps."""

import json
from typing import Any

import pytest

from dragoman import AdapterOptions, Message, TextBlock, WireResponse
from dragoman.adapter import errors
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import DocumentBlock, MediaSource, ProviderBlock, ThinkingBlock
from dragoman.canonical.events import (
    ErrorEvent,
    MessageComplete,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolUseEnd,
    ToolUseStart,
    UsageUpdate,
)
from tests.conformance.validators.interactions import faults
from tests.unit.adapters.google.wire import VERTEX, context
from tests.unit.adapters.google_interactions.test_interactions import (
    CREATED,
    GEMINI,
    delta,
    frames,
    start,
    stream_events,
)

CALL = start(0, type="function_call", id="c1", name="add", arguments={})
END = {"event_type": "interaction.completed", "interaction": {"status": "requires_action"}}


def stop(index: int) -> dict[str, Any]:
    return {"event_type": "step.stop", "index": index}


def partial(*events: dict[str, Any]) -> Message:
    last = stream_events(frames(*events))[-1]
    assert isinstance(last, ErrorEvent)
    assert last.partial is not None
    return last.partial


def message(*events: dict[str, Any]) -> Message:
    last = stream_events(frames(*events))[-1]
    assert isinstance(last, MessageComplete), last
    return last.message


@pytest.mark.parametrize("given", [{}, {"x": 1}])
def test_an_unfinished_call_runs_nothing(given: dict[str, Any]) -> None:
    """An unfinished call runs nothing, even if its arguments already are an object."""
    (call,) = partial(CREATED, start(0, type="function_call", id="c1", name="add", arguments=given)).tool_uses
    assert call.input == {}
    assert call.raw_input == ('{"x":1}' if given else "")


@pytest.mark.parametrize("opening", [[], [CREATED, CREATED]])
def test_the_message_starts_once(opening: list[dict[str, Any]]) -> None:
    """The message starts once even if the first event is lost or repeated."""
    first, *others = stream_events(frames(*opening, CALL, stop(0), END))
    assert isinstance(first, MessageStart)
    assert not any(isinstance(event, MessageStart) for event in others)
    assert isinstance(others[-1], MessageComplete)


def test_a_second_interaction_is_malformed() -> None:
    """Two replies are not merged."""
    other = {"event_type": "interaction.created", "interaction": {"id": "v1_y", "model": GEMINI.model}}
    last = stream_events(frames(CREATED, other))[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, errors.MalformedReplyError)


@pytest.mark.parametrize(
    "events",
    [
        [delta(0, type="arguments_delta", arguments="{}")],
        [stop(0)],
        [start(1, type="thought")],
        [CALL, stop(0), delta(0, type="arguments_delta", arguments="{}")],
        [CALL, stop(0), stop(0)],
        [CALL, CALL],
        [start(0, type="model_output"), start(1, type="thought"), delta(0, type="text", text="late")],
    ],
)
def test_events_of_closed_steps_are_malformed(events: list[dict[str, Any]]) -> None:
    """An event was lost or repeated: a typed error with the partial message."""
    *before, last = stream_events(frames(CREATED, *events))
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, errors.MalformedReplyError)
    assert last.partial is not None
    ended = [event.tool_use_id for event in before if isinstance(event, ToolUseEnd)]
    assert all(call.raw_input is not None or call.id in ended for call in last.partial.tool_uses)


def test_parallel_calls_keep_their_own_arguments() -> None:
    """The index distinguishes the steps."""
    other = start(1, type="function_call", id="c2", name="sub", arguments={})
    pieces = [
        delta(0, type="arguments_delta", arguments='{"x":'),
        delta(1, type="arguments_delta", arguments='{"y":2}'),
        delta(0, type="arguments_delta", arguments="1}"),
    ]
    calls = message(CREATED, CALL, other, *pieces, stop(1), stop(0), END).tool_uses
    assert [(call.name, call.input, call.raw_input) for call in calls] == [
        ("add", {"x": 1}, None),
        ("sub", {"y": 2}, None),
    ]


def test_a_call_without_its_end_runs_nothing() -> None:
    """Its arguments may be incomplete."""
    (call,) = message(CREATED, CALL, delta(0, type="arguments_delta", arguments="{}"), END).tool_uses
    assert call.raw_input == "{}"


def test_content_in_a_step_start_is_emitted() -> None:
    """Texts and signatures that arrive without deltas."""
    thought = start(0, type="thought", summary=[{"type": "text", "text": "Hm."}], signature="c2ln")
    output = start(1, type="model_output", content=[{"type": "text", "text": "Yes"}])
    events = stream_events(frames(CREATED, thought, output, delta(1, type="text", text="."), stop(1), END))
    deltas = [event for event in events if isinstance(event, (TextDelta, ThinkingDelta))]
    assert [(event.content_block_index, event.text) for event in deltas] == [(0, "Hm."), (1, "Yes"), (1, ".")]
    last = events[-1]
    assert isinstance(last, MessageComplete)
    assert last.message.content == (ThinkingBlock(text="Hm.", signature="c2ln"), TextBlock(text="Yes."))


def test_steps_may_arrive_at_the_end() -> None:
    """If the stream had none before."""
    steps = [{"type": "function_call", "id": "c1", "name": "add", "arguments": {"x": 1}}]
    ended = {"event_type": "interaction.completed", "interaction": {"status": "requires_action", "steps": steps}}
    events = stream_events(frames(CREATED, ended))
    assert [type(event) for event in events] == [MessageStart, ToolUseStart, ToolUseEnd, MessageComplete]


def test_signatures_belong_to_their_step() -> None:
    """The signature of a call is sent back with it, and is not thinking."""
    signed = delta(0, type="thought_signature", signature="c2ln")
    events = stream_events(frames(CREATED, CALL, signed, stop(0), END))
    assert not any(isinstance(event, ThinkingDelta) for event in events)
    last = events[-1]
    assert isinstance(last, MessageComplete)
    (call,) = last.message.tool_uses
    wire = GEMINI.to_wire([Message.user("Hi"), last.message, Message.tool(call.id, "2")], [], AdapterOptions())
    assert json.loads(wire.body)["input"][1]["signature"] == "c2ln"


def test_native_tools_collect_their_deltas() -> None:
    """They become one native block; pieces of arguments become an object."""
    search = start(0, type="google_search_call", id="s")
    mcp = start(1, type="mcp_server_tool_call", id="m", name="look", server_name="docs")
    native = [
        search, delta(0, type="google_search_call", arguments={"queries": ["q"]}, signature="c2ln"), stop(0),
        mcp, delta(1, type="arguments_delta", arguments='{"a"'), delta(1, type="arguments_delta", arguments=":1}"),
        stop(1),
    ]  # fmt: skip
    blocks = message(CREATED, *native, END).content
    assert [block.data.get("arguments") for block in blocks if isinstance(block, ProviderBlock)] == [
        {"queries": ["q"]},
        {"a": 1},
    ]


def test_usage_comes_with_any_event() -> None:
    """So a broken stream has usage too; a complete stream uses only the counts of its end."""
    counts = {"total_input_tokens": 5, "total_output_tokens": 2, "total_tokens": 7}
    counted = {**CREATED, "metadata": {"usage": counts}}
    events = stream_events(frames(counted, start(0, type="model_output")))
    assert [event.usage.total_tokens for event in events if isinstance(event, UsageUpdate)] == [7]
    usage = partial(counted, start(0, type="model_output")).usage
    assert usage is not None
    assert usage.total_tokens == 7
    assert message(counted, start(0, type="model_output"), stop(0), END).usage is None


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("invalid_request", errors.InvalidRequestError),
        ("authentication", errors.AuthenticationError),
        ("payment_required", errors.BillingError),
        ("permission_denied", errors.PermissionDeniedError),
        ("model_not_found", errors.NotFoundError),
        ("rate_limit_exceeded", errors.RateLimitError),
        ("quota_exceeded", errors.RateLimitError),
        ("cancelled", errors.RequestCancelledError),
        ("gateway_timeout", errors.ServerError),
        ("internal", errors.ServerError),
        ("unavailable", errors.OverloadedError),
        ("something_new", errors.UnclassifiedError),
    ],
)
def test_error_codes_have_their_class(code: str, kind: type[errors.ProviderError]) -> None:
    """The documented codes and those of Google's other errors, by HTTP and in streams."""
    error = {"error": {"code": code, "message": "Oops"}}
    last = stream_events(frames(CREATED, {"event_type": "error", **error}))[-1]
    assert isinstance(last, ErrorEvent)
    assert type(last.error) is kind
    assert last.error.code == code or code == "invalid_request"
    with pytest.raises(kind):
        GEMINI.from_wire_response(WireResponse(200, json.dumps(error).encode()), context(VERTEX))


def test_an_input_that_is_too_long_has_its_own_class() -> None:
    """Although its code is that of every invalid request."""
    message_text = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
    error = {"event_type": "error", "error": {"code": "invalid_request", "message": message_text}}
    last = stream_events(frames(CREATED, error))[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, errors.ContextOverflowError)


def test_plain_text_documents_are_sent_as_text() -> None:
    """A document cannot be plain text here, so it becomes text after its title."""
    document = DocumentBlock(source=MediaSource(kind="text", data="Be brief."), title="Rules")
    wire = GEMINI.to_wire([Message.user((document,))], [], AdapterOptions())
    assert json.loads(wire.body)["input"] == [
        {"type": "user_input", "content": [{"type": "text", "text": "Rules"}, {"type": "text", "text": "Be brief."}]}
    ]
    assert {loss.kind for loss in wire.losses} == {LossKind.FLATTENED}


def test_the_rules_of_the_wire_find_missing_results() -> None:
    """Conformance uses these rules, because no recorded request holds both a call and its result."""
    call = {"type": "function_call", "id": "c1", "name": "add", "arguments": {}}
    result = {"type": "function_result", "call_id": "c1", "name": "add", "result": "2"}
    ask = {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]}
    assert list(faults({"model": "m", "input": [ask, call, result]}, foreign=True)) == []
    for steps in ([ask, call], [ask, call, ask], [ask, result], [ask, {**call, "signature": "x"}, result]):
        assert list(faults({"model": "m", "input": steps}, foreign=True)) != []
