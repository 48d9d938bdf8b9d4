"""Names in a reply that this version does not know are seen: on the message, on the bus and by `dragoman doctor`."""

import json
from pathlib import Path

import pytest

from dragoman import Client, Message, RequestContext, WireResponse, get_adapter
from dragoman.adapter.replies.drift import Drift, drift_of
from dragoman.canonical.events import MessageComplete
from dragoman.events import EventBus
from dragoman.store import Store
from dragoman.testing.faults.server import FaultyServer, HttpReply
from tests.cli.test_doctor import doctor

MODEL = "anthropic:claude-opus-5-5"
REPLY = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
    "content": [{"type": "text", "text": "Hi"}], "stop_reason": "bored", "mood": "secret",
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
EXPECTED = (Drift("anthropic", "field", "mood"), Drift("anthropic", "stop_reason", "bored"))


def read(native: dict[str, object]) -> Message:
    response = WireResponse(status=200, headers={}, body=json.dumps(native).encode())
    return get_adapter(MODEL).from_wire_response(response, RequestContext.for_model(MODEL))


def test_unknown_fields_and_stop_reasons_are_noted() -> None:
    """A reply of known names has no note."""
    assert drift_of(read(REPLY)) == EXPECTED
    assert drift_of(read({**{k: v for k, v in REPLY.items() if k != "mood"}, "stop_reason": "end_turn"})) == ()
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
    assert [line["payload"]["names"] for line in lines] == [["field:mood", "stop_reason:bored"]]
    assert "secret" not in json.dumps(lines)
    if kept:
        (tmp_path / "dragoman.toml").write_text(f'store = "{url}"\n', encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        done = doctor("--drift")
        assert done.exit_code == 0, done.output
        assert "anthropic stop reason bored: 1 of 1 replies" in done.output
        assert "github.com/dragoman-sdk/dragoman/issues" in done.output
