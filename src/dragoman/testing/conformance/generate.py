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


@cache
def generate_replies(number: int) -> tuple[SampleReply, ...]:
    """Return generated replies, the same in every process."""
    from dragoman.testing import strategies

    return tuple(_generate(strategies.replies(), number))


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
    """Return generated histories: of ``any`` form, or conversations that are ``foreign`` or the model's ``own``."""
    from dragoman.testing import strategies

    if kind == "any":
        histories = strategies.histories(max_scenes=4).filter(bool).map(_without_forged_data)
        return tuple(map(tuple, _generate(histories, number)))
    if kind == "foreign":
        return tuple(map(tuple, _generate(strategies.conversations(), number)))
    # The same conversations, attributed to the model itself.
    author = {"model": model, "provider": model.partition(":")[0]}
    return tuple(
        tuple(
            message.model_copy(update={"metadata": message.metadata.model_copy(update=author)})
            if message.role is Role.ASSISTANT
            else message
            for message in history
        )
        for history in generate_histories("foreign", "", number)
    )


def _generate(strategy: "SearchStrategy[DrawnT]", number: int) -> list[DrawnT]:
    from hypothesis import HealthCheck, Phase, given, seed, settings

    examples: list[DrawnT] = []
    for batch in range(-(-number // _BATCH)):

        @seed(SEED + batch)
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
    return examples[:number]
