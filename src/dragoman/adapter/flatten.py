"""Blocks that no provider's wire has, as text."""

from dragoman.adapter import wirejson
from dragoman.canonical.blocks import (
    ContentBlock,
    PromptRequestBlock,
    PromptResultBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
)


def flatten_block(block: ContentBlock) -> TextBlock | None:
    """The block as a text, or None where it is of a kind that wires know (specification part E)."""
    match block:
        case ResourceBlock():
            body = block.content if block.content is not None else "[binary content left out]"
            return TextBlock(text=f"[resource {block.name or block.uri}]\n{body}")
        case ResourceRefBlock():
            return TextBlock(text=f"[reference to {block.name or block.uri}: {block.uri}]")
        case PromptRequestBlock():
            return TextBlock(text=f"[prompt {block.name} {wirejson.dumps_text(block.arguments)}]")
        case PromptResultBlock():
            said = block.error_message if block.is_error else block.content
            return TextBlock(text=f"[prompt {block.prompt_name}]\n{said or wirejson.dumps_text(list(block.messages))}")
        case _:
            return None
