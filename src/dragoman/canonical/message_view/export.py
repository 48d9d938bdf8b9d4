"""The context of a view as plain JSON, for policy engines outside this process.

It never holds secret headers or the subject's claims. Source: docs/reference/cmf.md#view-as-json.
"""

from typing import Any

from dragoman.canonical.extensions.headers import drop_secret_headers
from dragoman.canonical.extensions.security import DataPolicy, ObjectSecurityProfile, SubjectExtension
from dragoman.canonical.message_view.context import ViewContext


def export_context(
    context: ViewContext, profile: ObjectSecurityProfile | None, policy: DataPolicy | None
) -> dict[str, Any]:
    """Return what a view knows of its extensions; keys without a value are left out."""
    subject = context.subject
    document = {
        "subject": _subject(subject) if subject else None,
        "environment": context.environment,
        "labels": sorted(context.labels),
        "headers": drop_secret_headers(context.headers),
        "object": _profile(profile) if profile else None,
        "data": _policy(policy) if policy else None,
        "agent": _agent(context),
    }
    return {key: value for key, value in document.items() if value}


def _subject(subject: SubjectExtension) -> dict[str, Any]:
    return {
        "id": subject.id,
        "type": subject.type.value,
        "roles": sorted(subject.roles),
        "permissions": sorted(subject.permissions),
        "teams": sorted(subject.teams),
    }


def _profile(profile: ObjectSecurityProfile) -> dict[str, Any]:
    return {
        "managed_by": profile.managed_by,
        "permissions": list(profile.permissions),
        "trust_domain": profile.trust_domain,
        "data_scope": list(profile.data_scope),
    }


def _policy(policy: DataPolicy) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "apply_labels": list(policy.apply_labels),
        "denied_actions": list(policy.denied_actions),
    }
    if policy.allowed_actions is not None:
        fields["allowed_actions"] = list(policy.allowed_actions)
    if policy.retention:
        fields["retention"] = {
            "max_age_seconds": policy.retention.max_age_seconds,
            "policy": policy.retention.policy,
            "delete_after": policy.retention.delete_after,
        }
    return fields


def _agent(context: ViewContext) -> dict[str, Any]:
    agent = {
        "input": context.agent_input,
        "session_id": context.session_id,
        "conversation_id": context.conversation_id,
        "turn": context.turn,
        "agent_id": context.agent_id,
        "parent_agent_id": context.parent_agent_id,
    }
    return {key: value for key, value in agent.items() if value or value == 0}
