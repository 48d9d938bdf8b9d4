"""The largest sum of uses in a window of time, as an independent check of the limits."""

from collections.abc import Iterable


def most_in_any_window(uses: Iterable[tuple[int, int]], width: int) -> int:
    """The largest sum of amounts, of (time, amount), in a window of that width, whose end does not belong to it."""
    ordered = sorted(uses)
    most = held = first = 0
    for at, amount in ordered:
        held += amount
        while ordered[first][0] <= at - width:
            held -= ordered[first][1]
            first += 1
        most = max(most, held)
    return most
