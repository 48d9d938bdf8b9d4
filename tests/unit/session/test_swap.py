"""Changing the model in the middle of a session: what each model gets, what is refused, what a preview promises."""

import logging
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import SwapRefusedError, UnknownProviderError
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.session import AsyncSession, Session, tool
from tests.packaging.systems import needs_files
from tests.unit.session.drivers import ANTHROPIC, NOW, OLLAMA, Driver, SyncDriver, Wire, texts
from tests.unit.session.handwritten_replies import Call, Thought, handwritten_anthropic, handwritten_ollama

NO_TOOLS = "ollama:phi3:mini"
IMAGE = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")


@tool(side_effects="none")
def look(at: str) -> str:
    """Look at something."""
    return f"{at}: fine"


def wires() -> dict[str, Wire]:
    return {
        "anthropic": Wire(
            [
                handwritten_anthropic(Thought("Hm."), Call("toolu_A", "look", {"at": "a"})),
                handwritten_anthropic("A is fine."),
                handwritten_anthropic("All three."),
            ]
        ),
        "ollama": Wire([handwritten_ollama(Call("call|1", "look", {"at": "b"})), handwritten_ollama("B is fine.")]),
    }


def test_a_session_swaps_there_and_back_with_its_tools(driver: Driver) -> None:
    """Calls before and after the swap: each provider gets legal ids, its own for its own calls, and every result."""
    provider = wires()
    session = driver.session(provider, tools=[look])
    driver.ask(session, "Look at a.")
    session.swap(OLLAMA)
    assert session.model == OLLAMA
    driver.ask(session, "Look at b.")
    session.swap(ANTHROPIC)
    driver.ask(session, "All?")
    assert [text for role, text in texts(session) if role == "tool"] == ["a: fine", "b: fine"]

    foreign: list[dict[str, Any]] = provider["ollama"].requests[1]["messages"]
    calls = [call["id"] for message in foreign for call in message.get("tool_calls", ())]
    answers = [(message["tool_call_id"], message["content"]) for message in foreign if message["role"] == "tool"]
    assert calls[1] == "call|1"
    assert answers == [(calls[0], "a: fine"), ("call|1", "b: fine")]

    native = provider["anthropic"].requests[2]["messages"]
    parts = [part for message in native for part in message["content"] if isinstance(part, dict)]
    used = [part["id"] for part in parts if part["type"] == "tool_use"]
    answered = [part["tool_use_id"] for part in parts if part["type"] == "tool_result"]
    rule = get_adapter(ANTHROPIC).capabilities.tool_id_rule
    assert used == answered
    assert used[0] == "toolu_A"
    assert all(map(rule.accepts, used))
    assert any(part["type"] == "thinking" and part["signature"] == "c2lnbmVk" for part in parts)


def test_sent_ids_stay_the_same(driver: Driver) -> None:
    """For the same target, each request is a prefix of the next one, whatever happened in between."""
    provider = wires()
    session = driver.session(provider, tools=[look])
    driver.ask(session, "Look at a.")
    session.swap(OLLAMA)
    driver.ask(session, "Look at b.")
    first, second = (request["messages"] for request in provider["ollama"].requests)
    assert second[: len(first)] == first


def refusal_reasons(session: Any, model: str) -> tuple[str, ...]:
    with pytest.raises(SwapRefusedError) as caught:
        session.swap(model)
    return caught.value.reasons


def test_a_refused_swap_names_every_reason_and_changes_nothing(driver: Driver) -> None:
    """Images, tools, a schema and the size: all of them, by name, and the active model stays."""
    long = [Message.user([TextBlock(text="word " * 200_000), IMAGE])]
    options = AdapterOptions(output_schema={"type": "object"})
    session = driver.session({"anthropic": Wire([])}, tools=[look], messages=long, options=options)
    before = session.dump()
    named = [reason.rpartition(": ")[2] for reason in refusal_reasons(session, NO_TOOLS)]
    assert named == list(session.preview(NO_TOOLS).refusals)
    assert named == ["no_vision_support", "no_tool_support", "exceeds_context_window"]
    assert session.model == ANTHROPIC
    assert session.dump() == before


def test_an_image_in_a_tool_answer_counts_as_well() -> None:
    """A model without vision cannot carry it, wherever it is."""
    call = ToolUseBlock(id="tu_1", name="look")
    history = [Message.user("?"), Message.assistant([call]), Message.tool("tu_1", [IMAGE])]
    assert refusal_reasons(Session(ANTHROPIC, messages=history), OLLAMA) == (
        "the history holds images: no_vision_support",
    )


def test_a_critical_loss_refuses_the_swap() -> None:
    """The history has a critical block that would be lost."""
    marked = Message.assistant([ThinkingBlock(text="Hm.", signature="s")], metadata=MessageMetadata(critical=True))
    session = Session(ANTHROPIC, messages=[Message.user("?"), marked])
    (reason,) = refusal_reasons(session, OLLAMA)
    assert "marked critical" in reason


def test_an_unknown_provider_refuses_the_swap() -> None:
    """The error names the nearest; the active model stays."""
    session = Session(ANTHROPIC)
    with pytest.raises(UnknownProviderError, match="ollama"):
        session.swap("olama:qwen3")
    with pytest.raises(UnknownProviderError):
        session.preview("qwen3")
    assert session.model == ANTHROPIC


