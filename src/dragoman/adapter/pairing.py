"""Calls and results, paired as every provider demands: each call answered once, right behind its turn.

Ids are told apart by occurrence: a provider that uses an id again, in one turn or in a later one, means another
call. The second call of an id gets the key ``<id>~2``, which becomes an id of its own on every wire.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.turns import MADE, Turn
from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role

INTERRUPTED = "The call was interrupted: no result is known."


@dataclass(slots=True)
class _Open:
    """The calls of the latest assistant turn that still wait for their result, in order: (id, key)."""

    message: Message
    calls: list[tuple[str, str]] = field(default_factory=list)

    def take(self, tool_use_id: str) -> str | None:
        for position, (waiting, key) in enumerate(self.calls):
            if waiting == tool_use_id:
                del self.calls[position]
                return key
        return None


def pair(turns: Sequence[Turn], losses: list[Loss], *, keep_orphans: bool = False) -> list[Turn]:
    """An orphan result becomes the user's text, an unanswered call gets an interrupted result."""
    seen: Counter[str] = Counter()
    paired: list[Turn] = []
    waiting: _Open | None = None
    for turn in turns:
        if turn.role is Role.TOOL:
            paired += _results(turn, waiting, losses, keep_orphans=keep_orphans)
            continue
        _close(waiting, paired, losses)
        waiting = None
        if turn.role is Role.ASSISTANT:
            turn, calls = _keyed(turn, seen, losses)
            waiting = _Open(turn.message, calls)
        paired.append(turn)
    _close(waiting, paired, losses)
    return paired


def _keyed(turn: Turn, seen: Counter[str], losses: list[Loss]) -> tuple[Turn, list[tuple[str, str]]]:
    """The turn with a key that is unique in the history on each call, and its (id, key) pairs."""
    calls: list[tuple[str, str]] = []
    blocks: list[ContentBlock] = []
    for block, origin in zip(turn.blocks, turn.origins, strict=True):
        if isinstance(block, ToolUseBlock):
            seen[block.id] += 1
            key = block.id if seen[block.id] == 1 else f"{block.id}~{seen[block.id]}"
            calls.append((block.id, key))
            if key != block.id:
                losses.append(
                    Loss(
                        LossKind.DUPLICATE_TOOL_ID, turn.message.id, origin,
                        f"the tool id {block.id[:80]!r} occurs again: sent under an id of its own",
                        Severity.INFO, block.type,
                    )
                )  # fmt: skip
                block = block.model_copy(update={"id": key})
        blocks.append(block)
    # A renamed call keeps its origin: what its issuer noted about the block still holds.
    return Turn(turn.message, turn.role, tuple(blocks), turn.origins) if calls else turn, calls


def _results(turn: Turn, waiting: _Open | None, losses: list[Loss], *, keep_orphans: bool) -> list[Turn]:
    """The turn's results under the keys of their calls, and a user's text for each that answers none."""
    blocks: list[ContentBlock] = []
    origins: list[int] = []
    orphans: list[Turn] = []
    for block, origin in zip(turn.blocks, turn.origins, strict=True):
        if isinstance(block, ToolResultBlock):
            key = waiting.take(block.tool_use_id) if waiting else None
            if key is None and not keep_orphans:
                losses.append(
                    Loss(
                        LossKind.ORPHAN_RESULT, turn.message.id, origin,
                        "a result without an open call: sent as the user's text", Severity.INFO, block.type,
                    )
                )  # fmt: skip
                orphans.append(Turn.made(turn.message, Role.USER, _as_text(block)))
                continue
            if key is not None and key != block.tool_use_id:
                block = block.model_copy(update={"tool_use_id": key})
        blocks.append(block)
        origins.append(origin)
    kept = [Turn(turn.message, turn.role, tuple(blocks), tuple(origins))] if blocks else []
    return [*kept, *orphans]


def _as_text(block: ToolResultBlock) -> tuple[ContentBlock, ...]:
    label = "[error of an earlier tool call]" if block.is_error else "[result of an earlier tool call]"
    return (TextBlock(text=label), *block.content)


def _close(waiting: _Open | None, paired: list[Turn], losses: list[Loss]) -> None:
    """Answers what is still open before anything else is said."""
    if waiting is None:
        return
    for _, key in waiting.calls:
        losses.append(
            Loss(
                LossKind.INTERRUPTED_CALL, waiting.message.id, MADE,
                "a call without a result: answered as interrupted", Severity.INFO, "tool_use",
            )
        )  # fmt: skip
        result = ToolResultBlock(tool_use_id=key, content=(TextBlock(text=INTERRUPTED),), is_error=True)
        _insert_behind_results(paired, Turn.made(waiting.message, Role.TOOL, (result,)))
    waiting.calls.clear()


def _insert_behind_results(paired: list[Turn], turn: Turn) -> None:
    """Orphans become user turns; an interrupted result still belongs before them, right behind its siblings."""
    position = len(paired)
    while position and paired[position - 1].role is Role.USER and paired[position - 1].origins[:1] == (MADE,):
        position -= 1
    paired.insert(position, turn)
