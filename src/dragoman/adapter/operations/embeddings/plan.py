"""Splits many inputs into requests within a model's limits, and cuts or refuses inputs that are too long."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dragoman.adapter.errors import ContextOverflowError
from dragoman.adapter.losses import Loss, LossKind
from dragoman.adapter.operations.embeddings.capabilities import Truncate
from dragoman.adapter.operations.embeddings.contract import EmbeddingAdapter, EmbeddingInput, EmbeddingOptions

_TOLERANCE = 1.25
"""A provider that counts the tokens itself is asked, unless an estimate is over its limit by this factor."""
_MARGIN = 0.9
"""The share of a limit that estimated tokens fill."""
_SHORT = 40
"""Characters of a text whose tokens are not estimated."""
_MARKERS = 8
"""Tokens that a model may add to each text."""


@dataclass(frozen=True, slots=True)
class EmbeddingPlan:
    """The inputs as they are sent, and the requests: the numbers of the inputs of each."""

    inputs: list[EmbeddingInput]
    requests: list[list[int]]
    losses: tuple[Loss, ...]


def plan_requests(
    adapter: EmbeddingAdapter,
    inputs: Sequence[EmbeddingInput],
    options: EmbeddingOptions,
    numbers: Iterable[int] | None = None,
    max_tokens: int | None = None,
) -> EmbeddingPlan:
    """Return the requests for these inputs, or for those of the given numbers alone. ``max_tokens`` is the caller's own
    limit of one request.

    Raises RequestError for an input or an option that the model does not accept, and ContextOverflowError for an input
    that is too long, before anything is sent.
    """
    adapter.check(inputs, options)
    wanted = list(range(len(inputs)) if numbers is None else numbers)
    sent, losses = list(inputs), []
    limit = adapter.capabilities.max_input_tokens
    if limit is not None:
        for number in wanted:
            text = sent[number]
            if isinstance(text, str) and _most_tokens(text) > limit:
                sent[number], loss = _fit(adapter, number, text, limit, options.truncate)
                losses += [] if loss is None else [loss]
    return EmbeddingPlan(sent, _split(adapter, sent, wanted, max_tokens), tuple(losses))


def _split(
    adapter: EmbeddingAdapter, inputs: Sequence[EmbeddingInput], wanted: Iterable[int], max_tokens: int | None
) -> list[list[int]]:
    facts = adapter.capabilities
    limits = [each for each in (facts.max_request_tokens, max_tokens) if each is not None]
    limit = int(min(limits) * _MARGIN) if limits else None
    max_images = facts.max_inputs if facts.max_images is None else facts.max_images
    requests: list[list[int]] = []
    tokens = images = 0
    kind: type[EmbeddingInput] | None = None
    for number in wanted:
        each = inputs[number]
        image = not isinstance(each, str)
        size = 0 if limit is None else _estimate(adapter, each)
        full = (
            not requests
            or len(requests[-1]) >= facts.max_inputs
            or images + image > max_images
            or (limit is not None and tokens + size > limit)
            or (facts.wire.get("one_kind") and type(each) is not kind)
        )
        if full:
            requests.append([])
            tokens = images = 0
            kind = type(each)
        requests[-1].append(number)
        tokens, images = tokens + size, images + image
    return requests


def _fit(
    adapter: EmbeddingAdapter, number: int, text: str, limit: int, truncate: Truncate | None
) -> tuple[str, Loss | None]:
    """Return the text as it is sent. Raises ContextOverflowError if it is too long and may not be cut."""
    tokens = adapter.estimate_tokens([text])
    words = f"input {number} has about {tokens:,} tokens, and {adapter.model_id} reads {limit:,}"
    if truncate is None:
        if tokens <= limit * (_TOLERANCE if adapter.capabilities.refuses_long_inputs else 1):
            return text, None
        raise ContextOverflowError(
            f"{words}: split it, or pass truncate='end'", provider=adapter.provider, model=adapter.model
        )
    if tokens <= limit * _MARGIN or (truncate in adapter.capabilities.truncates and tokens <= limit):
        return text, None
    loss = Loss(LossKind.TRUNCATED, "", number, f"{words}: its {truncate} is left out", block_type="text")
    return (text if truncate in adapter.capabilities.truncates else _cut(adapter, text, limit, truncate)), loss


def _cut(adapter: EmbeddingAdapter, text: str, limit: int, truncate: Truncate) -> str:
    """Return the longest part of the text that surely fits."""
    low, high, room = 1, len(text), int(limit * _MARGIN)
    while low < high:
        middle = (low + high + 1) // 2
        part = text[:middle] if truncate == "end" else text[-middle:]
        if adapter.estimate_tokens([part]) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low] if truncate == "end" else text[-low:]


def _estimate(adapter: EmbeddingAdapter, each: EmbeddingInput) -> int:
    """Return the tokens of an input, or the maximum if the text is short: that is known at once."""
    if isinstance(each, str) and len(each) <= _SHORT:
        return _most_tokens(each)
    return adapter.estimate_tokens([each])


def _most_tokens(text: str) -> int:
    """Return a number that the tokens of a text never exceed: no token is shorter than one byte."""
    return (len(text) if text.isascii() else 4 * len(text)) + _MARKERS
