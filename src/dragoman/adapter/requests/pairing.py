"""Pairs calls with results as every provider requires: one result for each call, directly after its turn.

Calls are distinguished by occurrence: if a provider repeats an id, in one turn or in a later one, it is another call.
The second call of an id gets the key ``<id>~2``, which becomes a separate id on every wire.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.requests.encode_cache import CallKeys
from dragoman.adapter.requests.turns import SYNTHETIC, Turn
from dragoman.adapter.requests.unsupported_blocks import result_as_text
from dragoman.canonical.blocks import ContentBlock, ProviderBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role

INTERRUPTED_RESULT = "The call was interrupted: no result is known."

_MAX_SHOWN_ID = 80


def pair_calls(
    turns: Sequence[Turn], losses: list[Loss], *, keep_orphans: bool = False, keys: CallKeys | None = None
) -> list[Turn]:
    """Pair calls with results: an orphan result becomes the user's text, an unanswered call gets an interrupted result.

    Neighbouring messages of the assistant are one turn here: the results of all may follow the last. ``keys`` are those
    of earlier calls, which do not change.
    """
    pairing = _Pairing(losses, keep_orphans=keep_orphans, keys=keys.with_calls(()) if keys else CallKeys())
    for turn in turns:
        pairing.add(turn)
    return pairing.finish()


@dataclass(slots=True)
class _Pairing:
    losses: list[Loss]
    keep_orphans: bool
    keys: CallKeys
    paired: list[Turn] = field(default_factory=list)
    open_calls: dict[str, Message] = field(default_factory=dict)
    """The messages of the calls without a result in the latest assistant turn, by the key of the call, in order."""
    open_keys: dict[str, deque[str]] = field(default_factory=dict)
    """The keys of the open calls of each id. A client may send thousands of calls, and results that fit none."""
    deferred: list[Turn] = field(default_factory=list)
    """Turns that must move after the results that are still to come."""

    def add(self, turn: Turn) -> None:
        if turn.role is Role.TOOL:
            self._add_results(turn)
            return
        if turn.text is not None and not self.open_calls and not self.deferred:  # separates no call from its result
            self.paired.append(turn)
            return
        if turn.role is Role.USER:
            turn = self._extract_results(turn)
        # The turn before may be the assistant's too, and wait for results.
        waits = bool(self.open_calls) and self.paired[-1].role is Role.ASSISTANT and not self.deferred
        if not (turn.role is Role.ASSISTANT and waits):
            self._close_calls()
        self.paired.append(self._assign_keys(turn) if turn.role is Role.ASSISTANT else turn)

    def finish(self) -> list[Turn]:
        self._close_calls()
        return self.paired

    def _extract_results(self, turn: Turn) -> Turn:
        """Treat results in a user message, which is not canonical, as a tool's (docs/reference/canonical.md)."""
        results = [origin for block, origin in turn.iter_blocks() if isinstance(block, ToolResultBlock)]
        if not results:
            return turn
        for origin in results:
            self._record_loss(turn, origin, LossKind.ROLE, "a result in a user's message: sent as the tool's")
        self._add_results(turn.map_blocks(lambda block, _: (block,) if isinstance(block, ToolResultBlock) else ()))
        return turn.map_blocks(lambda block, _: () if isinstance(block, ToolResultBlock) else (block,))

    def _add_results(self, turn: Turn) -> None:
        """Give results the keys of their calls; results without a call become the user's text after them."""
        blocks: list[ContentBlock] = []
        origins: list[int] = []
        for block, origin in turn.iter_blocks():
            if isinstance(block, ToolResultBlock):
                keys = self.open_keys.get(block.tool_use_id)
                if not keys and not self.keep_orphans:
                    reason = "a result without an open call: sent as the user's text"
                    self._record_loss(turn, origin, LossKind.ORPHAN_RESULT, reason)
                    self.deferred.append(Turn.synthetic(turn.message, Role.USER, result_as_text(block)))
                    continue
                if keys:
                    key = keys.popleft()
                    del self.open_calls[key]
                    block = block if key == block.tool_use_id else block.model_copy(update={"tool_use_id": key})
            elif not isinstance(block, ProviderBlock):
                self._record_loss(
                    turn, origin, LossKind.ROLE, f"a {block.type} in a tool's message: sent as the user's"
                )
                self.deferred.append(Turn.synthetic(turn.message, Role.USER, (block,)))
                continue
            blocks.append(block)
            origins.append(origin)
        if blocks or not turn.blocks:
            self.paired.append(Turn(turn.message, Role.TOOL, tuple(blocks), tuple(origins), notes=turn.notes))

    def _close_calls(self) -> None:
        """Add results for the calls that are still open."""
        for key, message in self.open_calls.items():
            reason = "a call without a result: answered as interrupted"
            self.losses.append(
                Loss(LossKind.INTERRUPTED_CALL, message.id, SYNTHETIC, reason, Severity.INFO, "tool_use")
            )
            result = ToolResultBlock(tool_use_id=key, content=(TextBlock(text=INTERRUPTED_RESULT),), is_error=True)
            self.paired.append(Turn.synthetic(message, Role.TOOL, (result,)))
        self.open_calls.clear()
        self.open_keys.clear()
        self.paired += self.deferred
        self.deferred.clear()

    def _assign_keys(self, turn: Turn) -> Turn:
        """Return the turn with a key for each call that is unique in the history."""
        blocks: list[ContentBlock] = []
        for block, origin in turn.iter_blocks():
            if isinstance(block, ToolUseBlock):
                key = self.keys.next_key(block.id)
                self.open_calls[key] = turn.message
                self.open_keys.setdefault(block.id, deque()).append(key)
                if key != block.id:
                    reason = f"the tool id {block.id[:_MAX_SHOWN_ID]!r} occurs again: sent under an id of its own"
                    self._record_loss(turn, origin, LossKind.DUPLICATE_TOOL_ID, reason)
                    block = block.model_copy(update={"id": key})
            blocks.append(block)
        # A renamed call keeps its origin: what its issuer noted about the block still holds.
        return Turn(turn.message, turn.role, tuple(blocks), turn.origins, notes=turn.notes) if self.open_calls else turn

    def _record_loss(self, turn: Turn, origin: int, kind: LossKind, reason: str) -> None:
        self.losses.append(turn.loss(origin, kind, reason, Severity.INFO))


