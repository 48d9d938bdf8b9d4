"""Histories and replies for the laws: drawn once for all adapters, and made as small as they get where one breaks."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.adapter.errors import ProjectionError
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderBlock,
    TextBlock,
    ToolResultBlock,
    VideoBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.testing.conformance.subject import Subject
from dragoman.testing.sample_reply import SampleReply
from dragoman.testing.stream_laws import Trial

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

History = Sequence[Message]
CheckHistory = Callable[[Subject, History], Iterator[str]]
"""What is wrong with what an adapter makes of a history."""

DrawnT = TypeVar("DrawnT")

SEED = 20261121
_SHRINK_LIMIT = 400
"""How many smaller histories are looked at, for the smallest that breaks a law."""
_MAX_BLOCK_LENGTH = 160
_ELSEWHERE = "elsewhere"


def check_histories(subject: Subject, check: CheckHistory) -> Iterator[Trial]:
    """A law of histories, tried on those of the adapter's own model, on foreign ones, and on bad ones.

    A history that the model's thinking policy refuses proves nothing and is passed over.
    """
    for kind in ("own", "foreign", "any"):
        for number, history in enumerate(generate_histories(kind, _model(kind, subject), subject.effort.histories)):
            faults = _faults(subject, check, history)
            if not faults:
                yield Trial(f"{kind} history {number}", (), kind)
                continue
            smallest = _shrink(subject, check, history)
            yield Trial(f"{kind} history {describe_history(smallest)}", tuple(_faults(subject, check, smallest)), kind)
            break  # one counterexample a kind is enough, and finding the smallest takes long


def generate_replies(number: int) -> tuple[SampleReply, ...]:
    """Made-up replies, the same ones in every process."""
    return _cached_replies(number)


def describe_history(history: History) -> str:
    """A history in few words."""
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


def _strategy(kind: str, model: str) -> "SearchStrategy[list[Message]]":
    from dragoman.testing import strategies

    if kind == "any":
        return strategies.histories(max_scenes=4).filter(bool).map(_without_forged_data)
    return strategies.conversations(model) if kind == "own" else strategies.conversations()


def _without_forged_data(history: list[Message]) -> list[Message]:
    """A history without native data that nobody can have issued: that a provider would refuse it proves nothing."""
    return [
        message.model_copy(update={"content": tuple(map(_plausible_block, message.content))}) for message in history
    ]


def _plausible_block(block: ContentBlock) -> ContentBlock:
    match block:
        case ToolResultBlock():
            return block.model_copy(update={"content": tuple(map(_plausible_block, block.content))})
        case TextBlock() if block.citations:
            return block.model_copy(update={"citations": ()})
        case ProviderBlock():
            return block.model_copy(update={"provider": _ELSEWHERE})
        case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
            source = block.source.model_copy(
                update={"provider": _ELSEWHERE if block.source.kind == "file_id" else None}
            )
            if source.kind == "text" and not isinstance(block, DocumentBlock):
                source = source.model_copy(update={"kind": "base64"})
            return block.model_copy(update={"source": source})
        case _:
            return block


@cache
def generate_histories(kind: str, model: str, number: int) -> tuple[History, ...]:
    if kind == "own":  # the same conversations, with the model itself for the one from elsewhere
        return tuple(
            tuple(_attribute_to(model, message) for message in each)
            for each in generate_histories("foreign", "", number)
        )
    return tuple(map(tuple, _generate(_strategy(kind, model), number)))


def _attribute_to(model: str, message: Message) -> Message:
    if message.role is not Role.ASSISTANT:
        return message
    metadata = message.metadata.model_copy(update={"model": model, "provider": model.partition(":")[0]})
    return message.model_copy(update={"metadata": metadata})


@cache
def _cached_replies(number: int) -> tuple[SampleReply, ...]:
    from dragoman.testing import strategies

    return tuple(_generate(strategies.replies(), number)) if number else ()


def _generate(strategy: "SearchStrategy[DrawnT]", number: int) -> list[DrawnT]:
    from hypothesis import HealthCheck, Phase, given, seed, settings

    examples: list[DrawnT] = []

    @seed(SEED)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value: DrawnT) -> None:
        examples.append(value)

    draw()
    return examples


def _shrink(subject: Subject, check: CheckHistory, history: History) -> History:
    """The history with all left out that the law is broken without, as far as the patience reaches."""
    limit, tried = _SHRINK_LIMIT, 0
    candidates = _shrink_candidates(history)
    while (candidate := next(candidates, None)) is not None and tried < limit:
        tried += 1
        if _faults(subject, check, candidate):
            history = candidate
            candidates = _shrink_candidates(history)
    return history


def _shrink_candidates(history: History) -> Iterator[History]:
    """Histories with one thing less: half of the messages, a message, a block, a block in a tool's answer."""
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
