"""Events as UMF envelopes. Source: docs/reference/umf.md#events."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.usage import Usage
from dragoman.events import EventBus, EventError
from dragoman.formats import history_to_umf, signal_to_umf
from tests.unit.events.payloads import PAYLOADS

AT = datetime(2026, 11, 21, 12, 0, 0, 5_000, tzinfo=UTC)
MS = 1_795_262_400_005
COMMON = {"event_id", "session_id", "timestamp_ms", "sequence"}


def message_of(role: str, content: Any, id: str, **fields: Any) -> Message:  # noqa: A002
    return Message(id=id, session_id="sess_1", role=role, content=content, created_at=AT, **fields)


HISTORY = [
    message_of("user", (TextBlock(text="Look."),), "m1"),
    message_of(
        "assistant",
        (
            ThinkingBlock(text="hm"),
            TextBlock(text="I look."),
            ToolUseBlock(id="tu_1", name="look", input={"at": 1}),
            ToolUseBlock(id="tu_2", name="look", input={}),
            ToolUseBlock(id="tu_3", name="look", input={}),
        ),
        "m2",
        metadata=MessageMetadata(model="a:x", provider="a", usage=Usage(output_tokens=9)),
    ),
    Message.tool("tu_1", "a tree", id="m3", session_id="sess_1", created_at=AT),
    Message.tool("tu_2", "too dark", is_error=True, id="m4", session_id="sess_1", created_at=AT),
]


def test_a_history_becomes_messages_calls_and_results(caplog: pytest.LogCaptureFixture) -> None:
    """In order, numbered, each with its parent; what UMF cannot express is a named loss."""
    envelopes = list(history_to_umf(HISTORY, project_hash="p"))
    assert [envelope["event_type"] for envelope in envelopes] == [
        "message", "message", "tool_call", "tool_call", "tool_call", "message", "tool_result", "message", "tool_result",
    ]  # fmt: skip
    assert [envelope["sequence"] for envelope in envelopes] == list(range(9))
    for envelope in envelopes:
        assert set(envelope) == {*COMMON, "project_hash", "event_type", "payload"}
        assert {name: envelope["payload"][name] for name in COMMON} == {name: envelope[name] for name in COMMON}
        assert (envelope["timestamp_ms"], envelope["session_id"]) == (MS, "sess_1")
    payloads = [envelope["payload"] for envelope in envelopes]
    assert payloads[0]["message"] == {"role": "user", "content": "Look.", "metadata": {"message_id": "m1"}}
    assert payloads[1]["message"]["content"] == [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "tu_1", "name": "look", "input": {"at": 1}},
        {"type": "tool_use", "id": "tu_2", "name": "look", "input": {}},
        {"type": "tool_use", "id": "tu_3", "name": "look", "input": {}},
    ]
    assert payloads[1]["model_info"] == {"model_name": "a:x", "provider": "a"}
    assert payloads[1]["token_count"] == 9
    assert payloads[2]["message_event_id"] == payloads[1]["event_id"]
    assert payloads[2]["tool_call"] == {"id": "tu_1", "name": "look", "arguments": {"at": 1}}
    assert [payload["status"] for payload in payloads[2:5]] == ["completed", "failed", "pending"]
    assert payloads[5]["message"] | {"metadata": {}} == {
        "role": "tool", "content": "a tree", "metadata": {}, "tool_call_id": "tu_1", "name": "look",
    }  # fmt: skip
    assert payloads[6]["tool_call_event_id"] == payloads[2]["event_id"]
    assert payloads[6]["result"] == {"tool_call_id": "tu_1", "content": "a tree", "is_error": False}
    assert "error" not in payloads[6]
    assert payloads[8]["error"] == "too dark"
    assert "no form for the thinking block of message m2" in caplog.text
    assert len({envelope["event_id"] for envelope in envelopes}) == 9


def test_images_keep_their_source(caplog: pytest.LogCaptureFixture) -> None:
    """UMF writes base64 and URLs; it has no files of a workspace."""
    sources = [("base64", "aGk="), ("url", "https://example.com/a.png"), ("file_ref", "a.png")]
    blocks = [ImageBlock(source=MediaSource(kind=kind, data=data), media_type="image/png") for kind, data in sources]
    (envelope,) = history_to_umf([message_of("user", tuple(blocks), "m1")])
    assert [block["source"] for block in envelope["payload"]["message"]["content"]] == [
        {"type": "base64", "media_type": "image/png", "data": "aGk="},
        {"type": "url", "url": "https://example.com/a.png"},
    ]
    assert "no form for the image block" in caplog.text


def test_developer_messages_become_system_messages(caplog: pytest.LogCaptureFixture) -> None:
    """UMF has four roles, and only texts as results."""
    image = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")
    history = [message_of("developer", (TextBlock(text="Be brief."),), "m1"), Message.tool("tu_9", [image], id="m2")]
    first, second, result = history_to_umf(history)
    assert first["payload"]["message"]["role"] == "system"
    assert "name" not in second["payload"]["message"]
    assert result["payload"]["result"]["content"] == ""
    assert "no form for the image block of message m2" in caplog.text


def test_malformed_arguments_and_channels(caplog: pytest.LogCaptureFixture) -> None:
    """Arguments that are not a JSON object become a text; a lost channel is a warning."""
    broken = ToolUseBlock(id="tu_1", name="look", raw_input='{"at": ')
    message = Message.assistant([broken], id="m1", channel="analysis")
    reply, called = history_to_umf([message])
    assert reply["payload"]["message"]["content"][0]["input"] == '{"at": '
    assert called["payload"]["tool_call"]["arguments"] == '{"at": '
    assert "UMF has no channels: message m1 loses its analysis" in caplog.text


def test_bus_events_become_signals_and_errors() -> None:
    """UMF has no format for them: the payload is the event."""
    with EventBus(strict=True, clock=lambda: AT) as bus:
        events = [event for payload in PAYLOADS if (event := bus.emit(payload, session_id="sess_1"))]
    envelopes = [signal_to_umf(event, number) for number, event in enumerate(events)]
    assert {envelope["payload"]["type"] for envelope in envelopes if envelope["event_type"] == "error"} == {
        "llm.call_failed",
        "tool.failed",
    }
    for event, envelope in zip(events, envelopes, strict=True):
        assert envelope["event_id"] == event.id
        assert envelope["timestamp_ms"] == MS
        assert envelope["payload"]["payload"] == event.as_dict()["payload"]
        assert "project_hash" not in envelope
    with pytest.raises(EventError, match="32-bit number"):
        signal_to_umf(events[0], 2**32)
