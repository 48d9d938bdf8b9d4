"""Turn: one message as it is to be sent, with a way back to the message that it came from."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dragoman.adapter.residue import restore
from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role

MADE = -1
"""The origin of a block that no message holds."""
_FIRST = (0,)


@dataclass(slots=True)
class Turn:
    """``origins[i]`` is the index in ``message.content`` that ``blocks[i]`` came from, or MADE. Nobody changes a turn.

    ``plain``: the turn is one text with words and nothing else, so that most of what can be lost is not in it.
    """

    message: Message
    role: Role
    blocks: tuple[ContentBlock, ...]
    origins: tuple[int, ...]
    plain: bool = False

    @classmethod
    def of(cls, message: Message) -> "Turn":
        content = message.content
        if len(content) == 1:
            (block,) = content
            return cls(message, message.role, content, _FIRST, type(block) is TextBlock and bool(block.text.strip()))
        return cls(message, message.role, content, tuple(range(len(content))))

    @classmethod
    def made(cls, message: Message, role: Role, blocks: tuple[ContentBlock, ...]) -> "Turn":
        """A turn that no message stands for; ``message`` is the one that it was made because of."""
        return cls(message, role, blocks, (MADE,) * len(blocks))

    def bare(self, provider: str) -> str | None:
        """The text of a turn that is nothing else, to that provider: no sources, and no notes of its own."""
        if not self.plain or self.raw(provider):
            return None
        (block,) = self.blocks
        return block.text if isinstance(block, TextBlock) and not block.citations else None

    def pairs(self) -> Iterator[tuple[ContentBlock, int]]:
        """Each block with its origin."""
        return zip(self.blocks, self.origins, strict=True)

    def mapped(self, change: Callable[[ContentBlock, int], tuple[ContentBlock, ...]]) -> "Turn":
        """Each block replaced by what ``change(block, origin)`` gives; a changed block loses its origin."""
        changed = [change(block, origin) for block, origin in self.pairs()]
        for new, block in zip(changed, self.blocks, strict=True):
            if len(new) != 1 or new[0] is not block:
                break
        else:
            return self
        kept = [
            (each, origin if each is block else MADE)
            for new, (block, origin) in zip(changed, self.pairs(), strict=True)
            for each in new
        ]
        blocks, origins = tuple(block for block, _ in kept), tuple(origin for _, origin in kept)
        return replace(self, blocks=blocks, origins=origins, plain=False)

    def words_behind_calls(self) -> Iterator[int]:
        """Texts and thinking behind a call: on some wires all words of a message come before its calls."""
        called = False
        for index, block in enumerate(self.blocks):
            called = called or isinstance(block, ToolUseBlock)
            if called and _says_something(block):
                yield index

    def thoughts_inside(self) -> Iterator[int]:
        """Thinking that does not begin its message: on some wires it has a field of its own, which comes first."""
        for index, block in enumerate(self.blocks):
            if index and isinstance(block, ThinkingBlock) and _says_something(block):
                yield index

    def raw(self, provider: str) -> Mapping[str, Any]:
        """What that provider's adapter noted about the message; empty where another adapter wrote it."""
        raw = self.message.metadata.provider_raw
        return raw if raw is not None and raw.get("by") == provider else {}

    def restored(self, index: int, encoded: Mapping[str, Any], provider: str) -> dict[str, Any]:
        """The encoding of a block with what the provider's own block held beyond it."""
        origin = self.origins[index]
        blocks = self.raw(provider).get("blocks")
        return restore(encoded, blocks.get(str(origin)) if blocks and origin != MADE else None)


def _says_something(block: ContentBlock) -> bool:
    """Whether a block is a text, or thinking, that is not empty."""
    return (isinstance(block, TextBlock) and bool(block.text)) or (
        isinstance(block, ThinkingBlock) and bool(block.text or block.signature)
    )
