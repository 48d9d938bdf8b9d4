"""The table of part E: each canonical concept in CMF and in UMF."""

from typing import Any

import pytest

from dragoman import Message
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    PromptRequestBlock,
    RedactedThinkingBlock,
    ResourceRefBlock,
    TextBlock,
    ThinkingBlock,
    VideoBlock,
)
from dragoman.canonical.message import MessageMetadata, StopReason
from dragoman.canonical.usage import Usage
from dragoman.formats import from_cmf, from_umf, to_cmf, to_umf
from tests.unit.formats.documents import CALL, everything

DATA = MediaSource(kind="base64", data="AAAA")
URL = MediaSource(kind="url", data="https://example.org/a.png")
FILE = MediaSource(kind="file_ref", data="a.png")


def parts(message: Message) -> list[dict[str, Any]]:
    (entry,) = to_cmf([message]).data
    found: list[dict[str, Any]] = entry["message"]["content"]
    return found


@pytest.mark.parametrize(
    ("block", "cmf", "umf"),
    [
        (TextBlock(text="a"), {"content_type": "text", "text": "a"}, {"type": "text", "text": "a"}),
        (ThinkingBlock(text="a", signature="s"), {"content_type": "thinking", "text": "a"}, None),
        (RedactedThinkingBlock(data="d"), None, None),
        (
            ImageBlock(source=DATA, media_type="image/png"),
            {"content_type": "image", "content": {"type": "base64", "data": "AAAA", "media_type": "image/png"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        ),
        (
            ImageBlock(source=URL),
            {"content_type": "image", "content": {"type": "url", "data": URL.data}},
            {"type": "image", "source": {"type": "url", "url": URL.data}},
        ),
        (ImageBlock(source=FILE), None, None),
        (AudioBlock(source=DATA), {"content_type": "audio", "content": {"type": "base64", "data": "AAAA"}}, None),
        (VideoBlock(source=DATA), {"content_type": "video", "content": {"type": "base64", "data": "AAAA"}}, None),
        (DocumentBlock(source=DATA), {"content_type": "document", "content": {"type": "base64", "data": "AAAA"}}, None),
        (
            PromptRequestBlock(prompt_request_id="p", name="f"),
            {"content_type": "prompt_request", "content": {"prompt_request_id": "p", "name": "f", "arguments": {}}},
            {"type": "text", "text": "[prompt f {}]"},
        ),
        (
            ResourceRefBlock(resource_request_id="r", uri="u", resource_type="uri"),
            {
                "content_type": "resource_ref",
                "content": {"resource_request_id": "r", "uri": "u", "resource_type": "uri"},
            },
            {"type": "text", "text": "[reference to u: u]"},
        ),
    ],
    ids=lambda value: value.type if not isinstance(value, dict) and value is not None else "",
)  # fmt: skip
def test_blocks_in_cmf_and_umf(block: ContentBlock, cmf: Any, umf: Any) -> None:
    """Each block has its counterpart, becomes a text, or is dropped with a loss."""
    message = Message.assistant([TextBlock(text="first"), block])
    assert parts(message)[1:] == ([cmf] if cmf else [])
    written = to_umf([message])
    content = written.data[0]["content"]
    assert (content[1:] if isinstance(content, list) else []) == ([umf] if umf else [])
    if umf is None or umf["type"] != block.type:
        assert [(loss.block_index, loss.severity.value) for loss in written.losses] == [(1, "warning")]


def test_roles_in_cmf_and_umf() -> None:
    """CMF has a developer; UMF has none, and keeps the original role in its metadata."""
    assert to_cmf([Message.developer("a")]).data[0]["message"]["role"] == "developer"
    written = to_umf([Message.developer("a")])
    assert written.data[0]["role"] == "system"
    assert [loss.kind for loss in written.losses] == [LossKind.ROLE]
    assert str(from_umf(written.data)[0].role) == "developer"


def test_calls_and_results_in_cmf_and_umf() -> None:
    """The result has the tool name of its call: the canonical form has only the id."""
    history = everything()[2:4]
    called, answered = to_cmf(history).data
    assert called["message"]["content"][-1] == {
        "content_type": "tool_call",
        "content": {"tool_call_id": CALL, "name": "read_file", "arguments": {"path": "README.md"}},
    }
    result = answered["message"]["content"][0]["content"]
    assert (result["tool_call_id"], result["tool_name"], result["is_error"]) == (CALL, "read_file", True)
    assert [part["content_type"] for part in result["content"]] == ["text", "image"]
    reply, result_message = to_umf(history).data
    assert reply["content"][-1] == {
        "type": "tool_use", "id": CALL, "name": "read_file", "input": {"path": "README.md"},
    }  # fmt: skip
    assert (
        result_message["role"],
        result_message["tool_call_id"],
        result_message["name"],
        result_message["content"],
    ) == ("tool", CALL, "read_file", "# A")
    assert from_umf([reply, result_message])[1].tool_results[0].is_error


@pytest.mark.parametrize(
    ("reason", "word"),
    [("end_turn", "end"), ("tool_use", "call"), ("max_tokens", "max_tokens"), ("stop_sequence", "stop_sequence"),
     ("refusal", None), ("cancelled", None), ("error", None)],
)  # fmt: skip
def test_stop_reasons_in_cmf_and_umf(reason: str, word: str | None) -> None:
    """One that CMF lacks is kept for us alone, and comes back."""
    message = Message.assistant("a", metadata=MessageMetadata(stop_reason=StopReason(reason)))
    (entry,) = to_cmf([message]).data
    assert entry["extensions"]["completion"].get("stop_reason") == word
    assert from_cmf(entry)[0].stop_reason == reason
    assert from_umf(to_umf([message]).data)[0].stop_reason == reason


def test_a_complete_return_is_the_end_of_the_turn() -> None:
    """CMF's word for a Harmony return."""
    entry = {"message": {"role": "assistant"}, "extensions": {"completion": {"stop_reason": "return"}}}
    assert from_cmf(entry)[0].stop_reason is StopReason.END_TURN


def test_usage_in_cmf_and_umf() -> None:
    """CMF's input and total include the cached buckets; all four come back."""
    usage = Usage(input_tokens=5, output_tokens=3, cached_input_tokens=7, cache_creation_input_tokens=11)
    message = Message.assistant("a", metadata=MessageMetadata(usage=usage))
    (entry,) = to_cmf([message]).data
    tokens = {"input_tokens": 23, "output_tokens": 3, "total_tokens": 26}
    assert entry["extensions"]["completion"]["tokens"] == tokens
    assert from_cmf(entry)[0].usage == usage
    assert from_umf(to_umf([message]).data)[0].usage == usage


def test_schema_versions_in_cmf_and_umf() -> None:
    """CMF has 2.0, the canonical form 1; UMF's messages have none."""
    assert to_cmf([Message.user("a")]).data[0]["message"]["schema_version"] == "2.0"
    assert from_cmf({"role": "user"})[0].schema_version == 1
    assert "schema_version" not in to_umf([Message.user("a")]).data[0]
