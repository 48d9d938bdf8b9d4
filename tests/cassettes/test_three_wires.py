"""One session swapped across three wires, with a tool call before and after each swap, from one cassette."""

import json
import runpy
from pathlib import Path

import httpx
import pytest

from dragoman.bundled import bundled_path
from dragoman.cli import demo
from dragoman.cli.demo import replay_settings
from dragoman.session import Session
from dragoman.testing import Cassette, CassetteMissError, CassetteTransport
from dragoman.testing.cassettes.exchange import RecordedRequest
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, recorded_reply

RECORDER = Path(__file__).parents[2] / "cassettes" / "record.py"


def cassette() -> Cassette:
    return Cassette.load(bundled_path("cassettes") / demo.CASSETTE)


def play(tape: Cassette) -> Session:
    first, *others = demo.RECORDED_PARTS
    client = httpx.Client(transport=CassetteTransport(tape))
    providers = {part.provider: replay_settings(part.provider, client) for part in demo.RECORDED_PARTS}
    session = Session(first.model, tools=demo.TOOLS, providers=providers, new_id=demo.sequential_ids())
    with client, session:
        for part in (first, *others):
            if session.model != part.model:
                assert session.swap(part.model).fits
            for _ in session.stream(part.prompt, max_output_tokens=128):
                pass
    return session


def test_the_session_keeps_its_calls_and_results_over_two_swaps() -> None:
    """Each provider calls a tool, and receives the earlier calls and results."""
    tape = cassette()
    session = play(tape)
    calls = [(call.name, message.metadata.provider) for message in session.messages for call in message.tool_uses]
    assert calls == [("read_file", "anthropic"), ("add", "openai"), ("read_file", "openai-chat")]
    assert "8080" in session.messages[3].text
    assert "42" in session.messages[7].text
    assert "Monday" in session.messages[11].text
    assert tape.unplayed == 0


def test_the_recorder_writes_what_its_server_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its server answers from the recording, over a socket: the new file has the same requests and replies."""
    tape = cassette()

    def answer(request: ReceivedRequest) -> HttpReply:
        return recorded_reply(tape.play(RecordedRequest(request.method, request.path, request.body)))

    monkeypatch.setattr(demo, "CASSETTE", tmp_path / "new" / "three_wires.yaml")
    with FaultyServer(answer) as server:
        runpy.run_path(str(RECORDER))["main"](server.url)
    written = Cassette.load(demo.CASSETTE).exchanges
    assert tape.unplayed == 0
    assert [each.response.body for each in written] == [each.response.body for each in tape.exchanges]
    play(Cassette.load(demo.CASSETTE))


def test_foreign_ids_are_legal_on_each_wire_and_own_ids_come_back() -> None:
    """The recorded server received its own ids on the same wire, generated ones on another."""
    exchanges = cassette().exchanges
    bodies = [json.loads(exchange.request.body) for exchange in exchanges]
    replies = [exchange.response.body.decode() for exchange in exchanges]
    own = bodies[1]["messages"][1]["content"][0]["id"]
    assert f'"id":"{own}"' in replies[0]
    (foreign,) = [item["call_id"] for item in bodies[2]["input"] if item.get("type") == "function_call"]
    assert foreign.startswith("call_")
    assert foreign != own
    assert [item["call_id"] for item in bodies[2]["input"] if item.get("type") == "function_call_output"] == [foreign]
    called = [call["id"] for message in bodies[4]["messages"] for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in bodies[4]["messages"] if message["role"] == "tool"]
    assert called == answered
    assert len(set(called)) == 2


def test_another_prompt_is_a_miss_that_names_the_difference() -> None:
    """A changed character is another request."""
    client = httpx.Client(transport=CassetteTransport(cassette()))
    with (
        client,
        Session(
            demo.RECORDED_PARTS[0].model,
            tools=demo.TOOLS,
            providers={"anthropic": replay_settings("anthropic", client)},
            new_id=demo.sequential_ids(),
        ) as session,
        pytest.raises(CassetteMissError, match=r"\$\.messages\[0\]\.content"),
    ):
        list(session.stream(demo.RECORDED_PARTS[0].prompt + "!", max_output_tokens=128))


def test_the_replay_is_the_same_each_time() -> None:
    """Ids and requests do not depend on the run."""
    first, second = play(cassette()), play(cassette())
    assert [message.id for message in first.messages] == [message.id for message in second.messages]
    assert first.tool_ids.dump() == second.tool_ids.dump()
