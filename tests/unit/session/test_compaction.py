"""Compacting: the request for a summary, the requests after it, what is kept, and what it costs."""

import asyncio
import itertools
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman import Store
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import CompactionError, ConfigurationError, ServerError, UnknownProviderError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical import rules
from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.errors import StoreError
from dragoman.session import AsyncSession, Session, tool
from dragoman.session.turn.compaction import SUMMARY_PREFIX, SUMMARY_PROMPT
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, AsyncDriver, Driver, FakeTime, SyncDriver, Wire, texts
from tests.unit.session.handwritten_replies import Call, Thought, handwritten_anthropic, handwritten_ollama

SMALL = "ollama:phi3:mini"
WINDOW = get_adapter(SMALL).capabilities.max_context_tokens


@tool(side_effects="none")
def look(at: str) -> str:
    """Look at something."""
    return f"{at}: fine"


def anthropic(*texts: str, usage: tuple[int, int] = (12, 5)) -> Wire:
    return Wire([handwritten_anthropic(text, usage=usage) for text in texts])


def conversation(turns: int, words: int = 1) -> list[Message]:
    """Questions and answers by number."""
    messages = []
    for number in range(turns):
        messages += [Message.user(f"Q{number} " + "word " * words), Message.assistant(f"A{number}")]
    return messages


def first_words(messages: list[dict[str, Any]]) -> list[str]:
    """The first word of each message of a request, as the provider reads it."""
    parts = [message["content"] for message in messages]
    return [(part if isinstance(part, str) else part[0].get("text", part[0]["type"])).split()[0] for part in parts]


def test_a_summary_replaces_the_messages_it_covers(driver: Driver) -> None:
    """The history keeps everything; requests hold the system prompt, the summary and the rest."""
    wire = anthropic("They greeted.", "Fine.")
    session = driver.session({"anthropic": wire}, system="Be brief.", messages=conversation(3), tools=[look])
    before = session.messages
    summary = driver.compact(session, keep_last=2, instructions="Keep the names.")
    assert session.messages == (*before, summary)
    assert summary.role is Role.USER
    assert summary.text == SUMMARY_PREFIX + "They greeted."
    assert summary.metadata.summary_of == tuple(message.id for message in before[1:5])
    assert (summary.metadata.model, summary.metadata.provider) == (ANTHROPIC, "anthropic")
    assert rules.check([summary]) == []

    first_request = wire.requests[0]
    assert first_words(first_request["messages"]) == ["Q0", "A0", "Q1", "A1", SUMMARY_PROMPT.split()[0]]
    assert first_request["messages"][-1]["content"][-1]["text"] == f"{SUMMARY_PROMPT}\n\nKeep the names."
    assert (first_request["system"], first_request["tool_choice"]) == ("Be brief.", {"type": "none"})

    driver.ask(session, "And now?")
    assert wire.requests[1]["system"] == "Be brief."
    assert first_words(wire.requests[1]["messages"]) == [SUMMARY_PREFIX.split()[0], "Q2", "A2", "And"]
    assert [text for _, text in texts(session)][-2:] == ["And now?", "Fine."]


def test_sync_and_async_record_the_same() -> None:
    dumps = []
    for driver in (SyncDriver(), AsyncDriver()):
        history = [message.model_copy(update={"id": f"m{place}"}) for place, message in enumerate(conversation(3))]
        history = [message.model_copy(update={"created_at": "2026-11-01T00:00:00Z"}) for message in history]
        session = driver.session({"anthropic": anthropic("So far.", "Yes.")}, messages=history)
        driver.compact(session)
        driver.ask(session, "And?")
        dumps.append(session.dump())
        driver.close(session)
        if isinstance(driver, AsyncDriver):
            driver.runner.close()
    assert dumps[0] == dumps[1]


def test_compaction_costs_count_for_the_session(driver: Driver) -> None:
    """The cost of the summary counts, but the summary is not an answer when the next turn is estimated."""
    wire = anthropic("Hello.", "So far.", usage=(1000, 100))
    session = driver.session({"anthropic": wire})
    driver.ask(session, "Hi")
    once = session.cost
    summary = driver.compact(session, keep_last=0)
    assert summary.usage is not None
    assert summary.usage.cost_usd
    assert once.usd is not None
    assert session.cost.usd == once.usd + summary.usage.cost_usd
    assert session.cost.by_model == {ANTHROPIC: session.cost.usd}
    assert session.usage.output_tokens == 200
    assert session.preview(OLLAMA).answer_tokens == 100


