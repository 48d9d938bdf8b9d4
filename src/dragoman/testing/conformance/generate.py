"""Generates the histories and replies for the laws, once for all adapters. Hypothesis is imported on first use."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.testing.fixed_draws import fixed_draws
from dragoman.testing.sample_reply import SampleReply

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

History = Sequence[Message]

DrawnT = TypeVar("DrawnT")

SEED = 20261121
_BATCH = 25
"""Examples that are drawn at once, each batch with a seed of its own: a greater number only adds examples."""
_ELSEWHERE = "elsewhere"


def generate_replies(number: int) -> tuple[SampleReply, ...]:
    """Return generated replies, the same in every process."""
    return _cached_replies(number)


def _strategy(kind: str, model: str) -> "SearchStrategy[list[Message]]":
    from dragoman.testing import strategies

    if kind == "any":
        return strategies.histories(max_scenes=4).filter(bool).map(_without_forged_data)
    return strategies.conversations(model) if kind == "own" else strategies.conversations()


def _without_forged_data(history: list[Message]) -> list[Message]:
    """Return a history without forged data, which no reply has: a provider's refusal of it would prove nothing."""
    return [
        message.model_copy(
            update={
                "content": tuple(map(_plausible_block, message.content)),
                "metadata": message.metadata.model_copy(update={"provider_raw": None}),
            }
        )
        for message in history
    ]


def _plausible_block(block: ContentBlock) -> ContentBlock:
    match block:
        case ToolResultBlock():
            return block.model_copy(update={"content": tuple(map(_plausible_block, block.content))})
        case ToolUseBlock() if block.raw_input is not None:
            return block.model_copy(update={"input": {}})
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
    if kind == "own":  # the same conversations, attributed to the model itself
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
    batches = -(-number // _BATCH)
    return [drawn for batch in range(batches) for drawn in _draw_batch(strategy, SEED + batch)][:number]


def _draw_batch(strategy: "SearchStrategy[DrawnT]", batch_seed: int) -> list[DrawnT]:
    from hypothesis import HealthCheck, Phase, given, seed, settings

    examples: list[DrawnT] = []

    @seed(batch_seed)
    @settings(
        max_examples=_BATCH,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value: DrawnT) -> None:
        examples.append(value)

    with fixed_draws():
        draw()
    return examples
