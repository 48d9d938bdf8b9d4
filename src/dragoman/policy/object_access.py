"""Object profiles: the permissions for a tool, a resource or a prompt, checked before use.

Source: docs/reference/cmf.md#object-profiles.
"""

from collections.abc import Mapping

from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.security import ObjectSecurityProfile, SubjectExtension
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.canonical.message_view.uris import AmbiguousUriError
from dragoman.canonical.message_view.view import iter_views
from dragoman.policy.plugin import Hook, Violation

PRE_HOOKS = frozenset({Hook.TOOL_PRE_INVOKE, Hook.PROMPT_PRE_FETCH, Hook.RESOURCE_PRE_FETCH})
"""The hooks before something is used."""


def lacks_permissions(subject: SubjectExtension | None, profile: ObjectSecurityProfile) -> bool:
    """Return True if the subject lacks a required permission. No subject means no permissions."""
    granted = frozenset[str]() if subject is None else subject.permissions
    return not granted.issuperset(profile.permissions)


def check_access(
    hook: str, message: Message, extensions: Extensions | None, calls: Mapping[str, CalledTool] | None = None
) -> Violation | None:
    """Return the first violation of the object profiles by what this message requests, or None.

    Profiles with ``managed_by="tool"`` are skipped: the tool enforces them. The violation names no permission, because
    its reader may not be allowed to see it.
    """
    if hook not in PRE_HOOKS or extensions is None or extensions.security is None or not extensions.security.objects:
        return None
    for view in iter_views(message, hook.removeprefix("cmf."), extensions, calls=calls):
        try:
            profiles = view.objects if view.is_tool or view.is_prompt or view.has_address else ()
        except AmbiguousUriError as error:
            return Violation(str(error), code="uri_denied", plugin="object profile")
        own = [profile for profile in profiles if profile.managed_by != "tool"]
        if any(lacks_permissions(extensions.security.subject, profile) for profile in own):
            reason = "the caller lacks a permission that this requires"
            return Violation(reason, code="object_permissions", plugin="object profile")
    return None
