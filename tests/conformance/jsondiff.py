"""The differences of two JSON values, as paths."""

from collections.abc import Iterator
from typing import Any

from tests.conformance.outcomes import Difference, shorten


def differences(theirs: Any, ours: Any, path: str = "$") -> Iterator[Difference]:
    """Each difference once, at the deepest path that names it; ``[]`` is any index."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs:
            if key not in ours:
                yield Difference(f"{path}.{key} left out", shorten(theirs[key]))
            else:
                yield from differences(theirs[key], ours[key], f"{path}.{key}")
        for key in ours:
            if key not in theirs:
                yield Difference(f"{path}.{key} added", shorten(ours[key]))
    elif isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            yield _items(theirs, ours, path)
        else:
            for left, right in zip(theirs, ours, strict=True):
                yield from differences(left, right, f"{path}[]")
    elif not same_scalar(theirs, ours):
        yield Difference(f"{path} changed", f"{shorten(theirs)} -> {shorten(ours)}")


def _items(theirs: list[Any], ours: list[Any], path: str) -> Difference:
    """The differing middle of two lists of different lengths."""
    begin = 0
    while begin < min(len(theirs), len(ours)) and theirs[begin] == ours[begin]:
        begin += 1
    end = 0
    while end < min(len(theirs), len(ours)) - begin and theirs[-1 - end] == ours[-1 - end]:
        end += 1
    left, right = theirs[begin : len(theirs) - end], ours[begin : len(ours) - end]
    what = "left out" if not right else "added" if not left else "changed"
    return Difference(f"{path}[] items {what}", f"{shorten(left)} -> {shorten(right)}")


def same_scalar(theirs: Any, ours: Any) -> bool:
    """Equal as JSON: true is not 1, but 1 and 1.0 are one number (its spelling was not recorded)."""
    return isinstance(theirs, bool) == isinstance(ours, bool) and bool(theirs == ours)
