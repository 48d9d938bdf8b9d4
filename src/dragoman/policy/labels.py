"""Security labels: anyone may add them, derived data inherits them, and removing them is recorded.

Labels of a tool result pass to later messages, and data from several sources has the labels of all of them.
Source: docs/reference/cmf.md#labels.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from pydantic import AwareDatetime, Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.security import SecurityExtension
from dragoman.canonical.frozen import Names
from dragoman.canonical.guard import Text
from dragoman.policy.errors import DeclassificationError
from dragoman.policy.slots import Capability, expand_capabilities

__all__ = ["Declassification", "declassify", "inherit_labels", "labels_of", "with_labels"]


class Declassification(FrozenModel):
    """The audit record: who removed which labels, why and when. ``subject`` names the data, such as a message's id."""

    labels: Names
    """The labels that were removed."""
    actor: Text
    """Who removed them."""
    reason: Text
    """Why, in the actor's words."""
    subject: Text | None = None
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    """When they were removed, with a time zone."""


def labels_of(extensions: Extensions | None) -> frozenset[str]:
    """Return the security labels of the data; an empty set without extensions."""
    return extensions.security.labels if extensions and extensions.security else frozenset()


def with_labels(extensions: Extensions | None, labels: Iterable[str]) -> Extensions:
    """Return the extensions with these labels added, or the same object if it already has them all."""
    return _replace_labels(extensions, labels_of(extensions) | _as_set(labels))


def inherit_labels(extensions: Extensions | None, *sources: Extensions | None) -> Extensions:
    """Return the extensions with the labels of all sources added."""
    return with_labels(extensions, frozenset[str]().union(*map(labels_of, sources)))


def without_labels(extensions: Extensions, labels: Iterable[str]) -> Extensions:
    """Remove labels without a record. Only for callers that keep the record themselves; all others use `declassify`."""
    return _replace_labels(extensions, labels_of(extensions) - _as_set(labels))


def declassify(
    extensions: Extensions,
    labels: Iterable[str],
    *,
    capabilities: Iterable[Capability | str],
    actor: str,
    reason: str,
    audit: Callable[[Declassification], Any],
    subject: str | None = None,
    at: datetime | None = None,
) -> Extensions:
    """Return the extensions without these labels. Plugins and programs remove labels in this way only.

    ``audit`` gets exactly one record before the labels are removed; if it raises, they stay. Labels that are not set
    are ignored; if none is set, nothing is recorded and the same object is returned.

    Raises DeclassificationError without the capability declassify_labels, or without an actor and a reason.
    Source: docs/reference/policy.md#declassification.
    """
    if Capability.DECLASSIFY_LABELS not in expand_capabilities(capabilities):
        raise DeclassificationError(f"removing labels requires the capability {Capability.DECLASSIFY_LABELS}")
    if not actor.strip() or not reason.strip():
        raise DeclassificationError("removing labels requires an actor and a reason for the record")
    removed = labels_of(extensions) & _as_set(labels)
    if not removed:
        return extensions
    times = {} if at is None else {"at": at}
    audit(Declassification(labels=sorted(removed), actor=actor, reason=reason, subject=subject, **times))
    return without_labels(extensions, removed)


def _as_set(labels: Iterable[str]) -> frozenset[str]:
    """Return a set of labels; a single string is one label, not a set of letters."""
    return frozenset((labels,) if isinstance(labels, str) else labels)


def _replace_labels(extensions: Extensions | None, labels: frozenset[str]) -> Extensions:
    known = extensions or Extensions()
    if labels == labels_of(known):
        return known
    security = known.security or SecurityExtension()
    return known.model_copy(update={"security": security.model_copy(update={"labels": labels})})
