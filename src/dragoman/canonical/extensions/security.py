"""Security extension: the subject, labels, object profiles and data policies.

Source: docs/reference/cmf.md#extensions.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.fields import Names, NameSet, TextMap
from dragoman.canonical.frozen import FrozenDict, FrozenList, freeze
from dragoman.canonical.guard import Count, Text


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
