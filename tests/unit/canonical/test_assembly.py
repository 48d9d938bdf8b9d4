"""Models that are assembled from valid parts are those that validation would have made."""

import copy
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from dragoman import RequestContext, get_adapter
from dragoman.canonical import blocks, guard
from dragoman.canonical.blocks import Citation, ContentBlock, TextBlock, ToolUseBlock, text_block
from dragoman.canonical.message import Channel, Message, MessageMetadata, Role, assemble_message
from dragoman.canonical.message_fields import assemble_metadata
from tests.tables import each_row

NOW = datetime(2026, 11, 21, tzinfo=UTC)
PARTS: dict[str, Any] = {
    "id": "01M7YJFK7P2ZFT4X2CGGZPP6M5",
    "session_id": "s",
    "role": Role.USER,
    "content": (TextBlock(text="Hi"),),
    "channel": None,
    "metadata": MessageMetadata(provider_raw={"by": "a"}),
    "created_at": NOW,
}
CITED = TextBlock(text="Hi", citations=(Citation(kind="url", url="https://a.example"),))


def assert_same(assembled: BaseModel, validated: BaseModel) -> None:
    """Whatever a program can see of them."""
    for each in (assembled, copy.deepcopy(assembled), pickle.loads(pickle.dumps(assembled)), assembled.model_copy()):
        assert type(each) is type(validated)
        assert list(vars(each).items()) == list(vars(validated).items())
        assert each.model_fields_set == validated.model_fields_set
        assert each.model_extra == validated.model_extra
        assert (each, repr(each), hash(each)) == (validated, repr(validated), hash(validated))
        assert each.model_dump_json() == validated.model_dump_json()
    with pytest.raises(ValidationError):
        assembled.unknown = 1  # type: ignore[attr-defined]  # frozen, as validated ones


@each_row("text", ["", "Hi", "é", "x" * 1000])
def test_a_text(text: str) -> None:
    assert_same(text_block(text), TextBlock(text=text))


@each_row("text", [None, 1, ["x"], "\ud800", "x" * 1001, "é" * 1001])
def test_no_text(text: Any) -> None:
    """The error is that of the class."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "MAX_BODY_BYTES", 1000)
        patch.setattr(blocks, "MAX_BODY_BYTES", 1000)
        with pytest.raises(ValidationError) as expected:
            TextBlock(text=text)
        with pytest.raises(ValidationError) as found:
            text_block(text)
        assert str(found.value) == str(expected.value)


@each_row("fields", [{}, {"provider_raw": {"by": "a"}}, {"model": "a:b", "provider": "a", "cache_breakpoints": (0,)}])
def test_metadata(fields: dict[str, Any]) -> None:
    assert_same(assemble_metadata(**fields), MessageMetadata(**fields))


CONTENTS: tuple[tuple[ContentBlock, ...], ...] = (
    (),
    (text_block("a"),),
    (text_block("a"), text_block("b")),
    (CITED,),
    (ToolUseBlock(id="tu_1", name="f", input={"a": 1}),),
)


@each_row(
    "changed",
    [
        {},
        {"id": "é", "session_id": ""},
        {"role": Role.ASSISTANT, "channel": Channel.FINAL},
        *({"content": content} for content in CONTENTS),
    ],
)
def test_a_message(changed: dict[str, Any]) -> None:
    assert_same(assemble_message(**PARTS | changed), Message(**PARTS | changed))


@each_row(
    "changed",
    [
        {"id": "\ud800"},
        {"session_id": "\ud800"},
        {"created_at": datetime(2026, 11, 21)},  # noqa: DTZ001 - without a zone
        {"content": (text_block("x" * 600), text_block("x" * 600))},
        {"content": (ToolUseBlock(id="tu_1", name="f", input={"a": "x" * 990}),)},
    ],
)
def test_no_message(changed: dict[str, Any]) -> None:
    """What validation refuses is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "MAX_BODY_BYTES", 1000)
        with pytest.raises(ValidationError):
            Message(**PARTS | changed)
        with pytest.raises((ValidationError, PydanticCustomError)):
            assemble_message(**PARTS | changed)


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": [1, "é"]}'}}
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "openai-chat:gpt-5.2",
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Hi", "x": 1}], "name": "n"},
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c", "content": "é"},
                {"role": "assistant", "content": "Well."},
            ]
        },
    ),
    (
        "anthropic:claude-sonnet-4-6",
        {
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "é"}]},
            ],
        },
    ),
    (
        "openai:gpt-5.2",
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "é"},
            ],
        },
    ),
    (
        "google:gemini-2.5-pro",
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "Hi"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]},
                {"parts": [{"function_response": {"name": "f", "response": {"output": "é"}}}]},
            ],
        },
    ),
    (
        "ollama:llama3.2",
        {
            "messages": [
                {"role": "user", "content": "Hi", "images": ["aGk="]},
                {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
                {"role": "tool", "tool_name": "f", "content": "é"},
                {"role": "user", "content": "Well?"},
            ]
        },
    ),
)


@each_row(("model", "body"), REQUESTS)
def test_the_messages_of_a_request(model: str, body: dict[str, Any]) -> None:
    """The messages of a request of every wire that clients speak: texts, calls, results, and the notes on them."""
    messages, _, _ = get_adapter(model).from_wire_request({"model": "m", **body}, RequestContext(model=model))
    assert len(messages) >= 4
    for message in messages:
        metadata = MessageMetadata(
            **{name: getattr(message.metadata, name) for name in message.metadata.model_fields_set}
        )
        content = tuple(
            type(each)(**{name: getattr(each, name) for name in each.model_fields_set}) for each in message.content
        )
        assert_same(message.metadata, metadata)
        given = {name: getattr(message, name) for name in message.model_fields_set}
        assert_same(message, Message(**given | {"metadata": metadata, "content": content}))
        assert message.metadata.provider_raw == metadata.provider_raw
