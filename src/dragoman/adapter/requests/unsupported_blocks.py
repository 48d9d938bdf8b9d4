"""Turns blocks that no provider supports into text."""

from dragoman.adapter import wirejson
from dragoman.canonical.blocks import (
    ContentBlock,
    DocumentBlock,
    PromptRequestBlock,
    PromptResultBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)


def flatten_block(block: ContentBlock) -> TextBlock | None:
    """Return the block as text, or None if providers support its type."""
    match block:
        case ResourceBlock():
            body = block.content if block.content is not None else "[binary content left out]"
            return TextBlock(text=f"[resource {block.name or block.uri}]\n{body}")
        case ResourceRefBlock():
            return TextBlock(text=f"[reference to {block.name or block.uri}: {block.uri}]")
        case PromptRequestBlock():
            return TextBlock(text=f"[prompt {block.name} {wirejson.dumps_text(block.arguments)}]")
        case PromptResultBlock():
            text = block.error_message if block.is_error else block.content
            return TextBlock(text=f"[prompt {block.prompt_name}]\n{text or wirejson.dumps_text(list(block.messages))}")
        case _:
            return None


def document_as_text(document: DocumentBlock) -> TextBlock:
    """Return a document of plain text as text, with its title and its note."""
    head = [f"[document {document.title or 'without a title'}]", *([document.context] if document.context else ())]
    return TextBlock(text="\n".join([*head, document.source.data]))


def call_as_text(call: ToolUseBlock) -> TextBlock:
    """Return a call as text, for a model without tools."""
    arguments = call.raw_input if call.raw_input is not None else wirejson.dumps_text(call.input)
    return TextBlock(text=f"[call of the tool {call.name} with {arguments}]")


def result_as_text(result: ToolResultBlock) -> tuple[ContentBlock, ...]:
    """Return a result as the user's text: a label and the parts."""
    label = "[error of an earlier tool call]" if result.is_error else "[result of an earlier tool call]"
    return (TextBlock(text=label), *result.content)
