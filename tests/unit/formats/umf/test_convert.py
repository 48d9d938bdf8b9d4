"""UMF: both encodings of results, blocks, constructors, events, streams and tools."""

import json

import pytest

from dragoman import Message, Role, ToolDefinition
from dragoman.adapter.errors import CriticalLossError, StreamTruncatedError
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    ContentBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.events import (
    ErrorEvent,
    MessageComplete,
    MessageStart,
    StreamEvent,
    TextDelta,
    ToolUseInputDelta,
    ToolUseStart,
)
from dragoman.canonical.message import MessageMetadata
from dragoman.canonical.message_fields import Alternative
from dragoman.canonical.tools import SideEffects
from dragoman.formats import (
    FormatError,
    InternalMessage,
    from_umf,
    from_umf_events,
    internal_tool,
    to_umf,
    tool_definition,
    tool_from_mcp,
    tool_to_mcp,
)
from dragoman.formats.umf import models as umf
from dragoman.formats.umf.events import Envelope, ToolCallEvent, history_to_umf
from dragoman.formats.umf.stream import Done, StreamingAccumulator, TextChunk, ToolCallDelta, accumulate, chunks_of
from tests.unit.formats.documents import CALL, HANDWRITTEN_UMF, everything

CALL_2 = "tu_01M7YJFK7P2ZFT4X2CGGZPP6M7"


def test_a_foreign_document_is_rewritten_unchanged() -> None:
    """A foreign document is rewritten unchanged: both encodings, explicit nulls, metadata and unknown keys."""
    assert to_umf(from_umf(json.dumps(HANDWRITTEN_UMF))).data == HANDWRITTEN_UMF


def test_both_encodings_of_a_result_are_equal() -> None:
    """A tool message and a block in a user message both answer their call; other blocks are the user's."""
    history = from_umf(HANDWRITTEN_UMF)
    roles = ["system", "user", "assistant", "tool", "tool", "user", "tool"]
    assert [str(message.role) for message in history] == roles
    first, second = history[2].tool_uses
    assert history[3].tool_results[0].tool_use_id == first.id
    assert history[4].tool_results[0].tool_use_id == second.id
    assert history[4].metadata.parent_tool_use_id == second.id
    assert (second.input, second.raw_input) == ({}, "[1,2]")
    assert history[6].tool_results[0].tool_use_id.startswith("tu_")


def test_a_changed_message_keeps_the_ids_of_its_document() -> None:
    """The result still answers its call."""
    history = from_umf(HANDWRITTEN_UMF)
    history[2] = history[2].model_copy(update={"content": history[2].tool_uses[:1]})
    data = to_umf(history).data
    assert data[2]["content"][0]["id"] == data[3]["tool_call_id"] == "call_1"


def test_several_results_are_written_one_by_one() -> None:
    """In the message-level encoding a message has one result, with the error flag next to it."""
    results = [ToolResultBlock(tool_use_id=each, content="1", is_error=each == CALL) for each in (CALL, CALL_2)]
    written = to_umf([Message(role=Role.TOOL, content=tuple(results))])
    assert [message["tool_call_id"] for message in written.data] == [CALL, CALL_2]
    assert [message.tool_results[0].is_error for message in from_umf(written.data)] == [True, False]
    assert [loss.kind for loss in written.losses] == [LossKind.FLATTENED]


def test_thinking_is_a_loss() -> None:
    """UMF has no place for it."""
    written = to_umf([Message.assistant([ThinkingBlock(text="Hm."), TextBlock(text="a")])])
    assert written.data[0]["content"] == "a"
    assert [(loss.kind, loss.block_index) for loss in written.losses] == [(LossKind.THINKING, 0)]


def test_a_critical_block_is_not_lost() -> None:
    """One that is carried keeps its mark under its new index."""
    content: list[ContentBlock] = [RedactedThinkingBlock(data="d"), TextBlock(text="a")]
    with pytest.raises(CriticalLossError):
        to_umf([Message.assistant(content, metadata=MessageMetadata(critical=(0,)))])
    written = to_umf([Message.assistant(content, metadata=MessageMetadata(critical=(1,)))])
    assert from_umf(written.data)[0].metadata.critical == (0,)


def test_provider_raw_neither_leaves_nor_enters() -> None:
    """It belongs to adapters: a document cannot forge it."""
    (written,) = to_umf(everything()[2:3]).data
    assert "provider_raw" not in json.dumps(written)
    metadata = {"dragoman_metadata": json.dumps({"provider_raw": {"by": "anthropic", "blocks": {}}})}
    (read,) = from_umf({"role": "user", "content": "a", "metadata": metadata})
    assert "blocks" not in (read.metadata.provider_raw or {})


