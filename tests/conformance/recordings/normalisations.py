"""Differences between two request bodies with the same meaning, each with a one-line reason.

A normalisation is applied to both bodies, and only if they differ; the report counts how often each was needed.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.jsondiff import differences
from tests.conformance.scope import ADAPTERS


@dataclass(frozen=True, slots=True)
class Normalisation:
    """``change`` alters a body in place."""

    name: str
    why: str
    change: Callable[[dict[str, Any]], None]
    providers: frozenset[str]


_EVERY = frozenset(ADAPTERS)


def _no_empty_tools(body: dict[str, Any]) -> None:
    if body.get("tools") == []:
        del body["tools"]


def _no_empty_system(body: dict[str, Any]) -> None:
    if body.get("system") in ("", []):
        del body["system"]


def _no_model(body: dict[str, Any]) -> None:
    body.pop("model", None)


NORMALISATIONS: tuple[Normalisation, ...] = (
    Normalisation("no tools", "an empty list of tools offers none, as no list does", _no_empty_tools, _EVERY),
    Normalisation("no system", "an empty system prompt says nothing", _no_empty_system, frozenset({"anthropic"})),
    Normalisation(
        "model in the path",
        "a deployment's path names the model, and its body need not",
        _no_model,
        frozenset({"azure-openai"}),
    ),
)


def normalise(provider: str, theirs: Any, ours: Any) -> tuple[Any, Any, tuple[str, ...]]:
    """Both bodies, normalised as far as necessary, and the names of the normalisations."""
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
