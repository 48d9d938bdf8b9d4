"""The return trip of a history: to a wire and back, and whether the list of losses tells what changed on the way.

What counts as the same conversation is who said which blocks, in which order, on which channel. Message ids, times
and metadata do not count, as for the return trip of requests. Tool ids count by the calls that they stand for, as
each provider has its own. Neighbouring messages of one role are one, as no provider tells them apart. Texts and
thinking without a character say nothing, nor do messages of nothing else. An image of the detail ``auto`` is one
without any, and a citation is the provider's own object where it has one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.losses import Loss
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Channel, Message, Role

Said = tuple[Role, Channel | None, ContentBlock]
"""Who says a block, on which channel."""

_MADE_SIGNATURE = "its own word for none"


@dataclass(frozen=True, slots=True)
class Trip:
    """A history before and after, and its losses. Each block of ``before`` has the id of its message."""

    before: list[tuple[str, Said]]
    after: list[Said]
    losses: tuple[Loss, ...]

    @classmethod
    def of(cls, adapter: Adapter, history: Sequence[Message]) -> "Trip":
        """Raises what the adapter raises."""
        wire = adapter.to_wire(history, [], AdapterOptions())
        back, _, _ = adapter.from_wire_request(wire.body, RequestContext(model=str(adapter.model_id)))
        losses = tuple(loss for loss in wire.losses if _MADE_SIGNATURE not in loss.reason)
        return cls(list(said(history)), [block for _, block in said(back)], losses)

    @property
    def same(self) -> bool:
        return [said for _, said in self.before] == self.after

    @property
    def unsaid(self) -> list[Said]:
        """What changed although no loss names its message: all else comes back, in the order in which it was said."""
        named = {loss.message_id for loss in self.losses}
        rest = iter(self.after)
        return [said for message, said in self.before if message not in named and said not in rest]


def said(messages: Sequence[Message]) -> Iterator[tuple[str, Said]]:
    count = 0
    waiting: list[tuple[str, int]] = []
    before: Role | None = None
    for message in messages:
        if message.role is not Role.TOOL and not (message.role is before is Role.ASSISTANT):
            waiting.clear()  # a call that was not answered by now never is
        before = message.role
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                waiting.append((block.id, count))
                block = block.model_copy(update={"id": f"call {count}"})
                count += 1
            elif isinstance(block, ToolResultBlock):
                call = next((each for each in waiting if each[0] == block.tool_use_id), None)
                if call is not None:
                    waiting.remove(call)
                block = block.model_copy(update={"tool_use_id": f"call {call[1]}" if call else "nobody's"})
            if not _is_silent(block):
                yield message.id, (message.role, message.channel, _plain(block))


def _is_silent(block: ContentBlock) -> bool:
    if isinstance(block, ThinkingBlock):
        return not (block.text or block.signature)
    return isinstance(block, TextBlock) and not (block.text or block.citations)


def _plain(block: ContentBlock) -> ContentBlock:
    if isinstance(block, ToolResultBlock):
        parts = tuple(_plain(part) for part in block.content if not _is_silent(part))
        return block.model_copy(update={"content": parts})
    if isinstance(block, TextBlock):
        cited = tuple(Citation(kind="", data=each.data) if each.data else each for each in block.citations)
        return block.model_copy(update={"citations": cited})
    if isinstance(block, ImageBlock) and block.detail == "auto":
        return block.model_copy(update={"detail": None})
    return block
