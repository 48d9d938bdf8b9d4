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
    USER = "user"
    AGENT = "agent"
    SERVICE = "service"
    SYSTEM = "system"


class SubjectExtension(FrozenModel):
    """The authenticated caller. ``claims`` are its raw identity claims (JWT, SAML) and are never printed."""

    id: Text
    type: SubjectType
    roles: NameSet = frozenset()
    permissions: NameSet = frozenset()
    teams: NameSet = frozenset()
    claims: TextMap = Field(default_factory=FrozenDict, repr=False)


class ObjectSecurityProfile(FrozenModel):
    """The requirements for using a tool, a resource or a prompt. Source: docs/reference/cmf.md#object-profiles.

    ``managed_by`` says who enforces them, ``permissions`` what the caller needs, ``data_scope`` which fields are read
    or returned.
    """

    managed_by: Literal["host", "tool", "both"] = "host"
    permissions: Names = Field(default_factory=FrozenList)
    trust_domain: Literal["internal", "external", "privileged"] | None = None
    data_scope: Names = Field(default_factory=FrozenList)


class RetentionPolicy(FrozenModel):
    """How long data may be stored. ``delete_after`` is an ISO time."""

    max_age_seconds: Count | None = None
    policy: Literal["session", "transient", "persistent", "none"] = "persistent"
    delete_after: Text | None = None


class DataPolicy(FrozenModel):
    """The rules for data that an entity returns: its labels, and the permitted actions.

    Actions are words that tool and host agree on, such as export, forward and log_raw. If ``allowed_actions`` is None,
    all but the denied ones are allowed. Source: docs/reference/cmf.md#data-policies.
    """

    apply_labels: Names = Field(default_factory=FrozenList)
    allowed_actions: Names | None = None
    denied_actions: Names = Field(default_factory=FrozenList)
    retention: RetentionPolicy | None = None

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
    classification: Text | None = None
    subject: SubjectExtension | None = None
    objects: Annotated[dict[Text, ObjectSecurityProfile], AfterValidator(freeze)] = Field(default_factory=FrozenDict)
    data: Annotated[dict[Text, DataPolicy], AfterValidator(freeze)] = Field(default_factory=FrozenDict)
