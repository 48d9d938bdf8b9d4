"""Parts that no policy can judge: kinds without a view, such as a provider's native blocks and those of newer versions.

They do not pass unseen. A pipeline denies a message that holds one, or leaves it out where it was told to.
"""

from collections.abc import Sequence

from dragoman.canonical.blocks import ContentBlock, PromptResultBlock, ToolResultBlock
from dragoman.canonical.message import Message
from dragoman.canonical.view_kinds import KINDS
from dragoman.canonical.view_parts import UnknownPartError, parts_inside
from dragoman.policy.changing import with_content


def unknown_kind(content: Sequence[ContentBlock]) -> str | None:
    """The first kind that has no view, at any depth; None where all can be judged."""
    for block in content:
        if type(block) not in KINDS:
            return str(block.type)
        if isinstance(block, ToolResultBlock):
            inner = unknown_kind(block.content)
        elif isinstance(block, PromptResultBlock) and block.messages:
            inner = _in_prompt(block)
        else:
            continue
        if inner is not None:
            return inner
    return None


def only_known(message: Message) -> Message:
    """Without the parts that have no view; a prompt's result is known as a whole, or left out."""
    return with_content(message, _known(message.content))


def _known(content: Sequence[ContentBlock]) -> tuple[ContentBlock, ...]:
    return tuple(
        block.model_copy(update={"content": _known(block.content)}) if isinstance(block, ToolResultBlock) else block
        for block in content
        if type(block) in KINDS and not (isinstance(block, PromptResultBlock) and _in_prompt(block))
    )


def _in_prompt(block: PromptResultBlock) -> str | None:
    try:
        return unknown_kind([part for _, part in parts_inside(block)])
    except UnknownPartError:
        return "unreadable message"
