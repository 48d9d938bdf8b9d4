"""State of a provider survives what agents do to a reply, and never stands where a client looks for the answer."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import Message, RequestContext, get_adapter
from dragoman.adapter.answers import provider_state
from dragoman.adapter.answers.client_ids import ClientToolIds
from dragoman.adapter.answers.state_keys import StateMemory
from dragoman.adapter.losses import LossKind
from dragoman.adapter.replies.message_events import reply_events
from dragoman.canonical.blocks import (
    ContentBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.events import StreamEvent, ThinkingDelta, ToolUseStart
from dragoman.canonical.message import MessageMetadata, StopReason
from tests.conformance.way_back.clients import STREAM, WHOLE
from tests.unit.adapter.answers.echoes import BEDROCK, KEYS, REDACTED, SIGNATURE

GEMINI, OPENAI = "google:gemini-3-pro-preview", "openai:gpt-5.4"
SIGNED = "U0lHTkVE"
DUMMY = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
QUESTION = {"role": "user", "content": "Mend it."}
EDIT = {"file_path": "a.py", "old_string": "-", "new_string": "+"}
THINKING = ThinkingBlock(text="The sign is wrong.", signature=SIGNATURE)
SEALED = RedactedThinkingBlock(data=REDACTED)
TEXT, MORE = TextBlock(text="I mend it."), TextBlock(text="And I test it.")


def call(number: int, name: str = "Edit") -> ToolUseBlock:
    return ToolUseBlock(id=f"tu_{number:026d}", name=name, input=dict(EDIT))


def answer(model: str, *content: ContentBlock, notes: dict[str, Any] | None = None) -> Message:
    """A reply of a model, with the provider's ids of its calls, and its adapter's notes on blocks."""
    calls = [block for block in content if isinstance(block, ToolUseBlock)]
    provider = model.partition(":")[0]
    ids = {each.id: f"native{number}" for number, each in enumerate(calls)}
    raw = {"by": provider, "tool_ids": ids, **({"blocks": notes} if notes else {})}
    stop = StopReason.TOOL_USE if calls else StopReason.END_TURN
    metadata = MessageMetadata(model=model, provider=provider, stop_reason=stop, provider_raw=raw)
    return Message(id="01K0000000000000000000000A", role="assistant", content=content, metadata=metadata)  # type: ignore[arg-type]  # pydantic makes the role


def gemini(*content: ContentBlock) -> Message:
    """A reply of Gemini: the first call is signed."""
    first = next(index for index, block in enumerate(content) if isinstance(block, ToolUseBlock))
    return answer(GEMINI, *content, notes={str(first): {"set": {"thoughtSignature": SIGNED}}})


def events_of(message: Message) -> list[StreamEvent]:
    """The events of a reply as its provider's decoder sends them: with what is known of a block at its start."""
    notes = (message.metadata.provider_raw or {}).get("blocks", {})
    events: list[StreamEvent] = []
    for event in reply_events(message):
        if isinstance(event, ToolUseStart):
            signature = notes.get(str(event.content_block_index), {}).get("set", {}).get("thoughtSignature")
            place = event.message_id, event.content_block_index, event.tool_use_id, event.tool_name
            event = ToolUseStart(*place, signature)
        events.append(event)
    for index, block in enumerate(message.content):
        if isinstance(block, RedactedThinkingBlock):
            later = (place for place, each in enumerate(events) if getattr(each, "content_block_index", -1) > index)
            place = next(later, len(events) - 1)
            events.insert(place, ThinkingDelta(message.id, index, "", redacted=block.data))
    return events


def context(model: str, team: str = "red", store: StateMemory | None = None) -> RequestContext:
    return RequestContext.for_model(
        model, state_sealer=KEYS, state_store=store, team_id=team, tool_ids=ClientToolIds(), prices=None
    )


def messages_content(message: Message, *, streamed: bool, given: RequestContext | None = None) -> list[dict[str, Any]]:
    """The content that a client of Messages has of a reply."""
    adapter, given = get_adapter("anthropic:client"), given or context(str(message.metadata.model))
    adapter.from_wire_request({"model": "m", "max_tokens": 9, "messages": [QUESTION]}, given)
    if streamed:
        seen = STREAM["anthropic"](b"".join(adapter.iter_encoded(events_of(message), given)))
    else:
        seen = WHOLE["anthropic"](adapter.to_wire_response(message, given).body)
    content: list[dict[str, Any]] = copy.deepcopy(seen.echo[0]["content"])
    return content