def lossy() -> list[Message]:
    """A history with a loss for every other model."""
    call = ToolUseBlock(id="tu_1", name="look")
    return [
        Message.system("Be brief."),
        Message.user("Look."),
        Message.assistant([ThinkingBlock(text="Hm.", signature="s"), call]),
        Message.user("And?"),
        Message.tool("tu_none", "an orphan"),
        Message.assistant("Yes."),
    ]


@pytest.mark.parametrize("model", [OLLAMA, "anthropic:claude-sonnet-4-5", "anthropic:claude-3-haiku"])
def test_a_preview_has_the_losses_of_the_next_request(
    driver: Driver, model: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The losses that were previewed are those of the request that is then sent."""
    provider = model.partition(":")[0]
    reply = handwritten_anthropic("Ok.") if provider == "anthropic" else handwritten_ollama("Ok.")
    session = driver.session({provider: Wire([reply])}, messages=lossy(), tools=[look])
    seen = session.preview(model)
    assert seen.losses
    assert session.swap(model) == seen
    context = RequestContext(model=model, tool_ids=ToolIdMap.load(session.tool_ids.dump()))
    messages = [*session.messages, Message.user("So?")]
    wire = get_adapter(model).to_wire(messages, session.toolbox.definitions, session.options.with_context(context))
    assert wire.losses == seen.losses
    caplog.clear()
    with caplog.at_level(logging.INFO, "dragoman.projection"):
        driver.ask(session, "So?")
    assert [(r.__dict__["loss_kind"], r.__dict__["message_id"]) for r in caplog.records] == [
        (loss.kind, loss.message_id) for loss in seen.losses
    ]
    assert LossKind.PREFILL not in {loss.kind for loss in seen.losses}


def test_a_preview_changes_nothing(driver: Driver) -> None:
    """Not the history, not the model, not the id map: a preview of every model leaves the dump as it was."""
    provider = wires()
    session = driver.session(provider, tools=[look])
    driver.ask(session, "Look at a.")
    before = session.dump()
    for model in (OLLAMA, "anthropic:claude-sonnet-4-5", NO_TOOLS):
        session.preview(model)
    assert session.dump() == before
    session.swap(OLLAMA)
    assert "ollama" not in session.tool_ids.dump()["sent"]


def test_a_preview_has_size_and_price() -> None:
    """An estimate of tokens and the cost of reading them once: zero if free, None if unknown."""
    session = Session(ANTHROPIC, messages=[Message.user("word " * 4000)], clock=lambda: NOW)
    seen = session.preview("anthropic:claude-sonnet-4-5")
    assert 4000 < seen.input_tokens < 6000
    assert seen.max_context_tokens == 200_000
    assert seen.input_cost_usd
    assert 0 < seen.input_cost_usd < 1
    assert session.preview(OLLAMA).input_cost_usd == 0
    assert session.preview("anthropic:claude-nobody-9").input_cost_usd is None


def test_a_swap_during_a_turn_waits_for_the_next(driver: Driver) -> None:
    """A turn is locked to its model: a tool that swaps decides about the next turn only."""

    def move(to: str) -> str:
        """Move to another model."""
        return session.swap(to).model

    provider = {
        "anthropic": Wire([handwritten_anthropic(Call("t1", "move", {"to": OLLAMA})), handwritten_anthropic("Moved.")]),
        "ollama": Wire([handwritten_ollama("Here.")]),
    }
    session: Session | AsyncSession = driver.session(provider, tools=[move])
    assert driver.ask(session, "Move.").message.metadata.provider == "anthropic"
    assert driver.ask(session, "Where?").message.metadata.provider == "ollama"
    models = [message.metadata.routing.chosen_model for message in session.messages if message.metadata.routing]
    assert models == [ANTHROPIC, ANTHROPIC, OLLAMA]


@needs_files
def test_unreadable_files_refuse_the_swap(tmp_path: Path) -> None:
    """A file that the next request cannot send prevents every swap."""
    image = ImageBlock(source=MediaSource(kind="file_ref", data="gone.png"))
    session = Session(ANTHROPIC, messages=[Message.user([image])], workspace=tmp_path)
    assert refusal_reasons(session, "ollama:gemma3:4b") == (
        "the file 'gone.png' is not there: put it into the workspace",
    )
    (tmp_path / "gone.png").write_bytes(b"hi")
    assert {loss.severity for loss in session.swap("ollama:gemma3:4b").losses} <= {Severity.INFO}


def test_a_swap_adds_no_message() -> None:
    """The history records messages; a swap has none."""
    driver = SyncDriver()
    session = driver.session(wires())
    session.swap(OLLAMA)
    assert session.messages == ()


def test_a_refused_swap_is_a_sentence() -> None:
    """The names of the reasons stand behind what they mean."""
    session = Session(ANTHROPIC, messages=[Message.user([IMAGE])])
    with pytest.raises(SwapRefusedError) as caught:
        session.swap(OLLAMA)
    assert str(caught.value) == (
        f"the session cannot move to {OLLAMA}, because the history holds images (no_vision_support)"
    )
