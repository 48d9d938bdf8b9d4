"""The most that was let through in any window, counted without a word of the algorithm."""

from collections.abc import Iterable


def most_in_any_window(uses: Iterable[tuple[int, int]], width: int) -> int:
    """Of (moment, amount), in any span of that width whose end is excluded: it may as well begin with a use."""
    ordered = sorted(uses)
    most = held = first = 0
    for at, amount in ordered:
        held += amount
        while ordered[first][0] <= at - width:
            held -= ordered[first][1]
            first += 1
        most = max(most, held)
    return most
