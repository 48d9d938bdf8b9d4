"""Makes the events of a message that arrived as a whole."""

import json

from dragoman.canonical.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import (
    MessageComplete,
    MessageStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
    UsageUpdate,
)
from dragoman.canonical.message import Message


def reply_events(reply: Message) -> list[StreamEvent]:
    """Return all events of a whole reply, from message_start to message_complete."""
    usage, model = reply.usage, (reply.metadata.model or "").partition(":")[2]
    return [
        MessageStart(reply.id, model),
        *([] if usage is None else [UsageUpdate(reply.id, usage)]),
        *message_events(reply),
        MessageComplete(reply),
    ]


def message_events(message: Message) -> list[StreamEvent]:
    """Return the events of the content."""
    events: list[StreamEvent] = []
    for index, block in enumerate(message.content):
        match block:
            case TextBlock(text=text) if text:
                events.append(TextDelta(message.id, index, text))
            case ThinkingBlock():
                events.append(ThinkingDelta(message.id, index, block.text, block.signature))
            case ToolUseBlock() if block.raw_input is None:
                start = ToolUseStart(message.id, index, block.id, block.name)
                events += call_events(message.id, start, block)
            case _:  # blocks that have no delta events
                pass
    return events


def call_events(message_id: str, start: ToolUseStart, use: ToolUseBlock) -> tuple[StreamEvent, ...]:
    """Return the events of one call."""
    index = start.content_block_index
    return (
        start,
        ToolUseInputDelta(message_id, index, use.id, json.dumps(use.input, ensure_ascii=False)),
        ToolUseEnd(message_id, index, use.id, use.input),
    )
