"""Security extension: the subject, labels, object profiles, data policies, and how long data may be kept.

Source: docs/reference/cmf.md#extensions.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.frozen import FrozenDict, FrozenList, Names, TextMap, freeze
from dragoman.canonical.guard import Count, NameSet, Text


class SubjectType(StrEnum):
    """What an authenticated caller is."""

    USER = "user"
    AGENT = "agent"
    SERVICE = "service"
    SYSTEM = "system"


class SubjectExtension(FrozenModel):
    """The authenticated caller. ``claims`` are its raw identity claims (JWT, SAML) and are never printed."""

    id: Text
    """The pseudonymous id under which the host knows the caller."""
    type: SubjectType
    """Whether the caller is a user, an agent, a service or the system."""
    roles: NameSet = frozenset()
    """The caller's roles. Seen with ``read_roles``."""
    permissions: NameSet = frozenset()
    """The permissions that object profiles are compared with. Seen with ``read_permissions``."""
    teams: NameSet = frozenset()
    """The caller's teams. Seen with ``read_teams``."""
    claims: TextMap = Field(default_factory=FrozenDict, repr=False)


class ObjectSecurityProfile(FrozenModel):
    """The requirements for using a tool, a resource or a prompt. Source: docs/reference/cmf.md#object-profiles.

    ``managed_by`` says who enforces them, ``permissions`` what the caller needs, ``data_scope`` which fields are read
    or returned.
    """

    managed_by: Literal["host", "tool", "both"] = "host"
    permissions: Names = Field(default_factory=FrozenList)
    trust_domain: Literal["internal", "external", "privileged"] | None = None
    """Who runs the entity: the own organisation, somebody else, or a part with more rights."""
    data_scope: Names = Field(default_factory=FrozenList)


class RetentionPolicy(FrozenModel):
    """How long data may be stored. ``delete_after`` is an ISO time."""

    max_age_seconds: Count | None = None
    """The longest storage, in seconds from the time of the message."""
    policy: Literal["session", "transient", "persistent", "none"] = "persistent"
    """How long the data lives: for the ``session``, for the request (``transient``), for good, or not at all."""
    delete_after: Text | None = None


class DataPolicy(FrozenModel):
    """The rules for data that an entity returns: its labels, and the permitted actions.

    Actions are words that tool and host agree on, such as export, forward and log_raw. If ``allowed_actions`` is None,
    all but the denied ones are allowed. Source: docs/reference/cmf.md#data-policies.
    """

    apply_labels: Names = Field(default_factory=FrozenList)
    """The security labels that what the entity returns gets."""
    allowed_actions: Names | None = None
    denied_actions: Names = Field(default_factory=FrozenList)
    """Actions that are never allowed, even if ``allowed_actions`` has them."""
    retention: RetentionPolicy | None = None
    """How long what the entity returns may be stored; None sets no limit."""

    def permits(self, action: str) -> bool:
        """Return True if the action is not denied, and is allowed if there is a list of allowed actions."""
        if action in self.denied_actions:
            return False
        return self.allowed_actions is None or action in self.allowed_actions


class SecurityExtension(FrozenModel):
    """Labels on the data, the subject, and the rules for objects and data.

    ``objects`` and ``data`` are keyed by an entity's name (tool, prompt, resource) or URI. Labels only grow, until
    `dragoman.policy.declassify` removes them. Everything else is set by the host and does not change.
    """

    labels: NameSet = frozenset()
    """The labels of all data in the message, such as ``PII``. Upper and lower case differ."""
    classification: Text | None = None
    """The host's one word for the whole message, such as ``confidential``."""
    subject: SubjectExtension | None = None
    """The authenticated caller. Seen with ``read_subject``."""
    objects: Annotated[dict[Text, ObjectSecurityProfile], AfterValidator(freeze)] = Field(default_factory=FrozenDict)
    data: Annotated[dict[Text, DataPolicy], AfterValidator(freeze)] = Field(default_factory=FrozenDict)


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
