"""How long the data of a message may be kept, stored beside the message as its labels are.

Source: docs/reference/cmf.md#retention.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from dragoman.canonical.extensions.security import RetentionPolicy

RETENTION = "retention"
"""The key in the stored extensions of a message: ``until``, ``session`` and, once its data is gone, ``enforced``."""

_LAST = datetime.max.replace(tzinfo=UTC)


def retention_end(policy: RetentionPolicy, since: datetime) -> datetime | None:
    """Return when data that arrived at ``since`` has to be gone; None if nothing but the end of its session ends it.

    Raises ValueError if ``delete_after`` is not an ISO time.
    """
    if policy.policy in ("transient", "none"):
        return since
    ends = []
    if policy.delete_after is not None:
        end = datetime.fromisoformat(policy.delete_after)
        ends.append(end if end.tzinfo else end.replace(tzinfo=UTC))
    if policy.max_age_seconds is not None:
        try:
            ends.append(since + timedelta(seconds=policy.max_age_seconds))
        except OverflowError:
            ends.append(_LAST)
    return min(ends, default=None)


def stored_retention(policies: Iterable[RetentionPolicy], since: datetime) -> dict[str, Any] | None:
    """Return what is stored with a message whose data has these policies: the strictest end; None if all of them let
    it stay."""
    known = tuple(policies)
    ends = [end for policy in known if (end := retention_end(policy, since)) is not None]
    kept: dict[str, Any] = {}
    if ends:
        kept["until"] = min(ends).astimezone(UTC).isoformat()
    if any(policy.policy == "session" for policy in known):
        kept["session"] = True
    return kept or None


def read_retention(kept: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the retention in the stored extensions of one message, if it is still to be enforced."""
    found = kept.get(RETENTION)
    return found if isinstance(found, Mapping) and "enforced" not in found else None