_Result = tuple[Turn, ContentBlock, int]


def separate_calls(turns: Sequence[Turn], losses: list[Loss], model: str) -> list[Turn]:
    """Return the turns of a paired history with one call before each result. Every call that moves is a loss."""
    separated: list[Turn] = []
    index = 0
    while index < len(turns):
        if not turns[index].has_calls:
            separated.append(turns[index])
            index += 1
            continue
        start = index
        while index < len(turns) and turns[index].role is Role.ASSISTANT:
            index += 1
        first_result = index
        while index < len(turns) and turns[index].role is Role.TOOL:
            index += 1
        callers, answers = turns[start:first_result], turns[first_result:index]
        if sum(isinstance(block, ToolUseBlock) for turn in callers for block in turn.blocks) < 2:
            separated += turns[start:index]
        else:
            separated += _separate(callers, answers, losses, model)
    return separated


def _separate(callers: Sequence[Turn], answers: Sequence[Turn], losses: list[Loss], model: str) -> Iterator[Turn]:
    results: dict[str, _Result] = {}
    rest: list[Turn] = []
    for turn in answers:
        others = [(block, origin) for block, origin in turn.iter_blocks() if not isinstance(block, ToolResultBlock)]
        results |= {
            block.tool_use_id: (turn, block, origin)
            for block, origin in turn.iter_blocks()
            if isinstance(block, ToolResultBlock)
        }
        if others:
            rest.append(_part(turn, others))
    is_first = True
    for turn in callers:
        for part, call in _split(turn):
            yield part
            if call is None:
                continue
            if not is_first:
                reason = f"{model} calls one tool at a time: sent after the result of the call before"
                origin = next(origin for block, origin in part.iter_blocks() if block is call)
                losses.append(turn.loss(origin, LossKind.TOOLS, reason, Severity.INFO))
            is_first = False
            if call.id in results:
                answer, result, origin = results.pop(call.id)
                yield _part(answer, [(result, origin)])
    for answer, result, origin in results.values():  # results of calls that the provider keeps
        yield _part(answer, [(result, origin)])
    yield from rest


def _split(turn: Turn) -> Iterator[tuple[Turn, ToolUseBlock | None]]:
    """Yield the parts of a turn, each with its only call; what follows the last call belongs to its part."""
    parts: list[list[tuple[ContentBlock, int]]] = [[]]
    calls: list[ToolUseBlock] = []
    for block, origin in turn.iter_blocks():
        if isinstance(block, ToolUseBlock):
            if calls:
                parts.append([])
            calls.append(block)
        parts[-1].append((block, origin))
    if len(calls) < 2:
        yield turn, (calls[0] if calls else None)
        return
    for part, call in zip(parts, calls, strict=True):
        yield _part(turn, part), call


def _part(turn: Turn, pairs: Sequence[tuple[ContentBlock, int]]) -> Turn:
    blocks, origins = tuple(block for block, _ in pairs), tuple(origin for _, origin in pairs)
    return replace(turn, blocks=blocks, origins=origins, text=None)
