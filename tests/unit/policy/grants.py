"""Which texts of the sample each capability shows, and what a view's accessors then return."""

from typing import Any

from dragoman.policy import Capability

GATED: dict[str, Capability] = {
    "agent.": Capability.READ_AGENT,
    "http.": Capability.READ_HEADERS,
    "security.labels": Capability.READ_LABELS,
    "security.subject.id": Capability.READ_SUBJECT,
    "security.subject.roles": Capability.READ_ROLES,
    "security.subject.permissions": Capability.READ_PERMISSIONS,
    "security.subject.teams": Capability.READ_TEAMS,
    "security.subject.claims": Capability.READ_CLAIMS,
    "security.objects": Capability.READ_OBJECTS,
    "security.data": Capability.READ_DATA,
    "delegation.": Capability.READ_DELEGATION,
}
"""By the start of a text; all other texts are visible to everyone."""

ACCESSORS: dict[str, Capability] = {
    "subject": Capability.READ_SUBJECT,
    "roles": Capability.READ_ROLES,
    "permissions": Capability.READ_PERMISSIONS,
    "teams": Capability.READ_TEAMS,
    "headers": Capability.READ_HEADERS,
    "labels": Capability.READ_LABELS,
    "agent_input": Capability.READ_AGENT,
    "session_id": Capability.READ_AGENT,
    "conversation_id": Capability.READ_AGENT,
    "turn": Capability.READ_AGENT,
    "agent_id": Capability.READ_AGENT,
    "parent_agent_id": Capability.READ_AGENT,
    "object": Capability.READ_OBJECTS,
    "data_policy": Capability.READ_DATA,
}
"""The specification's table of accessors; environment and request_id are visible to everyone."""


def texts(value: Any) -> set[str]:
    """Each text in a JSON value that is the path of its field."""
    if isinstance(value, str):
        return {value} if "." in value and not value[0].isdigit() else set()
    if isinstance(value, dict):
        return set().union(*map(texts, value.values()))
    return set().union(*map(texts, value)) if isinstance(value, list) else set()


def grant_for(text: str) -> Capability | None:
    return next((capability for start, capability in GATED.items() if text.startswith(start)), None)
