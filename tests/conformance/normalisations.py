"""Differences between two request bodies that mean the same, each with one line that says why.

A normalisation is applied to both bodies, and only where they differ; the report counts how often each was needed.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.jsondiff import differences


@dataclass(frozen=True, slots=True)
class Normalisation:
    """``change`` alters a body in place."""

    name: str
    why: str
    change: Callable[[dict[str, Any]], None]
    providers: frozenset[str]


NORMALISATIONS: tuple[Normalisation, ...] = ()


def normalise(provider: str, theirs: Any, ours: Any) -> tuple[Any, Any, tuple[str, ...]]:
    """Both bodies, normalised as far as they have to be, and the names of what it took."""
    used: list[str] = []
    for rule in NORMALISATIONS:
        if provider not in rule.providers:
            continue
        before = list(differences(theirs, ours))
        if not before:
            break
        left, right = copy.deepcopy(theirs), copy.deepcopy(ours)
        rule.change(left)
        rule.change(right)
        if len(list(differences(left, right))) < len(before):
            theirs, ours = left, right
            used.append(rule.name)
    return theirs, ours, tuple(used)
