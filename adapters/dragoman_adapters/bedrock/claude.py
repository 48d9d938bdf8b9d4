"""Anthropic's Messages through InvokeModel: the bodies of its own API, without what the path says.

Source: docs.aws.amazon.com/bedrock/latest/userguide, "Anthropic Claude Messages API".
"""

from collections.abc import Sequence
from typing import Any

from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.anthropic import decode, encode

VERSION = "bedrock-2023-05-31"


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """The whole body. Model and streaming are said by the path; caching is asked for block by block."""
    encoded: dict[str, Any] = {"anthropic_version": VERSION, **encode.encode_body(request, tools)}
    del encoded["model"]
    encoded.pop("stream", None)
    if (marker := encoded.pop("cache_control", None)) and encoded["messages"].new_items:
        last = encoded["messages"].new_items[-1]
        blocks = last["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        last["content"] = [*blocks[:-1], {**blocks[-1], "cache_control": marker}]
    return encoded


def decode_message(native: dict[str, Any], reply: ReplyBuilder) -> Message:
    """A whole reply. Its name of the model is Anthropic's, by which Bedrock knows none: the one asked for counts."""
    return decode.decode_message({**native, "model": None}, reply)
