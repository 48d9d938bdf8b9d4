"""A plugin's view of one step: a copy of the message, and of the extensions that it may read.

Nothing that a plugin reaches through public names, copies or pickles is shared with the session, or hidden from the
plugin. A plugin is trusted code in this process: this prevents mistakes, not malice.

Copies and views are made when a plugin first reads them: most plugins read little of a step.

Plugins that come with the library look at a step with `iter_views_deep`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.canonical.blocks import replace_fields
from dragoman.canonical.extensions.extensions import AgentExtension, Extensions
from dragoman.canonical.extensions.slots import BaseExtensions
from dragoman.canonical.frozen import FrozenDict
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.context import ViewSource
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.canonical.message_view.view import MessageView, build_views
from dragoman.canonical.tools import ToolDefinition
from dragoman.policy.filtering import FilterCache, filter_message
from dragoman.policy.slots import Capability, expand_capabilities
from dragoman.policy.texts import texts_of


@dataclass(slots=True, eq=False)
class LazyExtensions:
    """The extensions of a session's step, built when they are first read: those of the session, its agent, and what
    ``slots`` makes of the facts."""

    session: Extensions
    agent: AgentExtension
    slots: Callable[..., Mapping[str, Any]]
    facts: tuple[Any, ...]
    _built: Extensions | None = None

    def read(self) -> Extensions:
        if self._built is None:
            self._built = replace_fields(self.session, {"agent": self.agent, **self.slots(*self.facts)})
        return self._built


@dataclass(slots=True, eq=False)
class StepSource:
    """The originals of a step. No plugin receives it; the plugins of the step share its views."""

    hook: str
    message: Message
    given_extensions: Extensions | LazyExtensions | None
    calls: Mapping[str, CalledTool]
    partial: bool
    cache: FilterCache
    """What the views show."""
    last_views: tuple[frozenset[Capability] | None, tuple[MessageView, ...]] = (None, ())
    """The views that were built last, and for which capabilities."""

    @property
    def extensions(self) -> Extensions | None:
        return _read(self.given_extensions)

    def replace(self, message: Message, extensions: Extensions | None) -> "StepSource":
        """Return the source with another message and, unless they are None, other extensions."""
        known = self.given_extensions if extensions is None else extensions
        return StepSource(self.hook, message, known, self.calls, self.partial, self.cache)

    def views(self, capabilities: frozenset[Capability]) -> tuple[MessageView, ...]:
        """Return the views for these capabilities: plugins that have the same ones share them."""
        known, views = self.last_views
        if known != capabilities:
            views = build_views(self.message, _PluginViewSource(self, capabilities), self.calls)
            self.last_views = (capabilities, views)
        return views


class _PluginViewSource(ViewSource):
    """Filters the extensions when a view first reads them."""

    __slots__ = ("_unread",)

    def __init__(self, step: StepSource, capabilities: frozenset[Capability]) -> None:
        self.hook = step.hook.removeprefix("cmf.")
        self.capabilities = capabilities
        # Not the step itself, which keeps its views: it would be in a circle.
        self._unread: tuple[FilterCache, Any, frozenset[Capability]] | None
        self._unread = step.cache, step.given_extensions, capabilities

    @property
    def extensions(self) -> BaseExtensions | None:
        if (unread := self._unread) is not None:  # two threads that come here together get the same
            cache, given, capabilities = unread
            self._extensions = cache.get(_read(given), capabilities)
            self._unread = None
        return self._extensions


def _read(extensions: Extensions | LazyExtensions | None) -> Extensions | None:
    return extensions.read() if isinstance(extensions, LazyExtensions) else extensions


class Step:
    """A step that is about to run, or has just run, as one plugin sees it.

    ``hook`` names the step, such as cmf.tool_pre_invoke. ``partial``: the message is a piece of a streaming reply.
    A copy and a pickle hold what the plugin may read, and nothing else.
    """

    __slots__ = ("_cache", "_calls", "_capabilities", "_extensions", "_message", "_source")

    def __init__(
        self,
        hook: str,
        message: Message,
        extensions: Extensions | None = None,
        capabilities: Iterable[Capability | str] = (),
        *,
        calls: Mapping[str, CalledTool] | None = None,
        partial: bool = False,
    ) -> None:
        self._source = StepSource(hook, message, extensions, calls or {}, partial, FilterCache())
        self._capabilities = expand_capabilities(capabilities)
        self._cache = FilterCache()
        self._message: Message | None = None
        self._extensions: Extensions | None = None
        self._calls: FrozenDict | None = None

    @property
    def hook(self) -> str:
        return self._source.hook

    @property
    def partial(self) -> bool:
        return self._source.partial

    @property
    def message(self) -> Message:
        """A copy for this plugin, with the ids that it may read, and without the adapters' ``provider_raw``.

        Change it with `model_copy`.
        """
        if self._message is None:
            self._message = filter_message(self._source.message, self._capabilities).model_copy(deep=True)
        return self._message

    @property
    def calls(self) -> Mapping[str, CalledTool]:
        """The tools of the session's calls, by the ids of the calls; a read-only copy."""
        if self._calls is None:
            self._calls = FrozenDict(self._source.calls)
        return self._calls

    @property
    def extensions(self) -> Extensions:
        """A copy of what the plugin's capabilities allow to read; empty if there is nothing."""
        if self._extensions is None:
            self._extensions = self._cache.get_for_plugin(self._source.extensions, self._capabilities)
        return self._extensions

    def views(self) -> tuple[MessageView, ...]:
        """Return one read-only view for each part of the message, with the extensions that the plugin may read."""
        known, views = self._source.last_views
        return views if known is self._capabilities else self._source.views(self._capabilities)

    def texts(self) -> tuple[str, ...]:
        """Return every text of the message that a model may read: what `views` show as content, and also names, titles,
        notes, addresses, keys of arguments, error messages, and text documents in base64."""
        return tuple(texts_of(self._source.message.content))

    def __reduce__(self) -> Any:
        restore = partial(Step, calls=self.calls, partial=self.partial)
        return restore, (self.hook, self.message, self.extensions, tuple(sorted(self._capabilities)))

    def __repr__(self) -> str:
        """Leave out the content, because it may be a secret."""
        return f"Step({self.hook}, {self._source.message.role}{', partial' if self.partial else ''})"


def new_step(source: StepSource, capabilities: frozenset[Capability], cache: FilterCache) -> Step:
    """Return the step for one plugin; ``cache`` holds the copies of this plugin."""
    step = _NEW(Step)
    step._source = source
    step._capabilities = capabilities
    step._cache = cache
    step._message = step._extensions = step._calls = None
    return step


_NEW = Step.__new__


def iter_views_deep(step: Step) -> Iterator[MessageView]:
    """Yield a view of each part, followed by those of the parts inside it, at any depth. Raises UnknownPartError."""
    return with_inner(step.views())


def with_inner(views: Iterable[MessageView]) -> Iterator[MessageView]:
    """Yield each view, followed by those of the parts inside it, at any depth."""
    for view in views:
        yield view
        yield from with_inner(view.inner_views())


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRequest:
    """A request as it would leave, for the decision about it (`dragoman.attempt.decision`). ``labels`` are those of all
    its content.
    """

    adapter: Adapter
    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...]
    options: AdapterOptions
    labels: frozenset[str]
