"""Allows and denies tools, prompts and resources by URI, with globs. Source: docs/reference/cmf.md#globs."""

from collections.abc import Iterable

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.guard import one_line
from dragoman.canonical.message_view.view import MessageView
from dragoman.policy.plugin import Hook, Plugin, Violation
from dragoman.policy.plugins.inspect import compile_globs, iter_views_deep
from dragoman.policy.step import Step

_MAX_SHOWN = 120
_PRE_HOOKS: frozenset[str] = frozenset(
    {Hook.TOOL_PRE_INVOKE, Hook.PROMPT_PRE_FETCH, Hook.RESOURCE_PRE_FETCH, Hook.EVALUATE}
)
"""The hooks before a call runs. At other hooks a call is only part of the conversation, and may have been denied."""


class _UriPlugin(Plugin):
    """Checks requests before they run, and resources wherever they appear."""

    hooks: Iterable[Hook | str] = (
        Hook.TOOL_PRE_INVOKE, Hook.PROMPT_PRE_FETCH, Hook.RESOURCE_PRE_FETCH, Hook.LLM_INPUT, Hook.TOOL_POST_INVOKE,
        Hook.PROMPT_POST_FETCH, Hook.RESOURCE_POST_FETCH, Hook.EVALUATE,
    )  # fmt: skip

    def __init__(self, *patterns: str) -> None:
        """``*`` matches anything without a slash, ``**`` anything, as in ``tool://db-server/**``.

        Raises ConfigurationError if a pattern is not a string, or too long.
        """
        for pattern in patterns:
            if not isinstance(pattern, str):
                example = f"{type(self).__name__}('tool://a/*', 'file:///**')"
                raise ConfigurationError(f"a pattern must be a string, not a {type(pattern).__name__}: write {example}")
        self._globs = compile_globs(patterns)

    def check(self, step: Step) -> Violation | None:
        is_request = step.hook in _PRE_HOOKS
        for view in iter_views_deep(step):
            is_relevant = view.is_resource or (is_request and (view.is_tool or view.is_prompt) and view.is_pre)
            if is_relevant and not self._is_allowed(view):
                shown_name = one_line(view.uri or f"a {view.kind} without a name")[:_MAX_SHOWN]
                return Violation(f"{shown_name} is not allowed", code="uri_denied")
        return None

    def _is_allowed(self, view: MessageView) -> bool:
        raise NotImplementedError

    def _matches(self, view: MessageView) -> bool:
        return bool(view.uri) and any(each.matches(view.uri or "") for each in self._globs)


class DenyUris(_UriPlugin):
    """Denies URIs that match one of the patterns, and empty URIs; everything else passes.

    A tool is ``tool://NAMESPACE/NAME``, and ``tool://_/NAME`` if its namespace is unknown. To deny a name in every
    namespace, write ``tool://**/NAME``.
    """

    name = "deny_uris"

    def _is_allowed(self, view: MessageView) -> bool:
        return bool(view.uri) and not self._matches(view)


class AllowUris(_UriPlugin):
    """Denies URIs that match none of the patterns. It needs patterns for tools, prompts and resources alike."""

    name = "allow_uris"

    def _is_allowed(self, view: MessageView) -> bool:
        return self._matches(view)
