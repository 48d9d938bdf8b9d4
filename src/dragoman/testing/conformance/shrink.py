"""Checks a law on generated histories, and shrinks a history that breaks it to a small counterexample."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from dragoman.adapter.errors import ProjectionError
from dragoman.canonical.blocks import ContentBlock, ToolResultBlock
from dragoman.testing.conformance.generate import History, generate_histories
from dragoman.testing.conformance.subject import Subject
from dragoman.testing.stream_laws import Trial

CheckHistory = Callable[[Subject, History], Iterator[str]]
"""Yields the faults of an adapter's output for a history."""

_SHRINK_LIMIT = 400
"""The maximum number of smaller histories to try."""
_MAX_BLOCK_LENGTH = 160


def check_histories(subject: Subject, check: CheckHistory) -> Iterator[Trial]:
    """Try a law on histories of the adapter's own model, on foreign ones, and on malformed ones.

    A history that the model's thinking policy refuses proves nothing and is skipped.
    """
    for kind in ("own", "foreign", "any"):
        for number, history in enumerate(generate_histories(kind, _model(kind, subject), subject.effort.histories)):
            faults = _faults(subject, check, history)
            if not faults:
                yield Trial(f"{kind} history {number}", (), kind)
                continue
            smallest = _shrink(subject, check, history)
            yield Trial(f"{kind} history {describe_history(smallest)}", tuple(_faults(subject, check, smallest)), kind)
            break  # one counterexample per kind is enough, and shrinking is slow


def describe_history(history: History) -> str:
    """Return a short description of a history."""
    messages = " | ".join(
        f"{message.role}: {', '.join(map(_shorten, message.content)) or 'nothing'}" for message in history
    )
    return f"[{messages}]"


def _shorten(block: Any) -> str:
    written = f"{block.type} {block.model_dump(exclude={'type'}, exclude_defaults=True)}"
    return written if len(written) <= _MAX_BLOCK_LENGTH else written[:_MAX_BLOCK_LENGTH] + "…"


def _model(kind: str, subject: Subject) -> str:
    return subject.model if kind == "own" else ""


def _faults(subject: Subject, check: CheckHistory, history: History) -> list[str]:
    try:
        return list(islice(check(subject, history), 3))
    except ProjectionError as refused:
        if subject.adapter.capabilities.thinking_policy.foreign == "refuse":
            return []
        return [f"refused: {refused}"]
    except Exception as error:
        return [f"{type(error).__name__} was raised: {error}"]


def _shrink(subject: Subject, check: CheckHistory, history: History) -> History:
    """Remove everything from the history that is not needed to break the law, within the limit."""
    limit, tried = _SHRINK_LIMIT, 0
    candidates = _shrink_candidates(history)
    while (candidate := next(candidates, None)) is not None and tried < limit:
        tried += 1
        if _faults(subject, check, candidate):
            history = candidate
            candidates = _shrink_candidates(history)
    return history


def _shrink_candidates(history: History) -> Iterator[History]:
    """Yield smaller histories: without half of the messages, a message, a block, or a block of a tool result."""
    half = len(history) // 2
    if half > 1:
        yield history[half:]
        yield history[:half]
    for index in range(len(history)) if len(history) > 1 else ():
        yield (*history[:index], *history[index + 1 :])
    for index, message in enumerate(history):
        for content in _drop_one_block(message.content):
            changed = message.model_copy(update={"content": content})
            yield (*history[:index], changed, *history[index + 1 :])


def _drop_one_block(content: Sequence[ContentBlock]) -> Iterator[tuple[ContentBlock, ...]]:
    for index, block in enumerate(content):
        yield (*content[:index], *content[index + 1 :])
        if isinstance(block, ToolResultBlock):
            for inner in _drop_one_block(block.content):
                yield (*content[:index], block.model_copy(update={"content": inner}), *content[index + 1 :])
