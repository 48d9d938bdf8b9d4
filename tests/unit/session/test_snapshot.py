"""Sessions as JSON: what is written today must be readable forever, and the session must continue unchanged."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, SwapRefusedError
from dragoman.canonical import rules
from dragoman.canonical.blocks import ImageBlock, MediaSource, ToolUseBlock, UnknownBlock
from dragoman.canonical.message import Message, MessageStatus
from dragoman.canonical.usage import CostStatus
from dragoman.session import AsyncSession, Session, tool
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Driver, Wire, counted_ids, texts
from tests.unit.session.handwritten_replies import Call, Thought, handwritten_anthropic, handwritten_ollama

OLD_SNAPSHOT = Path(__file__).parents[2] / "compatibility" / "session_v1.json"


@tool(side_effects="none")
def look(at: str) -> str:
    """Look at something."""
    return f"{at}: fine"


def two_provider_session(driver: Driver) -> Any:
    """A session with two providers, and calls of both."""
    wires = {
        "anthropic": Wire([handwritten_anthropic(Thought("Hm."), Call("toolu_A", "look", {"at": "a", "no": None})),
                           handwritten_anthropic("Fine.")]),
        "ollama": Wire([handwritten_ollama(Call("call|1", "look", {"at": "b"})), handwritten_ollama("Fine too.")]),
    }  # fmt: skip
    session = driver.session(wires, system="Be brief.", tools=[look])
    driver.ask(session, "Look at a.")
    session.swap(OLLAMA)
    driver.ask(session, "Look at b.")
    return session


def test_a_stored_session_continues(driver: Driver) -> None:
    """Everything comes back: history, model, and the ids under which each provider knows the calls."""
    session = two_provider_session(driver)
    data = session.dump()
    wire = Wire([handwritten_ollama("Both.")])
    fresh = driver.session({"ollama": wire})
    back = type(session).load(data, tools=[look], providers=fresh.providers)
    assert (back.messages, back.model, back.session_id) == (session.messages, session.model, session.session_id)
    assert back.tool_ids.dump() == session.tool_ids.dump()
    assert back.dump() == data
    assert (back.cost, back.usage) == (session.cost, session.usage)
    driver.ask(back, "And?")
    sent = [call["id"] for message in wire.requests[0]["messages"] for call in message.get("tool_calls", ())]
    assert sent == [
        session.tool_ids.dump()["sent"]["ollama"][call.id] for m in session.messages for call in m.tool_uses
    ]


def test_a_session_of_a_newer_version_continues(driver: Driver) -> None:
    """Its unknown words are kept, and a message of an unknown role is left out of the request."""
    data = OLD_SNAPSHOT.with_name("session_newer.json").read_bytes()
    wire = Wire([handwritten_anthropic("It is late.")])
    fresh = driver.session({"anthropic": wire})
    session = type(fresh).load(data, providers=fresh.providers)
    driver.ask(session, "Why?")
    assert [message["role"] for message in wire.requests[0]["messages"]] == ["user", "assistant", "user"]
    raw, dumped = json.loads(data)["messages"], json.loads(session.dump())["messages"]
    assert [(each["role"], each["metadata"]["status"]) for each in dumped[:3]] == [
        (each["role"], each["metadata"]["status"]) for each in raw
    ]


def test_unknown_data_survives_storage(driver: Driver) -> None:
    """Unknown blocks and fields, None inside arguments, and everything an adapter noted."""
    session = two_provider_session(driver)
    raw = json.loads(session.dump())
    raw["messages"][1]["content"].append({"type": "hologram", "depth": 3})
    raw["messages"][1]["mood"] = "curious"
    raw["written_by"] = "a later version"
    back = type(session).load(json.dumps(raw))
    assert isinstance(back.messages[1].content[-1], UnknownBlock)
    again = json.loads(back.dump())
    assert again["messages"][1]["mood"] == "curious"
    assert again["messages"][2] == raw["messages"][2]
    assert again["messages"][2]["content"][1]["input"] == {"at": "a", "no": None}
    assert again["messages"][2]["metadata"]["provider_raw"]


def test_a_loaded_session_uses_its_own_id_factory() -> None:
    """A loaded session creates tool ids with the given factory."""
    data = Session(ANTHROPIC).dump()
    back = Session.load(data, new_id=counted_ids())
    assert back.tool_ids.receive("anthropic", "toolu_1") == "tu_" + counted_ids()()


def test_loading_with_another_model_is_a_swap() -> None:
    """It is refused with reasons if that model cannot carry the history."""
    image = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")
    data = Session(ANTHROPIC, messages=[Message.user([image])]).dump()
    assert AsyncSession.load(data, model="anthropic:claude-sonnet-4-5").model == "anthropic:claude-sonnet-4-5"
    with pytest.raises(SwapRefusedError, match="no_vision_support"):
        Session.load(data, model=OLLAMA)
    gone = data.replace(ANTHROPIC.encode(), b"gone:model")
    assert Session.load(gone, model=ANTHROPIC).model == ANTHROPIC


GOOD = json.loads(Session(ANTHROPIC).dump())


@pytest.mark.parametrize(
    "data",
    [
        b"", b"no json", b"[]", b"{}", b"\xff",
        json.dumps({**GOOD, "dragoman_session": 2}),
        json.dumps({**GOOD, "messages": None}),
        json.dumps({**GOOD, "messages": [{"role": 1}]}),
        json.dumps({**GOOD, "messages": [{"role": "user", "schema_version": 99}]}),
        json.dumps({**GOOD, "tool_ids": {"issued": {"tu_1": "x"}}}),
        json.dumps({**GOOD, "tool_ids": []}),
        json.dumps({key: value for key, value in GOOD.items() if key != "model"}),
        json.dumps({key: value for key, value in GOOD.items() if key != "tool_ids"}),
    ],
)  # fmt: skip
def test_an_invalid_stored_session_is_a_configuration_error(data: bytes | str) -> None:
    """One typed error that says so, whatever is wrong."""
    with pytest.raises(ConfigurationError, match="stored session"):
        Session.load(data)


@pytest.mark.parametrize("kind", [Session, AsyncSession])
def test_the_first_version_is_read_for_ever(kind: type[Session] | type[AsyncSession]) -> None:
    """A session as version 1 wrote it, with every kind of block: never change the file."""
    data = OLD_SNAPSHOT.read_bytes()
    session = kind.load(data)
    assert session.model == OLLAMA
    assert session.session_id == "sess_museum"
    assert {block.type for message in session.messages for block in message.content} == {
        "text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "audio", "video", "document",
        "resource", "resource_ref", "prompt_request", "prompt_result", "provider",
    }  # fmt: skip
    assert rules.check(session.messages) == []
    call = next(block for m in session.messages for block in m.content if isinstance(block, ToolUseBlock))
    assert session.tool_ids.native_id(call.id, "anthropic") == "toolu_A"
    assert session.cost.usd == Decimal("0.000364")
    assert session.cost.status is CostStatus.PARTIAL
    assert {message.metadata.status for message in session.messages} >= {MessageStatus.CANCELLED}
    assert texts(session)[0] == ("system", "Be brief.")
    assert kind.load(session.dump()).messages == session.messages
    assert session.preview(OLLAMA).input_tokens
