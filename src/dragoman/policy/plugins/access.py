"""Allows and denies tools, prompts, resources and media: by URI, with globs, and by object profiles.

Addresses of resources and media are compared by what they mean. Source: docs/reference/cmf.md#uris.
"""

from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.extensions.security import ObjectSecurityProfile, SubjectExtension
from dragoman.canonical.log import one_line
from dragoman.canonical.message_view.uris import uri_pattern
from dragoman.canonical.message_view.view import MessageView
from dragoman.policy.plugin import Hook, Plugin, Violation
from dragoman.policy.slots import Capability
from dragoman.policy.step import Step, iter_views_deep
from dragoman.policy.step_run import PRE_HOOKS, lacks_permissions

PatternT = TypeVar("PatternT")

_MAX_SHOWN = 120
_REQUEST_HOOKS: frozenset[str] = PRE_HOOKS | {Hook.EVALUATE}
"""The hooks where a call is still to run. At others it is only part of the conversation, and may have been denied."""


def compile_patterns(compile_one: Callable[[str], PatternT], patterns: Iterable[str]) -> tuple[PatternT, ...]:
    """Return the compiled patterns. Raises ConfigurationError for one that is too long, or has no single meaning."""
    try:
        return tuple(map(compile_one, patterns))
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


class _UriPlugin(Plugin):
    """Checks requests before they run, and resources and media wherever they appear."""

    hooks: Iterable[Hook | str] = (
        Hook.TOOL_PRE_INVOKE, Hook.PROMPT_PRE_FETCH, Hook.RESOURCE_PRE_FETCH, Hook.LLM_INPUT, Hook.TOOL_POST_INVOKE,
        Hook.PROMPT_POST_FETCH, Hook.RESOURCE_POST_FETCH, Hook.EVALUATE,
    )  # fmt: skip

    _allows: bool
    """Whether the patterns are those of what is allowed, or of what is denied."""

    def __init__(self, *patterns: str) -> None:
        """``*`` matches anything without a slash, ``**`` anything, as in ``tool://db-server/**``.

        Raises ConfigurationError if a pattern is not a string, is too long, or has no single meaning.
        """
        for pattern in patterns:
            if not isinstance(pattern, str):
                example = f"{type(self).__name__}('tool://a/*', 'file:///**')"
                raise ConfigurationError(f"a pattern must be a string, not a {type(pattern).__name__}: write {example}")
        self._patterns = compile_patterns(uri_pattern, patterns)

    def check(self, step: Step) -> Violation | None:
        is_request = step.hook in _REQUEST_HOOKS
        for view in iter_views_deep(step):
            is_relevant = view.has_address or (is_request and (view.is_tool or view.is_prompt) and view.is_pre)
            if is_relevant and not self._is_allowed(view):
                return Violation(f"{_describe(view)} is not allowed", code="uri_denied")
        return None

    def _is_allowed(self, view: MessageView) -> bool:
        if not view.has_address:
            # A tool or a prompt is its name, which has one meaning; without a name, it is not allowed.
            uri = view.uri or ""
            return uri != "" and self._allows is any(each.matches_name(uri) for each in self._patterns)
        meaning = view.uri_meaning
        if meaning is None:  # different programs would read different addresses
            return False
        if self._allows:
            return any(each.allows(meaning) for each in self._patterns)
        return not any(each.denies(meaning) for each in self._patterns)


class DenyUris(_UriPlugin):
    """Denies URIs that match one of the patterns, and those without a single meaning; everything else passes.

    A tool is ``tool://NAMESPACE/NAME``, and ``tool://_/NAME`` if its namespace is unknown. To deny a name in every
    namespace, write ``tool://**/NAME``. A pattern without a query denies its addresses with every query.
    """

    name = "deny_uris"

    _allows = False


class AllowUris(_UriPlugin):
    """Denies URIs that match none of the patterns. It needs patterns for tools, prompts, resources and media alike.

    Stars at the end of a host stand for its paths: ``a.example**`` is ``a.example/**``.
    """

    name = "allow_uris"

    _allows = True


_DOMAINS = ("internal", "external", "privileged")


class ObjectAccess(Plugin):
    """Denies use of tools, prompts and resources that the profiles in ``extensions.security.objects`` do not
    allow, in advance. Source: docs/reference/cmf.md#object-profiles.

    ``trust_domains`` are the allowed ones; an entity without a trust domain is in none of them.
    ``data_scope`` are the fields that entities may read or return; a profile that names another one is denied.
    ``unlisted`` says whether an entity without a profile is allowed. ``self_managed`` also checks the permissions of
    entities that check them themselves; every pipeline checks the others, with or without this plugin.
    """

    name = "object_access"
    hooks: Iterable[Hook | str] = (*sorted(PRE_HOOKS), Hook.EVALUATE)
    capabilities: Iterable[Capability | str] = (Capability.READ_OBJECTS, Capability.READ_PERMISSIONS)

    def __init__(
        self,
        *,
        trust_domains: Iterable[str] | None = None,
        data_scope: Iterable[str] | None = None,
        unlisted: Literal["allow", "deny"] = "allow",
        self_managed: bool = False,
    ) -> None:
        """Raises ConfigurationError for an unknown word, or a string instead of a list."""
        for words in (trust_domains, data_scope):
            if isinstance(words, str):
                raise ConfigurationError(f"{words!r:.80} is a string, but a list is needed")
        self._domains = None if trust_domains is None else frozenset(trust_domains)
        self._scope = None if data_scope is None else frozenset(data_scope)
        if unknown := (self._domains or frozenset()) - set(_DOMAINS):
            raise ConfigurationError(f"{min(unknown)!r:.80} is not a trust domain: use one of {', '.join(_DOMAINS)}")
        if unlisted not in ("allow", "deny"):
            raise ConfigurationError(f"{unlisted!r:.80}: use allow or deny")
        self._unlisted = unlisted
        self._self_managed = self_managed

    def check(self, step: Step) -> Violation | None:
        subject = step.extensions.security.subject if step.extensions.security else None
        for view in iter_views_deep(step):
            if not (view.is_pre and (view.is_tool or view.is_prompt or view.is_resource)):
                continue
            for profile in view.objects or (None,):
                found = self._check_profile(profile, subject)
                if found is not None:
                    code, reason = found
                    return Violation(f"{_describe(view)}: {reason}", code=code)
        return None

    def _check_profile(
        self, profile: ObjectSecurityProfile | None, subject: SubjectExtension | None
    ) -> tuple[str, str] | None:
        if profile is None:
            return ("object_unlisted", "it has no profile") if self._unlisted == "deny" else None
        if (self._self_managed or profile.managed_by != "tool") and lacks_permissions(subject, profile):
            return "object_permissions", "the caller lacks a permission that this requires"
        if self._domains is not None and profile.trust_domain not in self._domains:
            return "object_trust_domain", "its trust domain is not allowed"
        if self._scope is not None and not self._scope.issuperset(profile.data_scope):
            return "object_data_scope", "it uses fields that are not allowed"
        return None


def _describe(view: MessageView) -> str:
    return one_line(view.uri or f"a {view.kind} without a name")[:_MAX_SHOWN]
