"""Allows and denies tools, prompts, resources and media by URI, with globs.

Addresses of resources and media are compared by what they mean. Source: docs/reference/cmf.md#uris.
"""

from collections.abc import Iterable

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.log import one_line
from dragoman.canonical.message_view.uris import UriMeaning, UriPattern, uri_pattern
from dragoman.canonical.message_view.view import MessageView
from dragoman.policy.plugin import Hook, Plugin, Violation
from dragoman.policy.step import Step, iter_views_deep

_MAX_SHOWN = 120
_PRE_HOOKS: frozenset[str] = frozenset(
    {Hook.TOOL_PRE_INVOKE, Hook.PROMPT_PRE_FETCH, Hook.RESOURCE_PRE_FETCH, Hook.EVALUATE}
)
"""The hooks before a call runs. At other hooks a call is only part of the conversation, and may have been denied."""


class _UriPlugin(Plugin):
    """Checks requests before they run, and resources and media wherever they appear."""

    hooks: Iterable[Hook | str] = (
        Hook.TOOL_PRE_INVOKE, Hook.PROMPT_PRE_FETCH, Hook.RESOURCE_PRE_FETCH, Hook.LLM_INPUT, Hook.TOOL_POST_INVOKE,
        Hook.PROMPT_POST_FETCH, Hook.RESOURCE_POST_FETCH, Hook.EVALUATE,
    )  # fmt: skip

    def __init__(self, *patterns: str) -> None:
        """``*`` matches anything without a slash, ``**`` anything, as in ``tool://db-server/**``.

        Raises ConfigurationError if a pattern is not a string, is too long, or has no single meaning.
        """
        for pattern in patterns:
            if not isinstance(pattern, str):
                example = f"{type(self).__name__}('tool://a/*', 'file:///**')"
                raise ConfigurationError(f"a pattern must be a string, not a {type(pattern).__name__}: write {example}")
        try:
            self._patterns: tuple[UriPattern, ...] = tuple(map(uri_pattern, patterns))
        except ValueError as error:
            raise ConfigurationError(str(error)) from None

    def check(self, step: Step) -> Violation | None:
        is_request = step.hook in _PRE_HOOKS
        for view in iter_views_deep(step):
            is_relevant = view.has_address or (is_request and (view.is_tool or view.is_prompt) and view.is_pre)
            if is_relevant and not self._is_allowed(view):
                shown_name = one_line(view.uri or f"a {view.kind} without a name")[:_MAX_SHOWN]
                return Violation(f"{shown_name} is not allowed", code="uri_denied")
        return None

    def _is_allowed(self, view: MessageView) -> bool:
        if not view.has_address:
            return bool(view.uri) and self._allows_name(view.uri or "")
        meaning = view.uri_meaning
        return meaning is not None and self._allows_address(meaning)

    def _allows_name(self, uri: str) -> bool:
        raise NotImplementedError

    def _allows_address(self, meaning: UriMeaning) -> bool:
        raise NotImplementedError


class DenyUris(_UriPlugin):
    """Denies URIs that match one of the patterns, and those without a single meaning; everything else passes.

    A tool is ``tool://NAMESPACE/NAME``, and ``tool://_/NAME`` if its namespace is unknown. To deny a name in every
    namespace, write ``tool://**/NAME``. A pattern without a query denies its addresses with every query.
    """

    name = "deny_uris"

    def _allows_name(self, uri: str) -> bool:
        return not any(each.matches_name(uri) for each in self._patterns)

    def _allows_address(self, meaning: UriMeaning) -> bool:
        return not any(each.denies(meaning) for each in self._patterns)


class AllowUris(_UriPlugin):
    """Denies URIs that match none of the patterns. It needs patterns for tools, prompts, resources and media alike.

    Stars at the end of a host stand for its paths: ``a.example**`` is ``a.example/**``.
    """

    name = "allow_uris"

    def _allows_name(self, uri: str) -> bool:
        return any(each.matches_name(uri) for each in self._patterns)

    def _allows_address(self, meaning: UriMeaning) -> bool:
        return any(each.allows(meaning) for each in self._patterns)