def test_calls_and_results_stay_together(driver: Driver) -> None:
    """The cut moves back to the call, which keeps its issuer's id."""
    wire = Wire([handwritten_anthropic(Thought("Hm."), Call("toolu_A", "look", {"at": "a"})),
                 handwritten_anthropic("A is fine."), handwritten_anthropic("So far."),
                 handwritten_anthropic("Yes.")])  # fmt: skip
    session = driver.session({"anthropic": wire}, tools=[look], messages=conversation(2))
    driver.ask(session, "Look at a.")
    driver.compact(session, keep_last=2)
    assert [str(message.role) for message in session.messages][-4:] == ["assistant", "tool", "assistant", "user"]
    driver.ask(session, "Sure?")
    sent = wire.requests[-1]["messages"]
    blocks = [block for message in sent for block in message["content"] if isinstance(block, dict)]
    assert [block["id"] for block in blocks if block["type"] == "tool_use"] == ["toolu_A"]
    assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == ["toolu_A"]
    assert first_words(sent)[0] == SUMMARY_PREFIX.split()[0]


def test_kept_signed_thinking_stays(driver: Driver) -> None:
    """A model whose signatures are not bound to the prefix gets its own thinking back."""
    sonnet = "anthropic:claude-sonnet-4-5"
    wire = Wire(
        [handwritten_anthropic(Thought("Hm."), "Yes."), handwritten_anthropic("So."), handwritten_anthropic("!")]
    )
    session = driver.session({"anthropic": wire}, sonnet, messages=conversation(2))
    driver.ask(session, "Really?")
    driver.compact(session, keep_last=1)
    driver.ask(session, "And?")
    kept = wire.requests[-1]["messages"][1]
    assert kept["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}


def test_critical_messages_stay_whole(driver: Driver) -> None:
    """No summary replaces them: they are sent unchanged, in their order."""
    vow = Message.user("Never delete anything.", metadata=MessageMetadata(critical=True))
    wire = anthropic("So far.", "Ok.")
    session = driver.session({"anthropic": wire}, messages=[*conversation(2), vow, *conversation(2)])
    summary = driver.compact(session, keep_last=1)
    assert session.messages[4].id not in (summary.metadata.summary_of or ())
    driver.ask(session, "And?")
    assert json.dumps(wire.requests[1]).count("Never delete anything.") == 1
    assert "Never delete" not in json.dumps(wire.requests[0])


def test_a_summary_can_be_summarised(driver: Driver) -> None:
    """Any number of times: the last summary replaces the others, and only it is sent."""
    wire = anthropic("First.", "Yes.", "Second.", "No.")
    session = driver.session({"anthropic": wire}, messages=conversation(2))
    first = driver.compact(session, keep_last=0)
    driver.ask(session, "More?")
    second = driver.compact(session, keep_last=1)
    assert second.metadata.summary_of == (first.id, session.messages[5].id)
    assert first_words(wire.requests[2]["messages"])[0] == SUMMARY_PREFIX.split()[0]
    driver.ask(session, "Still?")
    assert "First." not in json.dumps(wire.requests[3])
    assert "Second." in json.dumps(wire.requests[3])


def test_compaction_makes_room_for_a_swap(driver: Driver) -> None:
    """The advice of the refusal works: the present model compacts for the other model's window."""
    wires = {"anthropic": anthropic("So far."), "ollama": Wire([handwritten_ollama("Ok.")])}
    history = conversation(40, words=2000)
    session = driver.session(wires, messages=history, system="Be brief.")
    assert session.preview(SMALL).refusals == ("exceeds_context_window",)
    tokens = session.preview(SMALL).present_tokens
    driver.compact(session, SMALL)
    seen = session.preview(SMALL)
    assert seen.fits
    assert seen.input_tokens < WINDOW
    assert (session.preview(ANTHROPIC).present_tokens or 0) < (tokens or 0) // 3
    assert session.model == ANTHROPIC
    session.swap(SMALL)
    driver.ask(session, "Next?")
    assert first_words(wires["ollama"].requests[0]["messages"])[:2] == ["Be", SUMMARY_PREFIX.split()[0]]


def test_summarised_images_no_longer_prevent_a_swap(driver: Driver) -> None:
    """A swap considers only what would be sent."""
    image = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")
    session = driver.session({"anthropic": anthropic("A dot.")}, messages=[Message.user([image]), *conversation(1)])
    assert session.preview(OLLAMA).refusals == ("no_vision_support",)
    driver.compact(session, keep_last=2)
    assert session.swap(OLLAMA).fits


def test_a_history_too_long_to_read_at_once_is_summarized_in_chunks(driver: Driver) -> None:
    """A history over the writer's own window: each piece is summarised with the summary before it."""
    wire = Wire([handwritten_ollama(f"Part {number}.") for number in range(20)])
    session = driver.session({"ollama": wire}, SMALL, messages=conversation(40, words=2000))
    last = driver.compact(session)
    steps = [message for message in session.messages if message.metadata.summary_of is not None]
    assert len(steps) == len(wire.requests) > 1
    assert steps[-1] == last
    for before, after in itertools.pairwise(steps):
        assert (after.metadata.summary_of or ())[0] == before.id
    adapter = get_adapter(SMALL)
    for request in wire.requests:
        sent = [Message(role=message["role"], content=message["content"]) for message in request["messages"]]
        assert adapter.estimate_input_tokens(sent, ()) + request["options"]["num_predict"] <= WINDOW
    assert session.preview(SMALL).fits
    assert session.cost.replies == len(steps)


def test_a_stored_session_continues_compacted(driver: Driver) -> None:
    """Dump and load keep the whole history, and send the same bytes as before."""
    session = driver.session({"anthropic": anthropic("So far.")}, messages=conversation(3), system="Be brief.")
    driver.compact(session, keep_last=2)
    wire = anthropic("Yes.")
    back = type(session).load(session.dump(), providers=driver.session({"anthropic": wire}).providers)
    assert back.messages == session.messages
    assert back.dump() == session.dump()
    assert back.cost == session.cost
    assert back.preview(OLLAMA) == session.preview(OLLAMA)
    driver.ask(back, "And?")
    assert first_words(wire.requests[0]["messages"])[0] == SUMMARY_PREFIX.split()[0]
    assert "Q0" not in json.dumps(wire.requests[0])


def test_a_summary_is_not_bought_if_the_store_is_gone(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary could not be stored, even if everything that was said is."""

    def refuse(*_: Any, **__: Any) -> None:
        raise StoreError("the database does not answer")

    with Store(f"sqlite:///{tmp_path}/chats.db") as store:
        wire = anthropic("One.", "So far.")
        session = driver.session({"anthropic": wire}, messages=conversation(3), store=store)
        driver.ask(session, "Hi")
        monkeypatch.setattr(store, "append", refuse)
        with pytest.raises(StoreError):
            driver.compact(session, keep_last=2)
    assert len(wire.requests) == 1


def test_answer_options_do_not_apply_to_a_summary() -> None:
    """Schema, stop sequences, forced calls and budgets are left out; its length is limited by the free room."""
    wire = anthropic("So far.")
    options = AdapterOptions(
        output_schema={"type": "object"}, stop_sequences=("END",), tool_choice="required", max_output_tokens=100,
        thinking=True, thinking_budget=20_000, strict_prefix=True,
    )  # fmt: skip
    session = SyncDriver().session(
        {"anthropic": wire}, "anthropic:claude-sonnet-4-5", messages=conversation(2), options=options
    )
    session.compact()
    first_request = wire.requests[0]
    assert first_request["max_tokens"] == 2048
    assert not {"output_config", "output_format", "stop_sequences", "tool_choice", "thinking"} & set(first_request)


def fail_to_compact(session: Any, driver: Driver, **how: Any) -> CompactionError:
    before = session.messages
    with pytest.raises(CompactionError) as caught:
        driver.compact(session, **how)
    assert session.messages == before
    return caught.value


@pytest.mark.parametrize(
    "reply",
    [handwritten_anthropic("No.", stop="refusal"), handwritten_anthropic(" \n"), handwritten_anthropic()],
    ids=["refused", "blank", "empty"],
)
def test_an_invalid_summary_changes_nothing(driver: Driver, reply: Any) -> None:
    """The error says so, and has the reply, which was billed."""
    session = driver.session({"anthropic": Wire([reply])}, messages=conversation(2))
    error = fail_to_compact(session, driver)
    assert "try again" in str(error)
    assert error.reply.usage.output_tokens == 5


def test_a_failing_provider_changes_nothing(driver: Driver) -> None:
    """Its error is raised after the retries, and the history is as before."""
    session = driver.session({"anthropic": Wire([httpx.Response(500, json={})] * 3)}, messages=conversation(2))
    before = session.messages
    with pytest.raises(ServerError):
        driver.compact(session)
    assert session.messages == before


def test_a_broken_summary_is_retried(driver: Driver) -> None:
    """A broken summary is retried, as in a turn: by the retry policy."""
    fake_time = FakeTime()
    wire = Wire([httpx.Response(200, json={"error": "the runner has stopped"}), handwritten_ollama("So far.")])
    session = driver.session({"ollama": wire}, OLLAMA, messages=conversation(2), fake_time=fake_time)
    assert driver.compact(session).text == SUMMARY_PREFIX + "So far."
    assert len(fake_time.slept) == 1
    assert len(session.messages) == 5


@pytest.mark.parametrize(
    ("messages", "how"),
    [([], {}), ([Message.system("Be brief.")], {"keep_last": 0}), (conversation(2), {"keep_last": 4}),
     ([Message.user("!", metadata=MessageMetadata(critical=True))], {"keep_last": 0})],
    ids=["empty", "system", "all kept", "critical"],
)  # fmt: skip
def test_nothing_to_compact_is_an_error_before_anything_is_sent(
    driver: Driver, messages: list[Message], how: dict[str, Any]
) -> None:
    """Also if there are messages, but all of them are kept."""
    session = driver.session({"anthropic": Wire([])}, messages=messages)
    assert "nothing to compact" in str(fail_to_compact(session, driver, **how))


def long(**metadata: Any) -> Message:
    return Message.user("word " * 2 * WINDOW, metadata=MessageMetadata(**metadata))


@pytest.mark.parametrize(
    ("messages", "how", "advice"),
    [
        ([*conversation(1), long()], {"keep_last": 1}, "keep fewer messages than keep_last=1"),
        ([long(critical=True), *conversation(1)], {}, "mark fewer messages critical"),
        ([Message.system("word " * 2 * WINDOW), *conversation(1)], {}, "shorten the system prompt"),
    ],
    ids=["kept", "critical", "system"],
)
def test_an_impossible_compaction_names_what_to_do(
    driver: Driver, messages: list[Message], how: dict[str, Any], advice: str
) -> None:
    """If the part that no summary may replace is too long by itself."""
    session = driver.session({"anthropic": Wire([])}, messages=messages)
    assert advice in str(fail_to_compact(session, driver, model=SMALL, **how))


def test_an_answer_as_long_as_the_window_leaves_no_room(driver: Driver) -> None:
    """The window holds the answer too."""
    options = AdapterOptions(max_output_tokens=WINDOW)
    session = driver.session({"anthropic": Wire([])}, messages=conversation(2), options=options)
    assert f"ask for fewer output tokens than {WINDOW:,}" in str(fail_to_compact(session, driver, model=SMALL))


def test_a_message_beyond_the_window_needs_a_larger_model(driver: Driver) -> None:
    """One message beyond the window cannot be summarized in pieces."""
    session = driver.session({"ollama": Wire([])}, SMALL, messages=[long(), *conversation(1)])
    assert "swap to a model with a larger window" in str(fail_to_compact(session, driver))


def test_a_summary_that_is_too_long_is_reported(driver: Driver) -> None:
    """It is kept, because it was billed; the error says that the history still does not fit."""
    options = AdapterOptions(max_output_tokens=WINDOW - 1000)
    wire = anthropic("word " * 2000)
    session = driver.session({"anthropic": wire}, messages=conversation(2), options=options)
    with pytest.raises(CompactionError, match="larger window") as caught:
        driver.compact(session, SMALL)
    assert session.messages[-1] == caught.value.reply


def test_invalid_arguments_are_named(driver: Driver) -> None:
    """Before anything is sent."""
    session = driver.session({"anthropic": Wire([])}, messages=conversation(2))
    with pytest.raises(ConfigurationError, match="keep_last"):
        driver.compact(session, keep_last=-1)
    with pytest.raises(UnknownProviderError):
        driver.compact(session, "olama:x")


def test_a_tool_cannot_compact_its_own_session(driver: Driver) -> None:
    """The turn is still open: the call gets an error, and the turn continues."""
    session: Any = None

    def shorten(n: int) -> str:
        """Compact."""
        return str(session.compact())

    async def shorten_async(n: int) -> str:
        """Compact."""
        return str(await session.compact())

    tool_ = shorten if driver.name == "sync" else shorten_async
    wire = Wire([handwritten_anthropic(Call("t1", tool_.__name__, {"n": 1})), handwritten_anthropic("Ok.")])
    session = driver.session({"anthropic": wire}, tools=[tool_], messages=conversation(3))
    assert driver.ask(session, "Go").text == "Ok."
    assert "in the middle of a turn" in texts(session)[-2][1]


def test_a_cancelled_compaction_leaves_no_trace() -> None:
    """The task is cancelled, and the history is unchanged."""

    async def main() -> None:
        started = asyncio.Event()

        async def answer(request: httpx.Request) -> httpx.Response:
            started.set()
            await asyncio.Event().wait()
            raise AssertionError

        client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        settings = {"anthropic": {"client": client, "api_key": "k"}}
        async with AsyncSession(ANTHROPIC, messages=conversation(2), providers=settings) as session:
            before = session.messages
            task = asyncio.create_task(session.compact())
            await asyncio.wait_for(started.wait(), 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert session.messages == before

    asyncio.run(main())


def test_histories_without_summaries_are_sent_unchanged() -> None:
    """No message covers another one unless it says so."""
    session = Session(ANTHROPIC, messages=conversation(2))
    assert all(message.metadata.summary_of is None for message in session.messages)
    assert b"summary_of" not in session.dump()
    assert session.cost.usd is None
    assert Decimal(0) == (session.preview(OLLAMA).input_cost_usd or 0)
    assert isinstance(session.messages[0].content[0], TextBlock)
