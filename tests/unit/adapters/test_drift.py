"""Names in a reply that this version does not know are seen: on the message, on the bus and by `dragoman doctor`."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman import Client, Message, RequestContext, WireResponse, get_adapter
from dragoman.adapter.replies.drift import Drift, drift_of
from dragoman.canonical.events import MessageComplete
from dragoman.events import EventBus
from dragoman.store import Store
from dragoman.testing.faults.server import FaultyServer, HttpReply
from tests.cli.test_doctor import doctor
from tests.tables import each_row

MODEL = "anthropic:claude-opus-5-5"
TEXT = {"type": "text", "text": "Hi"}
REPLY = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
    "content": [{"type": "text", "text": "Hi", "tone": "secret"}], "stop_reason": "bored", "mood": "secret",
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
EXPECTED = (
    Drift("anthropic", "field", "mood"), Drift("anthropic", "field", "part.tone"),
    Drift("anthropic", "stop_reason", "bored"),
)  # fmt: skip


def read(native: dict[str, object]) -> Message:
    response = WireResponse(status=200, headers={}, body=json.dumps(native).encode())
    return get_adapter(MODEL).from_wire_response(response, RequestContext.for_model(MODEL))


def test_unknown_fields_and_stop_reasons_are_noted() -> None:
    """A reply of known names has no note."""
    assert drift_of(read(REPLY)) == EXPECTED
    known = {name: value for name, value in REPLY.items() if name != "mood"}
    assert drift_of(read({**known, "content": [TEXT], "stop_reason": "end_turn"})) == ()
    assert drift_of(Message.user("Hi")) == ()


def test_an_unknown_event_is_noted_on_the_message() -> None:
    """The stream goes on, and its message names the event once."""
    events = [
        {"type": "message_start", "message": {**REPLY, "content": [], "stop_reason": None}},
        {"type": "thought_bubble"},
        {"type": "thought_bubble"},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()
    last = list(get_adapter(MODEL).iter_stream([body], RequestContext.for_model(MODEL)))[-1]
    assert isinstance(last, MessageComplete)
    assert drift_of(last.message) == (Drift("anthropic", "event", "thought_bubble"), EXPECTED[0])


CHAT_REPLY = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
NESTED: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [
    ("anthropic:claude-opus-5-5", {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{**TEXT, "mood": 1}, {"type": "thought_bubble", "text": "Hm"}],
        "usage": {"input_tokens": 1, "output_tokens": 1, "dream_tokens": 1},
    }, [("field", "part.mood"), ("field", "usage.dream_tokens"), ("part", "thought_bubble")]),
    ("openai:gpt-6.1-sol", {
        "id": "r", "object": "response", "model": "m", "status": "completed", "output": [
            {"type": "message", "id": "m", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "Hi", "annotations": [], "mood": 1}]},
            {"type": "dream_call", "id": "d"},
        ], "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "dream_tokens": 1},
    }, [("field", "part.mood"), ("field", "usage.dream_tokens"), ("part", "dream_call")]),
    ("openai-chat:gpt-4.1", {
        **CHAT_REPLY, "weather": "fair", "choices": [
            {"index": 0, "finish_reason": "bored", "luck": 1, "message": {
                "role": "assistant", "content": "Hi", "mood": 1,
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, "why": 1}],
            }},
        ], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "dream_tokens": 1},
    }, [("field", "choice.luck"), ("field", "message.mood"), ("field", "part.why"), ("field", "usage.dream_tokens"),
        ("field", "weather"), ("stop_reason", "bored")]),
    ("google:gemini-3-pro", {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi", "mood": 1}, {"dream": {"a": 1}}]},
                        "finishReason": "STOP", "luck": 1}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "dreamTokenCount": 1},
    }, [("field", "candidate.luck"), ("field", "part.mood"), ("field", "usage.dreamTokenCount"), ("part", "dream")]),
    ("bedrock:us.amazon.nova-2-lite-v1:0", {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}, {"dream": {"a": 1}}]}},
        "stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2, "dreamTokens": 1},
    }, [("field", "usage.dreamTokens"), ("part", "dream")]),
    ("ollama:qwen3", {
        "model": "m", "created_at": "2026-11-21T00:00:00Z", "done": True, "done_reason": "stop",
        "message": {"role": "assistant", "content": "Hi", "mood": 1},
    }, [("field", "message.mood")]),
    ("cohere:command-a-plus-05-2026", {
        "id": "c", "finish_reason": "COMPLETE",
        "message": {"role": "assistant", "content": [TEXT], "mood": 1},
        "usage": {"tokens": {"input_tokens": 1, "output_tokens": 1}, "dreams": 1},
    }, [("field", "message.mood"), ("field", "usage.dreams")]),
]  # fmt: skip


@each_row(("model", "native", "expected"), NESTED)
def test_unknown_names_below_the_top_level_are_noted(
    model: str, native: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """Of parts, choices and the usage, and kinds of parts; no value is."""
    response = WireResponse(status=200, headers={}, body=json.dumps(native).encode())
    message = get_adapter(model).from_wire_response(response, RequestContext.for_model(model))
    assert sorted((each.kind, each.name) for each in drift_of(message)) == expected


def test_a_stream_of_chat_completions_notes_the_same() -> None:
    """Its fields arrive in deltas."""
    model, native, expected = NESTED[2]
    (choice,) = native["choices"]
    delta = {**choice["message"], "tool_calls": [{"index": 0, **call} for call in choice["message"]["tool_calls"]]}
    chunk = {**native, "choices": [{**choice, "message": None, "delta": delta}]}
    body = b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"
    last = list(get_adapter(model).iter_stream([body], RequestContext.for_model(model)))[-1]
    assert isinstance(last, MessageComplete)
    assert sorted((each.kind, each.name) for each in drift_of(last.message)) == expected


def test_a_client_never_receives_the_note() -> None:
    """The reply is written again as the provider sent it."""
    adapter, context = get_adapter(MODEL), RequestContext.for_model(MODEL)
    assert json.loads(adapter.to_wire_response(read(REPLY), context).body) == REPLY


@pytest.mark.parametrize("kept", [False, True])
def test_the_bus_reports_names_and_no_values(kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor counts those of the store, and says where a user reports the line."""
    reply = HttpReply(body=json.dumps(REPLY).encode())
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    with FaultyServer([reply]) as server, EventBus(strict=True) as bus:
        lines = []
        bus.subscribe(lambda event: lines.append(event.as_dict()), types=["llm.reply_drifted"])
        providers = {"anthropic": {"api_key": "key-of-a-test", "base_url": server.url}}
        store = Store(url) if kept else None
        with Client(providers=providers, events=bus, store=store) as client, client.session(MODEL) as session:
            session.ask("Hi")
        bus.flush()
    assert [line["payload"]["names"] for line in lines] == [["field:mood", "field:part.tone", "stop_reason:bored"]]
    assert "secret" not in json.dumps(lines)
    if kept:
        (tmp_path / "dragoman.toml").write_text(f'store = "{url}"\n', encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        done = doctor("--drift")
        assert done.exit_code == 0, done.output
        assert "anthropic stop reason bored: 1 of 1 replies" in done.output
        assert "anthropic field part.tone: 1 of 1 replies" in done.output
        assert "github.com/dragoman-sdk/dragoman/issues" in done.output
