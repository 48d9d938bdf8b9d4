"""Documents as other programs write them, by hand; and a history with all kinds of content."""

import base64
from datetime import UTC, datetime
from typing import Any

from dragoman import Message
from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    PromptRequestBlock,
    PromptResultBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message import Channel, MessageMetadata, Role, StopReason
from dragoman.canonical.usage import Usage

BLOB = base64.b64encode(b"\x00\xffblob").decode()
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}}
CALL = "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5"
_NOW = datetime(2026, 11, 1, tzinfo=UTC)
_PIXEL = MediaSource(kind="base64", data="iVBORw0KGgo=")
_FILE = {"resource_request_id": "r1", "uri": "file:///a.txt", "resource_type": "file"}

HANDWRITTEN_CMF_PARTS: dict[str, dict[str, Any]] = {
    "text": {"content_type": "text", "text": "Hello."},
    "thinking": {"content_type": "thinking", "text": "Hm."},
    "tool_call": {
        "content_type": "tool_call",
        "content": {"tool_call_id": "tc_1", "name": "execute_sql", "arguments": {"q": 1}, "namespace": "db-server"},
    },
    "tool_result": {
        "content_type": "tool_result",
        "content": {"tool_call_id": "tc_1", "tool_name": "execute_sql", "content": {"rows": [1]}, "is_error": False},
    },
    "resource": {
        "content_type": "resource",
        "content": {**_FILE, "blob": BLOB, "mime_type": "text/plain", "size_bytes": 6, "annotations": {"a": [1]}},
    },
    "resource_ref": {"content_type": "resource_ref", "content": {**_FILE, "range_start": 1, "range_end": 1}},
    "prompt_request": {
        "content_type": "prompt_request",
        "content": {"prompt_request_id": "p1", "name": "greet", "arguments": {"who": "us"}, "server_id": "s"},
    },
    "prompt_result": {
        "content_type": "prompt_result",
        "content": {
            "prompt_request_id": "p1",
            "prompt_name": "greet",
            "messages": [
                {"schema_version": "2.0", "role": "user", "content": [{"content_type": "text", "text": "Hi."}]}
            ],
            "is_error": False,
        },
    },
    "image": {"content_type": "image", "content": {"type": "url", "data": "https://example.org/a.png"}},
    "video": {"content_type": "video", "content": {"type": "base64", "data": "AAAA", "duration_ms": 5}},
    "audio": {"content_type": "audio", "content": {"type": "base64", "data": "AAAA", "media_type": "audio/wav"}},
    "document": {"content_type": "document", "content": {"type": "base64", "data": "AAAA", "title": "a.pdf"}},
}
"""One part of each of the twelve kinds, in the nested form."""

HANDWRITTEN_CMF: list[dict[str, Any]] = [
    {
        "message": {"schema_version": "2.0", "role": "developer", "content": [HANDWRITTEN_CMF_PARTS["text"]]},
        "extensions": {"security": {"labels": ["PII"]}, "request": {"environment": "dev"}},
    },
    {
        "message": {
            "schema_version": "2.0",
            "role": "assistant",
            "channel": "analysis",
            "content": [HANDWRITTEN_CMF_PARTS["thinking"], HANDWRITTEN_CMF_PARTS["tool_call"]],
        },
        "extensions": {
            "completion": {
                "stop_reason": "call",
                "tokens": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
                "created_at": "2026-11-01T00:00:00+00:00",
            },
            "llm": {"model_id": "claude-opus-5-5", "provider": "anthropic"},
            "custom": {"theirs": [1, {"a": None}]},
        },
    },
    {"message": {"role": "tool", "content": [HANDWRITTEN_CMF_PARTS["tool_result"]]}, "hook": "tool_post_invoke"},
    {"role": "user", "content": list(HANDWRITTEN_CMF_PARTS.values())},
    {"role": "user", "content": [], "channel": None},
]

HANDWRITTEN_UMF: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief.", "metadata": {"theirs": "yes"}, "tool_call_id": None, "name": None},
    {"role": "user", "content": "Weather?", "metadata": {}},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": ""},
            {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Bern"}},
            {"type": "tool_use", "id": "call_2", "name": "get_weather", "input": [1, 2]},
        ],
    },
    {"role": "tool", "content": "Rain", "tool_call_id": "call_1", "name": "get_weather"},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_2", "content": "Sun"},
            {"type": "text", "text": "And this?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        ],
    },
    {"role": "tool", "content": "of old", "future_key": 1},
]
"""Both encodings of results, explicit nulls, an input that is not an object, a result that names no call."""


def everything() -> list[Message]:
    """A history with every kind of block, and with content that some formats cannot express."""
    usage = Usage(input_tokens=5, output_tokens=3, cached_input_tokens=7, cache_creation_input_tokens=11)
    metadata = MessageMetadata(
        model="anthropic:claude-opus-5-5",
        provider="anthropic",
        usage=usage,
        stop_reason=StopReason.TOOL_USE,
        provider_raw={"by": "anthropic", "id": "msg_1"},
    )
    messages = [
        Message.developer("Be brief."),
        Message.user(
            [
                TextBlock(text="Look."),
                ImageBlock(source=_PIXEL, media_type="image/png", detail="high"),
                ImageBlock(source=MediaSource(kind="file_ref", data="a.png")),
                AudioBlock(source=_PIXEL, duration_ms=4, transcript="Oh."),
                VideoBlock(source=MediaSource(kind="url", data="https://example.org/a.mp4"), duration_ms=4),
                DocumentBlock(source=MediaSource(kind="text", data="ü"), title="a.txt", context="a note"),
                ResourceBlock(resource_request_id="r", uri="file:///a", resource_type="file", blob=BLOB),
                ResourceRefBlock(resource_request_id="r", uri="file:///a", resource_type="file", selector="h1"),
                PromptRequestBlock(prompt_request_id="p", name="greet"),
                PromptResultBlock(prompt_request_id="p", prompt_name="greet", messages=({"role": "user"},)),
            ]
        ),
        Message(
            role=Role.ASSISTANT,
            channel=Channel.ANALYSIS,
            metadata=metadata,
            content=(
                ThinkingBlock(text="Hm.", signature="c2ln"),
                RedactedThinkingBlock(data="c2VhbA=="),
                TextBlock(text="So.", citations=(Citation(kind="url", url="https://example.org"),)),
                ProviderBlock(provider="anthropic", kind="server_tool_use", data=SEARCH),
                ToolUseBlock(id=CALL, name="read_file", input={"path": "README.md"}),
            ),
        ),
        Message.tool(CALL, [TextBlock(text="# A"), ImageBlock(source=_PIXEL)], is_error=True),
        Message.assistant("Done.", metadata=MessageMetadata(model="openai:gpt-6.1-sol", provider="openai")),
    ]
    return [
        message.model_copy(update={"id": f"{index:026d}", "session_id": "sess_1", "created_at": _NOW})
        for index, message in enumerate(messages)
    ]
