"""Embeddings: vectors in the order of their inputs, with what they cost."""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.errors import MissingExtraError, RequestError
from dragoman.adapter.losses import Loss
from dragoman.adapter.operations.embeddings import Vector
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.session.cost import total_cost, total_usage


@dataclass(frozen=True, slots=True)
class Embeddings:
    """One vector for each input, in their order: 32-bit floats, all of the same length.

    ``normalized`` says whether the vectors have the length 1, so that a dot product is their cosine; None is unknown.
    ``usage`` is that of all requests together. ``receipts`` are messages without content, one for each request, with
    its usage. ``labels`` are the security labels of the inputs: a vector says much of the text that it was made from.
    """

    model: str
    """The model, as ``provider:name``."""
    vectors: list[Vector] = field(repr=False)
    """The vectors, as arrays of 32-bit floats."""
    dimensions: int
    """The length of each vector."""
    usage: Usage
    normalized: bool | None = None
    purpose: str | None = None
    """What the vectors are for, as the caller said; None if the caller did not."""
    losses: tuple[Loss, ...] = ()
    """What the requests could not carry, such as a purpose that the model does not know."""
    receipts: tuple[Message, ...] = field(default=(), repr=False)
    labels: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.vectors)

    def __iter__(self) -> Iterator[Vector]:
        return iter(self.vectors)

    def __getitem__(self, number: int) -> Vector:
        return self.vectors[number]

    @property
    def matrix(self) -> Any:
        """The vectors as rows of a numpy array of float32. Raises MissingExtraError without numpy."""
        try:
            import numpy
        except ImportError:
            raise MissingExtraError("a matrix needs numpy: pip install numpy, or use the vectors") from None
        return numpy.frombuffer(self.tobytes(), dtype=numpy.float32).reshape(len(self.vectors), self.dimensions)

    def tobytes(self) -> bytes:
        """Return the vectors one after the other, as 32-bit floats of this machine."""
        return b"".join(each.tobytes() for each in self.vectors)


@dataclass(frozen=True, slots=True)
class PartialEmbeddings:
    """What a call had when it failed. Pass it to the next call, ``embed(..., resume=error.embedded)``: no vector is
    paid twice.

    A vector that is missing is None. ``key`` identifies the inputs and the options. ``labels`` are those of
    the inputs so far.
    """

    model: str
    """The model, as ``provider:name``."""
    vectors: list[Vector | None] = field(repr=False)
    """One place for each input, in order."""
    key: str
    receipts: tuple[Message, ...] = field(default=(), repr=False)
    """Messages without content, one for each request that was answered, with its usage."""
    labels: frozenset[str] = frozenset()

    @property
    def missing(self) -> tuple[int, ...]:
        """The numbers of the inputs without a vector."""
        return tuple(number for number, each in enumerate(self.vectors) if each is None)

    @property
    def usage(self) -> Usage:
        """What was billed so far."""
        return sum_usage(self.receipts)


def sum_usage(receipts: Sequence[Message]) -> Usage:
    """Return the usage of several requests together. Its cost is a lower bound if some is unknown."""
    usages = [each.usage for each in receipts if each.usage is not None]
    cost = total_cost(receipts)
    counts = total_usage(receipts).model_dump(exclude={"unread"})
    return Usage(
        **counts,
        unread=tuple(dict.fromkeys(path for each in usages for path in each.unread)),
        cost_usd=cost.usd,
        cost_status=cost.status if receipts else CostStatus.FREE,
        unpriced=tuple(dict.fromkeys(name for each in usages for name in each.unpriced)),
        pricing_version=next((each.pricing_version for each in usages if each.pricing_version), None),
    )


def check_comparable(*embeddings: Embeddings) -> None:
    """Raise RequestError unless one model made all of these, with vectors of one length: vectors of two models say
    nothing about each other."""
    models = sorted({each.model for each in embeddings})
    if len(models) > 1:
        raise RequestError(f"vectors of different models cannot be compared: {', '.join(models)}")
    lengths = sorted({each.dimensions for each in embeddings})
    if len(lengths) > 1:
        raise RequestError(f"vectors of different lengths cannot be compared: {', '.join(map(str, lengths))}")


def similarities(queries: Embeddings, documents: Embeddings) -> list[Vector]:
    """Return the cosine of each query with each document: one row for each query. numpy does the work if it is there.

    Raises RequestError if they cannot be compared.
    """
    check_comparable(queries, documents)
    try:
        import numpy
    except ImportError:
        return [_cosines(query, documents.vectors) for query in queries.vectors]
    unit_rows = []
    for matrix in (queries.matrix, documents.matrix):
        lengths = numpy.linalg.norm(matrix, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        unit_rows.append(matrix / lengths)
    left, right = unit_rows
    return [array("f", row.tobytes()) for row in (left @ right.T).astype(numpy.float32)]


def _cosines(query: Vector, documents: Sequence[Vector]) -> Vector:
    length = math.hypot(*query)
    found = array("f")
    for each in documents:
        product = sum(map(float.__mul__, query, each))
        found.append(product / ((length * math.hypot(*each)) or 1.0))
    return found
