"""A plugin's view of one step: a copy of the message, and of the extensions that it may read."""

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.canonical.message_view.view import MessageView, iter_views
from dragoman.policy.filtering import FilterCache, filter_extensions


class Step:
    """A step that is about to run, or has just run, as one plugin sees it.

    ``hook`` names the step, such as cmf.tool_pre_invoke. ``partial``: the message is a piece of a streaming reply.
    ``calls`` maps call ids to tools.
    """

    __slots__ = (
        "_all_extensions",
        "_cache",
        "_capabilities",
        "_extensions",
        "_message",
        "_original",
        "calls",
        "hook",
        "partial",
    )

    def __init__(
        self,
        hook: str,
        message: Message,
        extensions: Extensions | None = None,
        capabilities: frozenset[Any] = frozenset(),
        *,
        calls: Mapping[str, CalledTool] | None = None,
        partial: bool = False,
        cache: FilterCache | None = None,
    ) -> None:
        self.hook = hook
        self.partial = partial
        self.calls: Mapping[str, CalledTool] = calls or {}
        self._original = message
        self._all_extensions = extensions
        self._capabilities = capabilities
        self._cache = cache or FilterCache()
        self._message: Message | None = None
        self._extensions: Extensions | None = None

    @property
    def message(self) -> Message:
        """A copy for this plugin, without the adapters' ``provider_raw``. Change it with `model_copy`."""
        if self._message is None:
            metadata = self._original.metadata
            without_raw = (
                metadata if metadata.provider_raw is None else metadata.model_copy(update={"provider_raw": None})
            )
            copied = self._original.model_copy(deep=True)
            self._message = copied if without_raw is metadata else copied.model_copy(update={"metadata": without_raw})
        return self._message

    @property
    def extensions(self) -> Extensions:
        """A copy of what the plugin's capabilities allow to read; empty if there is nothing."""
        if self._extensions is None:
            self._extensions = filter_extensions(self._all_extensions, self._capabilities) or Extensions()
        return self._extensions

    def views(self) -> tuple[MessageView, ...]:
        """Return one read-only view for each part of the message, with the extensions that the plugin may read."""
        visible = self._cache.get(self._all_extensions, self._capabilities)
        return tuple(iter_views(self._original, self.hook.removeprefix("cmf."), visible, calls=self.calls))

    def __repr__(self) -> str:
        """Leave out the content, because it may be a secret."""
        return f"Step({self.hook}, {self._original.role}{', partial' if self.partial else ''})"
