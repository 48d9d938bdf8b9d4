"""The most that was granted in any window, counted without the algorithm."""

from collections.abc import Iterable


def most_in_any_window(uses: Iterable[tuple[int, int]], width: int) -> int:
    """Of (time, amount), in any span of that width, its end excluded; such a span may as well start with a use."""
    ordered = sorted(uses)
    most = held = first = 0
    for at, amount in ordered:
        held += amount
        while ordered[first][0] <= at - width:
            held -= ordered[first][1]
            first += 1
        most = max(most, held)
    return most
