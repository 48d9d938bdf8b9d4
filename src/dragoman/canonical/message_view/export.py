"""A view as plain JSON, for policy engines outside this process (CMF A5.9).

Headers that carry secrets and the subject's claims are never in it.
"""

from typing import TYPE_CHECKING, Any

from dragoman.canonical.extensions.headers import drop_secret_headers
from dragoman.canonical.extensions.security import DataPolicy, ObjectSecurityProfile, SubjectExtension
from dragoman.canonical.frozen import thaw
from dragoman.canonical.message_view.kinds import CALLS

if TYPE_CHECKING:
    from dragoman.canonical.message_view.view import MessageView


def export_view(
    view: "MessageView", *, include_content: bool, include_context: bool, include_arguments: bool
) -> dict[str, Any]:
    """Keys in the specification's order, each only where there is something to say."""
    document: dict[str, Any] = {
        "kind": view.kind.value,
        "role": view.role.value,
        "is_pre": view.is_pre,
        "is_post": view.is_post,
        "action": view.action.value,
    }
    if view.hook is not None:
        document["hook"] = view.hook
    if view.uri:
        document["uri"] = view.uri
    if view.name:
        document["name"] = view.name
    # The content of a call is its arguments: where these are left out, it goes too.
    if include_content and (include_arguments or view.kind not in CALLS):
        document |= _content(view)
    if view.mime_type:
        document["mime_type"] = view.mime_type
    if include_arguments and view.args is not None:
        document["arguments"] = thaw(view.args)
    if view.properties:
        document["properties"] = thaw(view.properties)
    context = _context(view) if include_context else {}
    if context:
        document["extensions"] = context
    return document


def _content(view: "MessageView") -> dict[str, Any]:
    """The size is that of the text, even where a resource declares another one."""
    if view.content is not None:
        return {"content": view.content, "size_bytes": len(view.content.encode())}
    return {} if view.size_bytes is None else {"size_bytes": view.size_bytes}


def _context(view: "MessageView") -> dict[str, Any]:
    subject, profile, policy = view.subject, view.object, view.data_policy
    context = {
        "subject": _subject(subject) if subject else None,
        "environment": view.environment,
        "labels": sorted(view.labels),
        "headers": drop_secret_headers(view.headers),
        "object": _profile(profile) if profile else None,
        "data": _policy(policy) if policy else None,
        "agent": _agent(view),
    }
    return {key: value for key, value in context.items() if value}


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


def _agent(view: "MessageView") -> dict[str, Any]:
    agent = {
        "input": view.agent_input,
        "session_id": view.session_id,
        "conversation_id": view.conversation_id,
        "turn": view.turn,
        "agent_id": view.agent_id,
        "parent_agent_id": view.parent_agent_id,
    }
    return {key: value for key, value in agent.items() if value or value == 0}
