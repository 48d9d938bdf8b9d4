"""Parts that no policy can judge: kinds without a view, such as those of newer versions, and opaque native blocks.

They do not pass unchecked. A pipeline denies a message with such a part, or drops the part if ``unknown`` says so.
"""

from collections.abc import Sequence

from dragoman.canonical.blocks import ContentBlock, PromptResultBlock, TextBlock, ToolResultBlock
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.kinds import kind_of
from dragoman.canonical.message_view.parts import UnknownPartError, inner_parts
from dragoman.policy.edit import replace_content


def find_unknown_kind(content: Sequence[ContentBlock]) -> str | None:
    """Return the first kind without a view, at any depth, or None."""
    for block in content:
        if type(block) is TextBlock:  # most are
            continue
        if kind_of(block) is None:
            return str(block.type)
        if isinstance(block, ToolResultBlock):
            inner = find_unknown_kind(block.content)
        elif isinstance(block, PromptResultBlock) and block.messages:
            inner = _unknown_in_prompt(block)
        else:
            continue
        if inner is not None:
            return inner
    return None


def drop_unknown_parts(message: Message) -> Message:
    """Drop the parts without a view. A prompt result with one inside is dropped whole."""
    return replace_content(message, _known_parts(message.content))


def _known_parts(content: Sequence[ContentBlock]) -> tuple[ContentBlock, ...]:
    return tuple(
        block.model_copy(update={"content": _known_parts(block.content)})
        if isinstance(block, ToolResultBlock)
        else block
        for block in content
        if kind_of(block) is not None and not (isinstance(block, PromptResultBlock) and _unknown_in_prompt(block))
    )


def _unknown_in_prompt(block: PromptResultBlock) -> str | None:
    try:
        return find_unknown_kind([part for _, part in inner_parts(block)])
    except UnknownPartError:
        return "unreadable message"
