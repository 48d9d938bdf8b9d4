"""Canonical to wire: the encoding of foreign conversations."""

import json

import pytest

from dragoman import AdapterOptions, Message
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from tests.unit.adapters.cohere.wire import WEATHER, Native, body_of, foreign, text

HI = Message.user("Hi")
CALL = "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5"
IMAGE = MediaSource(kind="base64", data="YQ==")


def test_foreign_thinking_and_citations_are_losses() -> None:
    """The wire supports neither."""
    spoken_text = TextBlock(text="Hello", citations=(Citation(kind="web", data={"a": 1}),))
    body, losses = body_of([HI, foreign(ThinkingBlock(text="Hm.", signature="s"), spoken_text), HI])
    assert body["messages"][1] == {"role": "assistant", "content": "Hello"}
    assert set(losses) == {LossKind.THINKING, LossKind.CITATIONS}


def test_calls_are_written_with_their_arguments_as_text() -> None:
    """And answered by messages of the tool; a failure has no flag."""
    body, losses = body_of(
        [
            HI,
            foreign(TextBlock(text="Let me see."), ToolUseBlock(id=CALL, name="weather", input={"city": "Köln"})),
            Message.tool(CALL, "No such city", is_error=True),
        ]
    )
    _, spoken_text, answer = body["messages"]
    (called,) = spoken_text["tool_calls"]
    assert called["function"] == {"name": "weather", "arguments": '{"city":"Köln"}'}
    assert answer == {"role": "tool", "tool_call_id": called["id"], "content": "No such city"}
    assert losses == (LossKind.FLATTENED,)


def test_malformed_arguments_are_a_loss() -> None:
    called = ToolUseBlock(id=CALL, name="weather", raw_input="{half")
    body, losses = body_of([HI, foreign(called), Message.tool(CALL, "x")])
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert LossKind.INVALID_INPUT in losses


def test_an_empty_answer_is_an_empty_text() -> None:
    """A tool may return nothing."""
    called = ToolUseBlock(id=CALL, name="weather")
    body, _ = body_of([HI, foreign(called), Message.tool(CALL, "")])
    assert body["messages"][2]["content"] == ""


MEDIA: list[tuple[ContentBlock, Native]] = [
    (
        ImageBlock(source=IMAGE),
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,YQ=="}},
    ),
    (
        ImageBlock(source=MediaSource(kind="url", data="https://x.test/a.png"), detail="low"),
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}},
    ),
    (
        DocumentBlock(source=MediaSource(kind="text", data="Facts."), title="facts.txt", context="Old"),
        text("[document facts.txt]\nOld\nFacts."),
    ),
    (
        DocumentBlock(source=MediaSource(kind="text", data="Facts.")),
        text("[document without a title]\nFacts."),
    ),
]


@pytest.mark.parametrize(("block", "part"), MEDIA)
def test_media_become_parts(block: ImageBlock | DocumentBlock, part: Native) -> None:
    """Media become parts: images by data URL or address, text documents as text."""
    body, losses = body_of([Message.user((TextBlock(text="Look"), block))])
    assert body["messages"][0]["content"] == [text("Look"), part]
    flat = isinstance(block, DocumentBlock)
    guessed = not flat and block.source.kind == "base64" and block.media_type is None
    assert losses == (LossKind.FLATTENED,) * flat + (LossKind.MEDIA,) * guessed


def test_media_of_tools_follow_their_answer() -> None:
    """Tool messages hold only text."""
    called = ToolUseBlock(id=CALL, name="look")
    answer = Message.tool(CALL, (TextBlock(text="Here"), ImageBlock(source=IMAGE, media_type="image/png")))
    body, losses = body_of([HI, foreign(called), answer])
    _, _, answered, behind = body["messages"]
    assert answered["content"] == [text("Here"), text("[image follows]")]
    assert behind["content"][0]["type"] == "image_url"
    assert losses == (LossKind.FLATTENED,)


def test_unsupported_media_are_left_out() -> None:
    pdf = DocumentBlock(source=IMAGE, media_type="application/pdf")
    body, losses = body_of([Message.user((ImageBlock(source=IMAGE), pdf))], model="command-a-03-2025")
    assert losses == (LossKind.MEDIA, LossKind.MEDIA)
    assert "left out" in json.dumps(body)


def test_a_named_tool_choice_becomes_any() -> None:
    """The wire cannot name the tool."""
    body, losses = body_of([HI], [WEATHER], AdapterOptions(tool_choice=NamedTool("weather")))
    assert body["tool_choice"] == "REQUIRED"
    assert losses == (LossKind.OPTION,)


def test_an_older_model_takes_no_tool_choice() -> None:
    """The field came with Command R7B."""
    body, losses = body_of([HI], [WEATHER], AdapterOptions(tool_choice="required"), model="command-r-08-2024")
    assert "tool_choice" not in body
    assert losses == (LossKind.OPTION,)


CHOICES = [("auto", None), ("none", "NONE"), ("required", "REQUIRED")]


@pytest.mark.parametrize(("choice", "written"), CHOICES)
def test_tool_choices_are_encoded(choice: str, written: str | None) -> None:
    """The default needs no field."""
    body, losses = body_of([HI], [WEATHER], AdapterOptions(tool_choice=choice))  # type: ignore[arg-type]
    assert (body.get("tool_choice"), losses) == (written, ())


THINKING = [
    (AdapterOptions(thinking=True), {"type": "enabled"}, 0),
    (AdapterOptions(thinking_budget=9), {"type": "enabled", "token_budget": 9}, 0),
    (AdapterOptions(thinking=False), {"type": "disabled"}, 0),
    (AdapterOptions(effort="none"), {"type": "disabled"}, 0),
    (AdapterOptions(effort="high"), None, 1),
]


@pytest.mark.parametrize(("options", "written", "lost"), THINKING)
def test_thinking_has_a_switch_and_a_budget(options: AdapterOptions, written: Native | None, lost: int) -> None:
    """There are no levels."""
    body, losses = body_of([HI], options=options)
    assert (body.get("thinking"), len(losses)) == (written, lost)


def test_a_model_without_reasoning_gets_no_reasoning_option() -> None:
    """No option is sent, not even one that turns reasoning off."""
    body, losses = body_of([HI], options=AdapterOptions(thinking=True), model="command-a-03-2025")
    assert ("thinking" in body, losses) == (False, (LossKind.OPTION,))
    body, losses = body_of([HI], options=AdapterOptions(thinking=False), model="command-a-03-2025")
    assert ("thinking" in body, losses) == (False, ())


def test_unsupported_options_are_losses() -> None:
    """Parallel calls cannot be forbidden."""
    _, losses = body_of([HI], options=AdapterOptions(parallel_tool_calls=False))
    assert losses == (LossKind.OPTION,)


def test_a_schema_is_a_response_format() -> None:
    body, _ = body_of([HI], options=AdapterOptions(output_schema={"type": "object"}, stop_sequences=("END",)))
    assert body["response_format"] == {"type": "json_object", "json_schema": {"type": "object"}}
    assert body["stop_sequences"] == ["END"]