def results(content: list[dict[str, Any]]) -> dict[str, Any]:
    """The client's results for its calls, or its next question."""
    found = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "done"}
        for block in content
        if block["type"] == "tool_use"
    ]
    return {"role": "user", "content": found or "Go on."}


def sent_again(
    history: list[dict[str, Any]], model: str, team: str = "red", store: StateMemory | None = None
) -> tuple[str, list[Message], RequestContext]:
    """The request to the provider for a client's history, its messages, and the context with the losses."""
    given = context(model, team, store)
    body = {"model": "m", "max_tokens": 9, "messages": history}
    messages, tools, options = get_adapter("anthropic:client").from_wire_request(body, given)
    return get_adapter(model).to_wire(messages, tools, options).body.decode(), messages, given


def add_default(content: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Claude Code fills in the defaults of its tools."""
    for block in content:
        if block["type"] == "tool_use":
            block["input"] = {"replace_all": False, **block["input"]}
    return [content]


def move_state_to_front(content: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [sorted(content, key=lambda block: block["type"] not in ("thinking", "redacted_thinking"))]


def move_state_between_calls(content: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Claude Code puts opaque blocks directly before a call."""
    opaque = [block for block in content if block["type"] == "redacted_thinking"]
    others = [block for block in content if block["type"] != "redacted_thinking"]
    return [[*others[:-1], *opaque, others[-1]]]


def split(content: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Claude Code keeps each block as a message of its own."""
    return [[block] for block in content]


def trim(content: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    for block in content:
        if block["type"] == "text":
            block["text"] = f"  {block['text']}\n"
    return [content]


CHANGES: list[Callable[[list[dict[str, Any]]], list[list[dict[str, Any]]]]] = [
    add_default, move_state_to_front, move_state_between_calls, split, trim,
]  # fmt: skip


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("message", "marks"),
    [
        (gemini(ThinkingBlock(text="Hm."), TEXT, call(0), call(1)), (SIGNED,)),
        (gemini(call(0), call(1)), (SIGNED,)),
        (answer(OPENAI, THINKING, TEXT, call(0), call(1)), (SIGNATURE, "native0", "native1")),
        (answer(OPENAI, ThinkingBlock(text="", signature=SIGNATURE), call(0)), (SIGNATURE, "native0")),
        (answer(BEDROCK, THINKING, SEALED, TEXT, call(0), call(1)), (SIGNATURE, REDACTED, "native0", "native1")),
    ],
    ids=["gemini", "gemini-calls-only", "openai", "openai-without-text", "bedrock"],
)
def test_what_agents_do_to_a_reply_loses_nothing(
    message: Message, marks: tuple[str, ...], change: Callable[..., list[list[dict[str, Any]]]], *, streamed: bool
) -> None:
    """Defaults in arguments, moved and split blocks, and white space: the provider gets all of its state back."""
    content = messages_content(message, streamed=streamed)
    answered = results(content)
    replies = [{"role": "assistant", "content": each} for each in change(content)]
    body, messages, given = sent_again([QUESTION, *replies, answered], str(message.metadata.model))
    assert all(mark in body for mark in marks), body
    assert DUMMY not in body
    assert given.losses == []
    assert [block.type for block in messages[1].content] == [block.type for block in message.content]
    assert provider_state.MARK not in body


def test_an_edited_history_keeps_the_state_of_later_replies() -> None:
    """Agents clear old results and move their reminders."""
    message = gemini(TEXT, call(0))
    content = messages_content(message, streamed=False)
    history = [{"role": "user", "content": "Summary of all before."}, {"role": "assistant", "content": content}]
    body, _, given = sent_again([*history, results(content)], GEMINI)
    assert SIGNED in body
    assert given.losses == []


def test_a_changed_text_keeps_the_signature_of_its_call() -> None:
    """A note on one block is void if the client changed that block, and no other."""
    notes = {"0": {"set": {"thoughtSignature": "T0xE"}}, "1": {"set": {"thoughtSignature": SIGNED}}}
    message = answer(GEMINI, TEXT, call(0), notes=notes)
    content = messages_content(message, streamed=False)
    for block in content:
        if block["type"] == "text":
            block["text"] = "I subtract."
    body, _, given = sent_again([QUESTION, {"role": "assistant", "content": content}, results(content)], GEMINI)
    assert SIGNED in body
    assert "T0xE" not in body
    assert [loss.kind for loss in given.losses] == [LossKind.STATE]


def test_a_call_whose_state_is_gone_gets_what_stands_for_it() -> None:
    """Gemini refuses a call without any signature."""
    content = messages_content(gemini(ThinkingBlock(text="Hm."), TEXT, call(0)), streamed=False)
    kept = [block for block in content if block["type"] != "redacted_thinking"]
    body, _, _ = sent_again([QUESTION, {"role": "assistant", "content": kept}, results(kept)], GEMINI)
    assert DUMMY in body


CONTENTS: dict[str, tuple[ContentBlock, ...]] = {
    "thinking, text": (THINKING, TEXT),
    "text, thinking": (TEXT, THINKING),
    "text, thinking, text": (TEXT, THINKING, MORE),
    "text, sealed": (TEXT, SEALED),
    "sealed, text": (SEALED, TEXT),
    "state without text, text": (ThinkingBlock(text="", signature=SIGNATURE), TEXT),
    "thinking, text, calls": (THINKING, TEXT, call(0), call(1)),
    "thinking, calls": (THINKING, call(0), call(1)),
    "calls": (call(0), call(1)),
    "sealed, calls": (SEALED, call(0)),
    "text, call, thinking": (TEXT, call(0), THINKING),
    "thinking, call, thinking": (THINKING, call(0), THINKING.model_copy(update={"text": "Then."})),
    "text, native": (THINKING, TEXT, ProviderBlock(provider="bedrock", kind="x", data={"x": 1})),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_messages_reply_ends_in_a_text_or_a_call(content: tuple[ContentBlock, ...], *, streamed: bool) -> None:
    """Clients take the last block for the answer. What stood behind it is in front of it, or is kept in the store."""
    message = answer(BEDROCK, *content)
    store = StateMemory()
    first = context(BEDROCK, store=store)
    said = messages_content(message, streamed=streamed, given=first)
    last = "tool_use" if message.tool_uses else "text"
    assert said[-1]["type"] == last
    assert [block["text"] for block in said if block["type"] == "text"] == [
        block.text for block in content if isinstance(block, TextBlock)
    ]
    assert not [loss for loss in first.losses if loss.kind is LossKind.STATE]
    history = [QUESTION, {"role": "assistant", "content": said}, results(said)]
    _, messages, given = sent_again(history, BEDROCK, store=store)
    assert messages[1].content == content
    assert given.losses == []


def test_state_that_comes_after_the_streamed_text_is_a_loss_without_a_store() -> None:
    """The text was sent: nothing may follow it."""
    first = context(BEDROCK)
    said = messages_content(answer(BEDROCK, TEXT, THINKING), streamed=True, given=first)
    assert [block["type"] for block in said] == ["text"]
    assert {loss.kind for loss in first.losses} == {LossKind.STATE, LossKind.THINKING}


def test_unsigned_thinking_after_the_streamed_text_is_no_lost_state() -> None:
    """The client does not see it, and its provider wants nothing back."""
    first = context(OPENAI)
    messages_content(answer(OPENAI, TEXT, ThinkingBlock(text="Hm.")), streamed=True, given=first)
    assert {loss.kind for loss in first.losses} == {LossKind.THINKING}


@pytest.mark.parametrize("wire", ["openai-chat", "ollama"])
def test_a_reply_that_was_cut_in_its_thinking_is_known_by_its_place(wire: str) -> None:
    """It says nothing, and its client returns an empty text."""
    message, store = answer(OPENAI, ThinkingBlock(text="", signature=SIGNATURE)), StateMemory()
    adapter, first = get_adapter(f"{wire}:client"), context(OPENAI, store=store)
    adapter.from_wire_request({"model": "m", "messages": [QUESTION]}, first)
    adapter.to_wire_response(message, first)
    for content, opens in (("", True), ("Something else.", False)):
        again = [QUESTION, {"role": "assistant", "content": content}, QUESTION]
        messages, _, _ = adapter.from_wire_request({"model": "m", "messages": again}, context(OPENAI, store=store))
        assert (messages[1].content == message.content) is opens
    other = context(OPENAI, "blue", store=store)
    again = [QUESTION, {"role": "assistant", "content": ""}, QUESTION]
    messages, _, _ = adapter.from_wire_request({"model": "m", "messages": again}, other)
    assert messages[1].content == ()


def test_a_reply_with_nothing_but_thinking_keeps_it() -> None:
    for streamed in (False, True):
        said = messages_content(answer(BEDROCK, THINKING), streamed=streamed)
        assert said[0]["type"] == "thinking"


@pytest.mark.parametrize("thoughts", ["none", "unsigned"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_google_client_that_leaves_out_thoughts_returns_their_state_with_its_call(
    *, streamed: bool, thoughts: str
) -> None:
    """Gemini CLI sends back calls with their signatures, and no thoughts; opencode sends thoughts without theirs."""
    message = answer(BEDROCK, THINKING, SEALED, TEXT, call(0), call(1))
    adapter, first = get_adapter("google:client"), context(BEDROCK)
    question = {"role": "user", "parts": [{"text": "Mend it."}]}
    adapter.from_wire_request({"contents": [question]}, first)
    if streamed:
        written = b"".join(adapter.iter_encoded(events_of(message), first)).split(b"\r\n\r\n")
        chunks = [json.loads(each.removeprefix(b"data: ")) for each in written if each]
    else:
        chunks = [json.loads(adapter.to_wire_response(message, first).body)]
    parts = [part for each in chunks for part in each["candidates"][0]["content"]["parts"]]
    kept = [part for part in parts if not part.get("thought") and part.get("text") != ""]
    if thoughts == "unsigned":
        said = "".join(part["text"] for part in parts if part.get("thought") and part.get("text"))
        kept.insert(0, {"thought": True, "text": said})
    answers = [
        {"functionResponse": {"name": "Edit", "id": part["functionCall"]["id"], "response": {"output": "done"}}}
        for part in kept
        if "functionCall" in part
    ]
    contents = [question, {"role": "model", "parts": kept}, {"role": "user", "parts": answers}]
    given = context(BEDROCK)
    messages, tools, options = adapter.from_wire_request({"contents": contents}, given)
    assert messages[1].content == message.content
    assert given.losses == []
    body = get_adapter(BEDROCK).to_wire(messages, tools, options).body.decode()
    assert SIGNATURE in body
    assert REDACTED in body
    other = context(BEDROCK, "blue")
    messages, tools, options = adapter.from_wire_request({"contents": contents}, other)
    body = get_adapter(BEDROCK).to_wire(messages, tools, options).body.decode()
    assert SIGNATURE not in body
    assert provider_state.MARK not in body
    assert [loss.kind for loss in other.losses] == [LossKind.STATE]
    body = get_adapter(GEMINI).to_wire(messages, tools, options).body.decode()
    assert provider_state.MARK not in body


FIRST = Path(__file__).parent / "envelopes_of_version_1.json"


@pytest.mark.parametrize("name", json.loads(FIRST.read_text(encoding="utf-8")))
def test_envelopes_of_version_1_open(name: str) -> None:
    """Conversations that began before an update go on; another team still opens nothing."""
    body = json.loads(FIRST.read_text(encoding="utf-8"))[name]
    wire, _, behind = name.partition(" before ")
    model = GEMINI if behind else BEDROCK if wire == "anthropic" else "anthropic:claude-opus-5-5"
    marks = (SIGNED,) if behind else (SIGNATURE, REDACTED, "toolu_native0", "toolu_native1")
    for team, opens in (("red", True), ("blue", False)):
        given = context(model, team)
        messages, tools, options = get_adapter(f"{wire}:client").from_wire_request(copy.deepcopy(body), given)
        sent = get_adapter(model).to_wire(messages, tools, options).body.decode()
        assert all((mark in sent) is opens for mark in marks)
        assert provider_state.MARK not in sent
        assert bool(given.losses) is not opens
    other = json.loads(json.dumps(body).replace("1 + 1", "6 * 7"))
    given = context(model)
    get_adapter(f"{wire}:client").from_wire_request(other, given)
    assert {loss.kind for loss in given.losses} == {LossKind.STATE}
