"""Builds the blocks of a reply from its deltas, to compare them with those of message_complete."""

from collections.abc import Iterable

from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import StreamEvent, TextDelta, ThinkingDelta, ToolUseEnd, ToolUseStart


def fold_deltas(events: Iterable[StreamEvent]) -> tuple[ContentBlock, ...]:
    """Build the blocks from the deltas alone, in order of their index; unfinished calls are left out.

    Native blocks and citations have no deltas, so message_complete may hold more.
    """
    texts: dict[int, str] = {}
    thoughts: dict[int, tuple[str, str | None]] = {}
    calls: dict[int, ToolUseBlock] = {}
    names: dict[str, str] = {}
    for event in events:
        match event:
            case TextDelta():
                texts[event.content_block_index] = texts.get(event.content_block_index, "") + event.text
            case ThinkingDelta():
                text, signature = thoughts.get(event.content_block_index, ("", None))
                thoughts[event.content_block_index] = (text + event.text, event.signature or signature)
            case ToolUseStart():
                names[event.tool_use_id] = event.tool_name
            case ToolUseEnd():
                calls[event.content_block_index] = ToolUseBlock(
                    id=event.tool_use_id, name=names[event.tool_use_id], input=event.final_input
                )
            case _:  # fragments of input: the end of the call has the whole input
                pass
    blocks: dict[int, ContentBlock] = {index: TextBlock(text=text) for index, text in texts.items()}
    blocks |= {
        index: ThinkingBlock(text=text, signature=block_signature)
        for index, (text, block_signature) in thoughts.items()
    }
    blocks |= calls
    return tuple(blocks[index] for index in sorted(blocks))