def test_the_constructors_of_the_specification() -> None:
    """Nulls and empty metadata are not written."""
    call = umf.ToolUse(id="c", name="f", input={})
    assert InternalMessage.system("a").as_dict() == {"role": "system", "content": "a"}
    assert InternalMessage.user("a").text() == InternalMessage.assistant("a").text() == "a"
    reply = InternalMessage.assistant_with_tools("", [call])
    assert reply.blocks() == [umf.Text(text=""), call]
    assert reply.text() == ""
    assert InternalMessage.tool_result("c", "f", "1").as_dict() == {
        "role": "tool", "content": "1", "tool_call_id": "c", "name": "f",
    }  # fmt: skip
    assert InternalMessage.tool("1").as_dict() == {"role": "tool", "content": "1"}
    assert [len(block.model_dump()) for block in (umf.Text(text=""), call)] == [2, 4]
    assert len(umf.ToolResult(tool_use_id="c", content="").model_dump()) == 3


def test_a_log_of_events_gives_the_history() -> None:
    """As the event bus writes it: ids, time, model, calls and failed results."""
    lines = "\n".join(json.dumps(envelope) for envelope in history_to_umf(everything()))
    read = from_umf_events(lines)
    assert [message.id for message in read] == [message.id for message in everything()]
    assert {message.session_id for message in read} == {"sess_1"}
    assert read[2].tool_uses == everything()[2].tool_uses
    assert read[3].tool_results[0].is_error
    assert read[2].metadata.model == "anthropic:claude-opus-5-5"
    assert read[2].created_at == everything()[2].created_at


def test_an_envelope_holds_all_of_its_line() -> None:
    for line in history_to_umf(everything()):
        assert Envelope.model_validate(line).model_dump(exclude_none=True) | {"payload": line["payload"]} == line


def test_calls_and_results_outside_of_messages_are_added() -> None:
    """Some logs have them as events only, some have a result twice, in either order."""

    def line(number: int, kind: str, **payload: object) -> dict[str, object]:
        common = {"event_id": f"evt_{number}", "session_id": "s", "timestamp_ms": 1000 + number, "sequence": number}
        return {**common, "event_type": kind, "payload": {**common, **payload}}

    call = {"id": "c", "name": "f", "arguments": {"a": 1}}
    log = [
        line(0, "message", message={"role": "assistant", "content": "Let me see."}),
        line(1, "tool_call", message_event_id="evt_0", tool_call=call),
        line(2, "tool_result", tool_call_event_id="evt_1", result={"tool_call_id": "c", "content": {"b": 2}}),
        line(3, "message", message={"role": "tool", "content": "twice", "tool_call_id": "c", "name": "f"}),
        line(4, "system_signal", anything=1),
        line(5, "tool_call", message_event_id="evt_9", tool_call={**call, "id": "d", "arguments": "text"}),
    ]  # fmt: skip
    reply, answered, called = from_umf_events(log)
    assert reply.text == "Let me see."
    assert reply.tool_uses[0].input == {"a": 1}
    assert answered.tool_results[0].tool_use_id == reply.tool_uses[0].id
    assert answered.tool_results[0].content == (TextBlock(text='{"b":2}'),)
    assert called.tool_uses[0].raw_input == "text"


@pytest.mark.parametrize("content", [5, None, {"type": "text", "text": "Hi."}])
def test_content_is_a_text_or_blocks(content: object) -> None:
    """The error says so."""
    with pytest.raises(
        FormatError, match=r"\$\[0\]\.content: (content must be a text or a list of blocks|Field required)"
    ):
        from_umf([{"role": "user", "content": content}])


@pytest.mark.parametrize(
    ("info", "model"),
    [
        ({"model_name": "claude-3", "provider": "anthropic"}, "anthropic:claude-3"),
        ({"model_name": "anthropic:claude-3", "provider": "anthropic"}, "anthropic:claude-3"),
        ({"model_name": "qwen3:4b", "provider": "ollama"}, "ollama:qwen3:4b"),
        ({"model_name": "claude-3"}, "claude-3"),
    ],
)
def test_a_model_of_a_log_has_its_provider(info: dict[str, str], model: str) -> None:
    """UMF keeps the two apart; ours is one id, which thinking and prices need."""
    common = {"event_id": "evt_1", "session_id": "s", "timestamp_ms": 1, "sequence": 0}
    payload = {**common, "message": {"role": "assistant", "content": "Hi."}, "model_info": info}
    (message,) = from_umf_events([{**common, "event_type": "message", "payload": payload}])
    assert (message.metadata.model, message.metadata.provider) == (model, info.get("provider"))


