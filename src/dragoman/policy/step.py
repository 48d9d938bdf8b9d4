"""A plugin's view of one step: a copy of the message, and of the extensions that it may read.

Nothing that a plugin reaches through public names, copies or pickles is shared with the session, or hidden from the
plugin. A plugin is trusted code in this process: this prevents mistakes, not malice.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.frozen import FrozenDict
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.canonical.message_view.view import MessageView, iter_views
from dragoman.policy.filtering import FilterCache, filter_message
from dragoman.policy.slots import Capability, expand_capabilities


class SharedViews:
    """The views of one step: plugins that see the same message with the same capabilities share them."""

    __slots__ = ("_cache", "_found")

    def __init__(self, cache: FilterCache) -> None:
        self._cache = cache
        self._found: tuple[tuple[Any, ...], tuple[MessageView, ...]] | None = None

    def get(
        self,
        hook: str,
        message: Message,
        extensions: Extensions | None,
        capabilities: frozenset[Capability],
        calls: Mapping[str, CalledTool],
    ) -> tuple[MessageView, ...]:
        found = self._found
        if found is None or not (found[0][0] is message and found[0][1] is extensions and found[0][2] == capabilities):
            visible = self._cache.get(extensions, capabilities)
            views = tuple(iter_views(message, hook, visible, calls=calls, capabilities=capabilities))
            found = self._found = ((message, extensions, capabilities), views)
        return found[1]


class Step:
    """A step that is about to run, or has just run, as one plugin sees it.

    ``hook`` names the step, such as cmf.tool_pre_invoke. ``partial``: the message is a piece of a streaming reply.
    A copy and a pickle hold what the plugin may read, and nothing else.
    """

    __slots__ = (
        "_all_extensions",
        "_cache",
        "_calls",
        "_calls_copy",
        "_capabilities",
        "_extensions",
        "_message",
        "_original",
        "_views",
        "hook",
        "partial",
    )

    def __init__(
        self,
        hook: str,
        message: Message,
        extensions: Extensions | None = None,
        capabilities: Iterable[Capability | str] = (),
        *,
        calls: Mapping[str, CalledTool] | None = None,
        partial: bool = False,
        cache: FilterCache | None = None,
        views: "SharedViews | None" = None,
    ) -> None:
        self.hook = hook
        self.partial = partial
        self._calls: Mapping[str, CalledTool] = calls or {}
        self._calls_copy: FrozenDict | None = None
        self._original = message
        self._all_extensions = extensions
        self._capabilities = expand_capabilities(capabilities)
        self._cache = cache or FilterCache()
        self._views = views or SharedViews(FilterCache())
        self._message: Message | None = None
        self._extensions: Extensions | None = None

    @property
    def message(self) -> Message:
        """A copy for this plugin, with the ids that it may read, and without the adapters' ``provider_raw``.

        Change it with `model_copy`.
        """
        if self._message is None:
            self._message = filter_message(self._original, self._capabilities).model_copy(deep=True)
        return self._message

    @property
    def calls(self) -> Mapping[str, CalledTool]:
        """The tools of the session's calls, by the ids of the calls; a read-only copy."""
        if self._calls_copy is None:
            self._calls_copy = FrozenDict(self._calls)
        return self._calls_copy

    @property
    def extensions(self) -> Extensions:
        """A copy of what the plugin's capabilities allow to read; empty if there is nothing."""
        if self._extensions is None:
            self._extensions = self._cache.get_for_plugin(self._all_extensions, self._capabilities)
        return self._extensions

    def views(self) -> tuple[MessageView, ...]:
        """Return one read-only view for each part of the message, with the extensions that the plugin may read."""
        hook = self.hook.removeprefix("cmf.")
        return self._views.get(hook, self._original, self._all_extensions, self._capabilities, self._calls)

    def __reduce__(self) -> Any:
        shown = (self.hook, self.message, self.extensions, tuple(sorted(self._capabilities)), self.calls, self.partial)
        return _restore_step, shown

    def __repr__(self) -> str:
        """Leave out the content, because it may be a secret."""
        return f"Step({self.hook}, {self._original.role}{', partial' if self.partial else ''})"


def _restore_step(
    hook: str,
    message: Message,
    extensions: Extensions,
    capabilities: tuple[str, ...],
    calls: Mapping[str, CalledTool],
    partial: bool,
) -> Step:
    return Step(hook, message, extensions, capabilities, calls=calls, partial=partial)
