"""Turn: one message as it is to be sent, with a way back to the message that it came from."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dragoman.adapter.residue import restore
from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.message import Message, Role

MADE = -1
"""The origin of a block that no message holds."""


@dataclass(frozen=True, slots=True)
class Turn:
    """``origins[i]`` is the index in ``message.content`` that ``blocks[i]`` came from, or MADE."""

    message: Message
    role: Role
    blocks: tuple[ContentBlock, ...]
    origins: tuple[int, ...]

    @classmethod
    def of(cls, message: Message) -> "Turn":
        return cls(message, message.role, message.content, tuple(range(len(message.content))))

    @classmethod
    def made(cls, message: Message, role: Role, blocks: tuple[ContentBlock, ...]) -> "Turn":
        """A turn that no message stands for; ``message`` is the one that it was made because of."""
        return cls(message, role, blocks, (MADE,) * len(blocks))

    def pairs(self) -> Iterator[tuple[ContentBlock, int]]:
        """Each block with its origin."""
        return zip(self.blocks, self.origins, strict=True)

    def mapped(self, change: Callable[[ContentBlock, int], tuple[ContentBlock, ...]]) -> "Turn":
        """Each block replaced by what ``change(block, origin)`` gives; a changed block loses its origin."""
        changed = [change(block, origin) for block, origin in self.pairs()]
        if all(len(new) == 1 and new[0] is block for new, block in zip(changed, self.blocks, strict=True)):
            return self
        kept = [
            (each, origin if each is block else MADE)
            for new, (block, origin) in zip(changed, self.pairs(), strict=True)
            for each in new
        ]
        return replace(self, blocks=tuple(block for block, _ in kept), origins=tuple(origin for _, origin in kept))

    def raw(self, provider: str) -> Mapping[str, Any]:
        """What that provider's adapter noted about the message; empty where another adapter wrote it."""
        raw = self.message.metadata.provider_raw
        return raw if raw is not None and raw.get("by") == provider else {}

    def restored(self, index: int, encoded: Mapping[str, Any], provider: str) -> dict[str, Any]:
        """The encoding of a block with what the provider's own block held beyond it."""
        origin = self.origins[index]
        blocks = self.raw(provider).get("blocks")
        return restore(encoded, blocks.get(str(origin)) if blocks and origin != MADE else None)
