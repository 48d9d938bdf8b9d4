"""The return trip of a history: to a wire and back, and whether the list of losses names every change.

Two conversations are the same if their blocks have the same roles, order and channels. Message ids, times and
metadata do not count, as for the return trip of requests. Tool ids are compared by their calls, because each provider
has its own. Neighbouring messages of one role count as one, because no provider distinguishes them. Empty texts
and empty thinking are ignored, and so are messages that contain nothing else. An image with the detail ``auto`` equals
one without a detail, and a citation is the provider's own object if it has one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.losses import Loss, LossKind
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

PlacedBlock = tuple[Role, Channel | None, ContentBlock]
"""A block with the role and the channel of its message."""

_SUBSTITUTE_SIGNATURE = "its own word for none"


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """A history before and after, and its losses. Each block of ``before`` has its message's id and its index in it."""

    before: list[tuple[tuple[str, int], PlacedBlock]]
    after: list[PlacedBlock]
    losses: tuple[Loss, ...]

    @classmethod
    def of(cls, adapter: Adapter, history: Sequence[Message]) -> "RoundTrip":
        """Encode the history and decode it again. Raises what the adapter raises."""
        wire = adapter.to_wire(history, [], AdapterOptions())
        back, _, _ = adapter.from_wire_request(wire.body, RequestContext(model=str(adapter.model_id)))
        losses = tuple(loss for loss in wire.losses if _SUBSTITUTE_SIGNATURE not in loss.reason)
        return cls(list(iterate_blocks(history)), [block for _, block in iterate_blocks(back)], losses)

    @property
    def unchanged(self) -> bool:
        return [block for _, block in self.before] == self.after

    @property
    def unreported(self) -> list[PlacedBlock]:
        """The blocks that changed although no loss names them. All others come back in the same order.

        A loss of form concerns its whole message: two texts that became one have one loss. The loss of a call concerns
        its result as well, and the loss of one that moved concerns what follows it in its message.
        """
        moved: dict[str, int] = {}
        for loss in self.losses:
            if loss.kind is LossKind.TOOLS:
                moved[loss.message_id] = min(loss.block_index, moved.get(loss.message_id, loss.block_index))
        named = {(loss.message_id, -1 if loss.kind is LossKind.FLATTENED else loss.block_index) for loss in self.losses}
        found: list[PlacedBlock] = []
        named_calls: set[str] = set()
        rest = iter(self.after)
        for (message, index), placed in self.before:
            block = placed[2]
            if named & {(message, index), (message, -1)} or index > moved.get(message, index):
                named_calls |= {block.id} if isinstance(block, ToolUseBlock) else set()
            elif isinstance(block, ToolResultBlock) and block.tool_use_id in named_calls:
                continue
            elif placed not in rest:
                found.append(placed)
        return found


def iterate_blocks(messages: Sequence[Message]) -> Iterator[tuple[tuple[str, int], PlacedBlock]]:
    count = 0
    waiting: list[tuple[str, int]] = []
    before: Role | None = None
    for message in messages:
        if message.role is not Role.TOOL and not (message.role is before is Role.ASSISTANT):
            waiting.clear()  # a call that was not answered by now never is
        before = message.role
        for index, block in enumerate(message.content):
            if isinstance(block, ToolUseBlock) and message.role is not Role.ASSISTANT:
                block = block.model_copy(update={"id": "nobody's"})  # no wire has it, and it takes no number
            elif isinstance(block, ToolUseBlock):
                waiting.append((block.id, count))
                block = block.model_copy(update={"id": f"call {count}"})
                count += 1
            elif isinstance(block, ToolResultBlock):
                call = next((each for each in waiting if each[0] == block.tool_use_id), None)
                if call is not None:
                    waiting.remove(call)
                block = block.model_copy(update={"tool_use_id": f"call {call[1]}" if call else "nobody's"})
            if not _is_empty(block):
                yield (message.id, index), (message.role, message.channel, _normalize_block(block))


def _is_empty(block: ContentBlock) -> bool:
    if isinstance(block, ThinkingBlock):
        return not (block.text or block.signature)
    return isinstance(block, TextBlock) and not (block.text or block.citations)


def _normalize_block(block: ContentBlock) -> ContentBlock:
    if isinstance(block, ToolResultBlock):
        parts = tuple(_normalize_block(part) for part in block.content if not _is_empty(part))
        return block.model_copy(update={"content": parts})
    if isinstance(block, TextBlock):
        cited = tuple(Citation(kind="", data=each.data) if each.data else each for each in block.citations)
        return block.model_copy(update={"citations": cited})
    if isinstance(block, ImageBlock) and block.detail == "auto":
        return block.model_copy(update={"detail": None})
    return block
