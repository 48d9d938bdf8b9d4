"""Robust fitting in plain Python: non-negative weights that bring estimates close to counts.

It minimises the sum over all samples of the relative error, bounded on both sides: |estimate - count| over the larger
of the two. It uses least squares, reweighted in each round, with a small pull towards the initial weights, so that
features with few samples keep theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_ROUNDS = 40
_LEAST = 0.02
"""Smaller relative errors count the same: single tokens should not influence the fit."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One kind of request: its features, the reported count, and its frequency."""

    features: tuple[float, ...]
    tokens: int
    times: int = 1


def fit(samples: Sequence[Sample], start: Sequence[float], reach: Sequence[float], pull: float) -> list[float]:
    """Return the weights. ``reach`` is the scale of the distance from ``start`` for each; ``pull`` is its influence."""
    weights = list(start)
    rows = [
        ([(place, value / sample.tokens) for place, value in enumerate(sample.features) if value], sample.times**0.5)
        for sample in samples
    ]
    pulls = [pull / distance**2 for distance in reach]
    for number in range(_ROUNDS):
        least = max(_LEAST, 0.5 * 0.8**number)
        matrix = [[0.0] * len(start) for _ in start]
        target = [strength * weight for strength, weight in zip(pulls, start, strict=True)]
        for place, strength in enumerate(pulls):
            matrix[place][place] = strength
        for row, frequency in rows:
            ratio = sum(weights[place] * value for place, value in row)
            row_weight = frequency / (max(abs(ratio - 1), least) * max(ratio, 1))
            for place, value in row:
                target[place] += row_weight * value
                line = matrix[place]
                for other, other_value in row:
                    line[other] += row_weight * value * other_value
        weights = _not_negative(matrix, target)
    return weights


def _not_negative(matrix: Sequence[Sequence[float]], target: Sequence[float]) -> list[float]:
    """Solve the equations; negative values are set to 0, and the others are solved again."""
    kept = list(range(len(target)))
    while True:
        found = _solve([[matrix[row][column] for column in kept] for row in kept], [target[row] for row in kept])
        if all(value >= 0 for value in found):
            whole = [0.0] * len(target)
            for place, value in zip(kept, found, strict=True):
                whole[place] = value
            return whole
        kept = [place for place, value in zip(kept, found, strict=True) if value > 0]


def _solve(matrix: list[list[float]], target: list[float]) -> list[float]:
    """Solve by Gaussian elimination; the matrix is symmetric and positive definite, so no pivoting is needed."""
    size = len(target)
    for pivot in range(size):
        for row in range(pivot + 1, size):
            factor = matrix[row][pivot] / matrix[pivot][pivot]
            if factor:
                upper, lower = matrix[pivot], matrix[row]
                for column in range(pivot, size):
                    lower[column] -= factor * upper[column]
                target[row] -= factor * target[pivot]
    found = [0.0] * size
    for row in range(size - 1, -1, -1):
        rest = sum(matrix[row][column] * found[column] for column in range(row + 1, size))
        found[row] = (target[row] - rest) / matrix[row][row]
    return found
