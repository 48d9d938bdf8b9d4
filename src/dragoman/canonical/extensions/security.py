"""Who asks, what their data is called, and what may be done with it (CMF A4.3, SecurityExtension)."""

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
    """The authenticated entity that asks. ``claims`` are its raw identity claims (JWT, SAML): never printed."""

    id: Text
    type: SubjectType
    roles: NameSet = frozenset()
    permissions: NameSet = frozenset()
    teams: NameSet = frozenset()
    claims: TextMap = Field(default_factory=FrozenDict, repr=False)


class ObjectSecurityProfile(FrozenModel):
    """What it takes to use a tool, a resource or a prompt.

    ``managed_by`` says who enforces that, ``permissions`` what a caller needs, ``data_scope`` which fields are touched
    or returned.
    """

    managed_by: Literal["host", "tool", "both"] = "host"
    permissions: Names = Field(default_factory=FrozenList)
    trust_domain: Literal["internal", "external", "privileged"] | None = None
    data_scope: Names = Field(default_factory=FrozenList)


class RetentionPolicy(FrozenModel):
    """How long data may be kept; ``delete_after`` is an ISO time."""

    max_age_seconds: Count | None = None
    policy: Literal["session", "transient", "persistent", "none"] = "persistent"
    delete_after: Text | None = None


class DataPolicy(FrozenModel):
    """What becomes of data that an entity returns: the labels it gets, and what may be done with it.

    Actions are words that tool and host agree on, such as export, forward and log_raw. ``allowed_actions`` None means
    all but the denied ones.
    """

    apply_labels: Names = Field(default_factory=FrozenList)
    allowed_actions: Names | None = None
    denied_actions: Names = Field(default_factory=FrozenList)
    retention: RetentionPolicy | None = None

    def permits(self, action: str) -> bool:
        """A denied action is never permitted, one outside a list of allowed ones neither."""
        if action in self.denied_actions:
            return False
        return self.allowed_actions is None or action in self.allowed_actions


class SecurityExtension(FrozenModel):
    """Labels on the data, who asks, and the rules for what is asked for.

    ``objects`` and ``data`` are keyed by an entity's name (tool, prompt, resource) or URI. Labels only ever grow,
    until someone declassifies them (`dragoman.policy.declassify`); the rest is the host's and stays.
    """

    labels: NameSet = frozenset()
    classification: Text | None = None
    subject: SubjectExtension | None = None
    objects: Annotated[dict[Text, ObjectSecurityProfile], AfterValidator(freeze)] = Field(default_factory=FrozenDict)
    data: Annotated[dict[Text, DataPolicy], AfterValidator(freeze)] = Field(default_factory=FrozenDict)
