"""Sends the calls of one message one after another, each with its result, to a model without parallel calls."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.requests.turns import Turn
from dragoman.canonical.blocks import ContentBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Role

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
    return replace(turn, blocks=blocks, origins=origins, plain=False)