def test_a_call_names_the_server_of_its_tool() -> None:
    """If it is an MCP tool."""
    common = {"event_id": "evt_1", "session_id": "s", "timestamp_ms": 1, "sequence": 0}
    call = {"id": "c", "name": "f", "arguments": {}}
    context = {"server_name": "db", "server_url": "https://db.example", "transport": "http"}
    payload = {**common, "message_event_id": "evt_0", "tool_call": call, "mcp_context": context}
    event = Envelope.model_validate({**common, "event_type": "tool_call", "payload": payload}).event()
    assert isinstance(event, ToolCallEvent)
    assert event.mcp_context is not None
    assert event.mcp_context.model_dump() == context


def test_the_accumulator_returns_calls_by_index() -> None:
    """Sparse, out of order, with late names, and calls that never get one."""
    accumulated = accumulate(
        [
            TextChunk("a"),
            ToolCallDelta(7, "c7", "second", '{"b":'),
            ToolCallDelta(1, "c1", arguments_delta="{}"),
            ToolCallDelta(3, "c3"),
            ToolCallDelta(7, arguments_delta="2}"),
            ToolCallDelta(1, name="first"),
            TextChunk("b"),
            Done(),
            TextChunk("never read"),
        ]
    )
    assert accumulated.text == "ab"
    assert [(call.id, call.name, call.arguments) for call in accumulated.tool_calls] == [
        ("c1", "first", "{}"),
        ("c7", "second", '{"b":2}'),
    ]
    assert StreamingAccumulator().process_chunk(Done())


def test_our_events_become_chunks_of_umf() -> None:
    """Thinking and usage have no chunk; a broken stream raises its own error."""
    events: list[StreamEvent] = [
        MessageStart("m", "x:y"),
        TextDelta("m", 0, "Hi."),
        ToolUseStart("m", 1, CALL, "f"),
        ToolUseInputDelta("m", 1, CALL, "{}"),
        MessageComplete(Message.assistant("Hi.")),
    ]
    accumulated = accumulate(chunks_of(events))
    assert accumulated.text == "Hi."
    assert [(call.id, call.name, call.arguments) for call in accumulated.tool_calls] == [(CALL, "f", "{}")]
    with pytest.raises(StreamTruncatedError):
        accumulate(chunks_of([ErrorEvent(StreamTruncatedError("cut"))]))


HANDWRITTEN_MCP_TOOL = {
    "name": "read_file",
    "title": "Read a file",
    "description": "Reads.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "$defs": {"x": {}}},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
    "_meta": {"a": 1},
    "icons": [{"src": "https://example.org/a.png"}],
}


@pytest.mark.parametrize("without", [None, "title", "description", "outputSchema", "annotations", "_meta"])
def test_an_mcp_tool_comes_back_without_loss(without: str | None) -> None:
    """Through UMF's form and through ours; hints of the server are not trusted."""
    native = {name: value for name, value in HANDWRITTEN_MCP_TOOL.items() if name != without}
    tool = tool_from_mcp(json.dumps(native))
    assert tool_to_mcp(tool) == native
    definition = tool_definition(tool)
    assert definition.side_effects is SideEffects.EXECUTE
    assert internal_tool(definition) == tool
    assert tool_to_mcp(internal_tool(definition)) == native


@pytest.mark.parametrize("description", [None, ""])
def test_a_missing_description_stays_what_it_was(description: str | None) -> None:
    """JSON distinguishes null, empty and absent."""
    native: dict[str, object] = {"name": "f", "inputSchema": {}, "description": description}
    assert tool_to_mcp(tool_from_mcp(native)) == native


@pytest.mark.parametrize("effects", list(SideEffects))
def test_our_tool_comes_back_without_loss(effects: SideEffects) -> None:
    """UMF's metadata hold its side effects and requirements. A document of somebody else could claim anything."""
    tool = ToolDefinition(name="f", description="d", side_effects=effects, requires_workspace=False)
    assert tool_definition(internal_tool(tool), trusted=True) == tool
    assert tool_definition(internal_tool(tool)).side_effects is SideEffects.EXECUTE
    assert internal_tool(tool_definition(internal_tool(tool))) == internal_tool(tool)
    assert "annotations" not in tool_to_mcp(internal_tool(tool))


def test_alternatives_come_back() -> None:
    """Other answers to the prompt, with blocks of several types."""
    blocks = (TextBlock(text="B"), ToolUseBlock(id="tu_01M7YJFK7P2ZFT4X2CGGZPP6M5", name="f", input={"a": None}))
    reply = Message.assistant("A", metadata=MessageMetadata(alternatives=(Alternative(content=blocks),)))
    assert from_umf(to_umf([reply]).data)[0].alternatives == reply.alternatives
