"""The context half of a view: subject, environment, labels and headers, read from the extensions.

Source: docs/reference/cmf.md#accessors.
"""

from typing import Any

from dragoman.canonical.extensions.headers import drop_secret_headers
from dragoman.canonical.extensions.security import (
    DataPolicy,
    ObjectSecurityProfile,
    SecurityExtension,
    SubjectExtension,
)
from dragoman.canonical.extensions.slots import BaseAgentExtension, BaseExtensions
from dragoman.canonical.frozen import FrozenDict


class UnreadableError(LookupError):
    """A plugin asks for something that its capabilities do not allow to read: "no" would be a wrong answer."""

    def __init__(self, question: str, capability: str) -> None:
        super().__init__(f"{question} needs the capability {capability}: declare it, because the answer is hidden")
        self.question = question
        self.capability = capability


class ViewSource:
    """What the views of one message share: the step, the capabilities of the reader, and what these show."""

    __slots__ = ("_extensions", "capabilities", "hook")

    def __init__(
        self, hook: str | None, extensions: BaseExtensions | None, capabilities: frozenset[str] | None
    ) -> None:
        self.hook = hook
        self.capabilities = capabilities
        self._extensions = extensions

    @property
    def extensions(self) -> BaseExtensions | None:
        """The extensions that the reader may see."""
        return self._extensions


class ViewContext:
    """Every accessor returns None or an empty value if there is nothing.

    What a capability hides raises UnreadableError: the subject with its roles, permissions and teams, labels and
    headers. An empty set would mean that there are none. A view knows the capabilities if a pipeline built it.
    """

    __slots__ = ()

    _source: ViewSource

    @property
    def _extensions(self) -> BaseExtensions | None:
        return self._source.extensions

    @property
    def environment(self) -> str | None:
        """The host's name for where it runs, such as production."""
        return self._extensions.request.environment if self._extensions and self._extensions.request else None

    @property
    def request_id(self) -> str | None:
        """The host's id of the request."""
        return self._extensions.request.request_id if self._extensions and self._extensions.request else None

    @property
    def subject(self) -> SubjectExtension | None:
        """The subject, as a copy. Raises UnreadableError."""
        self._require("subject", "read_subject")
        subject = self._subject
        return subject.model_copy(deep=True) if subject else None

    @property
    def roles(self) -> frozenset[str]:
        """The roles of the subject. Raises UnreadableError."""
        self._require("roles", "read_roles")
        return self._subject.roles if self._subject else frozenset()

    @property
    def permissions(self) -> frozenset[str]:
        """The permissions of the subject. Raises UnreadableError."""
        self._require("permissions", "read_permissions")
        return self._subject.permissions if self._subject else frozenset()

    @property
    def teams(self) -> frozenset[str]:
        """The teams of the subject. Raises UnreadableError."""
        self._require("teams", "read_teams")
        return self._subject.teams if self._subject else frozenset()

    @property
    def headers(self) -> FrozenDict:
        """All headers, secrets included: any reader of headers may read these. `to_dict` leaves secrets out. Raises
        UnreadableError."""
        self._require("headers", "read_headers")
        return self._headers

    @property
    def labels(self) -> frozenset[str]:
        """The security labels of the data. Raises UnreadableError."""
        self._require("labels", "read_labels")
        return self._security.labels if self._security else frozenset()

    @property
    def agent_input(self) -> str | None:
        """The user's original request, before any agent worked on it."""
        return self._agent.input if self._agent else None

    @property
    def session_id(self) -> str | None:
        """The session that the message belongs to."""
        return self._agent.session_id if self._agent else None

    @property
    def conversation_id(self) -> str | None:
        """The conversation, if the host counts several sessions as one."""
        return self._agent.conversation_id if self._agent else None

    @property
    def turn(self) -> int | None:
        """The number of the turn in the conversation, from 0."""
        return self._agent.turn if self._agent else None

    @property
    def agent_id(self) -> str | None:
        """The agent that handles the message."""
        return self._agent.agent_id if self._agent else None

    @property
    def parent_agent_id(self) -> str | None:
        """The agent that started this one, if another did."""
        return self._agent.parent_agent_id if self._agent else None

    def has_role(self, role: str) -> bool:
        """Return True if the subject has the role. Raises UnreadableError."""
        self._require("has_role", "read_roles")
        return role in self.roles

    def has_permission(self, permission: str) -> bool:
        """Return True if the subject has the permission. Raises UnreadableError."""
        self._require("has_permission", "read_permissions")
        return permission in self.permissions

    def has_label(self, label: str) -> bool:
        """Return True if the label is set. The comparison is exact: PII is not pii. Raises UnreadableError."""
        self._require("has_label", "read_labels")
        return label in self.labels

    def has_header(self, name: str) -> bool:
        """Return True if the header is set; case does not matter. Raises UnreadableError."""
        self._require("has_header", "read_headers")
        return any(known.lower() == name.lower() for known in self.headers)

    def get_header(self, name: str, default: str | None = None) -> str | None:
        """Return the header; case does not matter. Raises UnreadableError."""
        self._require("get_header", "read_headers")
        return next((value for known, value in self.headers.items() if known.lower() == name.lower()), default)

    def _require(self, question: str, capability: str) -> None:
        granted = self._source.capabilities
        if granted is not None and capability not in granted:
            raise UnreadableError(question, capability)

    @property
    def _headers(self) -> FrozenDict:
        return FrozenDict(self._extensions.http.headers) if self._extensions and self._extensions.http else FrozenDict()

    @property
    def _security(self) -> SecurityExtension | None:
        return self._extensions.security if self._extensions else None

    @property
    def _subject(self) -> SubjectExtension | None:
        return self._security.subject if self._security else None

    @property
    def _agent(self) -> BaseAgentExtension | None:
        return self._extensions.agent if self._extensions else None


def export_context(
    context: ViewContext, profile: ObjectSecurityProfile | None, policy: DataPolicy | None
) -> dict[str, Any]:
    """Return the context as JSON for an outside policy engine, without secret headers and claims.

    Keys without a value are left out, and so is what the reader may not see. Source:
    docs/reference/cmf.md#view-as-json.
    """
    subject, security = context._subject, context._security
    rules = {} if policy is None else policy.model_dump(mode="json")
    agent = {"input": context.agent_input, **{name: getattr(context, name) for name in _AGENT}}
    document = {
        "subject": subject.model_dump(mode="json", include=_SUBJECT) if subject else None,
        "environment": context.environment,
        "labels": sorted(security.labels) if security else None,
        "headers": drop_secret_headers(context._headers),
        "object": profile.model_dump(mode="json", include=_PROFILE) if profile else None,
        "data": {name: rules[name] for name in _POLICY if rules.get(name) is not None},
        "agent": {name: value for name, value in agent.items() if value or value == 0},
    }
    return {key: value for key, value in document.items() if value}


_SUBJECT = {"id", "type", "roles", "permissions", "teams"}
_PROFILE = {"managed_by", "permissions", "trust_domain", "data_scope"}
_POLICY = ("apply_labels", "denied_actions", "allowed_actions", "retention")
_AGENT = ("session_id", "conversation_id", "turn", "agent_id", "parent_agent_id")
