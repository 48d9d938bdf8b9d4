"""Plugins, the parts of a policy, and how to write one.

A function becomes a plugin by `hook`; a class with settings of its own subclasses `Plugin` and overrides ``check``::

    @hook("cmf.tool_pre_invoke")
    def no_shell(step: Step) -> Violation | None:
        if any(view.name == "run_shell" for view in step.views()):
            return Violation("the shell is closed", code="no_shell")
        return None
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.message import Message
from dragoman.policy.filtering import FilterCache
from dragoman.policy.slots import Capability, expand_capabilities
from dragoman.policy.step import Step

WordT = TypeVar("WordT", bound=StrEnum)


class Hook(StrEnum):
    """The points at which plugins run; ``evaluate`` is for messages that pass no other one.

    ``request`` is where a request leaves, after all plugins of ``llm_input``: its message has no content, and its
    extensions are those of the whole conversation. A plugin may deny there, and change nothing but labels.

    Every other hook has two names: the one in messages (``llm_input``) and the one for plugins (``cmf.llm_input``).
    Both are accepted; the second is the value. Source: docs/reference/policy.md#hooks.
    """

    LLM_INPUT = "cmf.llm_input"
    LLM_OUTPUT = "cmf.llm_output"
    TOOL_PRE_INVOKE = "cmf.tool_pre_invoke"
    TOOL_POST_INVOKE = "cmf.tool_post_invoke"
    PROMPT_PRE_FETCH = "cmf.prompt_pre_fetch"
    PROMPT_POST_FETCH = "cmf.prompt_post_fetch"
    RESOURCE_PRE_FETCH = "cmf.resource_pre_fetch"
    RESOURCE_POST_FETCH = "cmf.resource_post_fetch"
    REQUEST = "request"
    EVALUATE = "evaluate"

    @classmethod
    def _missing_(cls, value: object) -> "Hook | None":
        return next((each for each in cls if each.value == f"cmf.{value}"), None)

    @classmethod
    def parse(cls, word: "Hook | str") -> "Hook":
        """Parse a hook. Raises ConfigurationError, with the closest name, if there is no such hook."""
        return _parse_word(cls, word, "hook")


class Mode(StrEnum):
    """How a plugin runs. Plugins run in the order of these modes, then by priority.

    Sequential plugins may deny and change, one after the other. Transforming ones change and never deny, and get each
    message once, when it arrives. Auditing ones only read, and are awaited; their violations are logged and stop
    nothing. Concurrent ones run at the same time and may deny. Fire-and-forget ones are started and not awaited. All
    modes may add labels if the plugin has append_labels, except fire-and-forget, whose result is ignored. Source:
    docs/reference/policy.md#modes.
    """

    SEQUENTIAL = "sequential"
    TRANSFORM = "transform"
    AUDIT = "audit"
    CONCURRENT = "concurrent"
    FIRE_AND_FORGET = "fire_and_forget"

    @property
    def can_deny(self) -> bool:
        """Whether a violation of the plugin ends the step."""
        return self in (Mode.SEQUENTIAL, Mode.CONCURRENT)

    @property
    def can_change(self) -> bool:
        """Whether the plugin may return other content."""
        return self in (Mode.SEQUENTIAL, Mode.TRANSFORM)


class OnError(StrEnum):
    """What happens if a plugin fails, times out or breaks a rule: the step is denied, or goes on without it."""

    DENY = "deny"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Violation:
    """A denial. ``reason`` is for people, ``code`` for programs; neither should quote the content.

    The pipeline sets ``plugin``.
    """

    reason: str
    code: str = "denied"
    description: str = ""
    """More for people than ``reason`` says; empty without."""
    plugin: str = ""


@dataclass(frozen=True, slots=True)
class PluginResult:
    """A plugin's result: a changed message, changed extensions, or a denial. None leaves the value unchanged."""

    message: Message | None = None
    """The message in place of the one that was shown."""
    extensions: Extensions | None = None
    """The extensions in place of those that were shown. The tiers decide whether they may change."""
    violation: Violation | None = None
    """The denial. The step ends with PolicyDeniedError."""


CheckResult: TypeAlias = PluginResult | Violation | Message | Extensions | None
"""The return type of ``check``; a message, extensions or a violation alone stand for a result that holds only that."""


class Plugin:
    """The base class of plugins. Subclasses override ``check``, as a function or a coroutine function. Declare the rest
    on the class, or set it before first use.

    ``hooks`` are the points at which it runs. ``capabilities`` say what it may read and change of the extensions.
    Plugins of the same mode run by ``priority``, lowest first. ``timeout`` is in seconds; a plain function with a
    timeout runs in a thread of its own, any other one in the thread of the session. A coroutine needs an AsyncSession.

    ``window`` is for streamed replies: the maximum number of characters that the plugin must see together to judge
    or change them. None means all: then nothing of a reply is shown before it is complete.
    """

    name: str = ""
    """The name in errors and events, unique in a pipeline; if it is empty, that of the class."""
    hooks: Iterable[Hook | str] = ()
    capabilities: Iterable[Capability | str] = ()
    mode: Mode | str = Mode.SEQUENTIAL
    """When the plugin runs, and whether it may change or deny."""
    priority: int = 100
    timeout: float | None = None
    on_error: OnError | str = OnError.DENY
    """What an exception or a timeout of the plugin means: the step is denied, or goes on without it."""
    window: int | None = None

    def check(self, step: Step) -> CheckResult | Awaitable[CheckResult]:
        """Judge one step and return the result; None lets it pass."""
        raise NotImplementedError(f"{type(self).__name__} has no check")

    def applies(self, step: Step) -> bool:
        """Return True if the plugin applies to this step. An exception here counts as one in ``check``."""
        return True


class _FunctionPlugin(Plugin):
    """A function as a plugin; calling it calls the function."""

    def __init__(self, check: Callable[[Step], Any], when: Callable[[Step], bool] | None) -> None:
        self.check = check  # type: ignore[assignment,method-assign]
        if when is not None:
            self.applies = when  # type: ignore[assignment,method-assign]

    def __call__(self, step: Step) -> Any:
        return self.check(step)


def hook(
    *hooks: Hook | str,
    name: str | None = None,
    capabilities: Iterable[Capability | str] = (),
    mode: Mode | str = Mode.SEQUENTIAL,
    priority: int = 100,
    timeout: float | None = None,
    on_error: OnError | str = OnError.DENY,
    window: int | None = None,
    when: Callable[[Step], bool] | None = None,
) -> Callable[[Callable[[Step], Any]], Plugin]:
    """Decorate a function, or a coroutine function, as a plugin of these hooks; ``when`` is its condition.

    The other arguments are those of `Plugin`. Raises ConfigurationError for a word outside its list, without any
    hook, and if the function does not accept a step.
    """
    if any(map(callable, hooks)):
        raise ConfigurationError("hook needs the name of a hook, as in @hook('cmf.llm_input')")

    def decorate(function: Callable[[Step], Any]) -> Plugin:
        plugin = _FunctionPlugin(function, when)
        plugin.name = name or str(getattr(function, "__name__", type(function).__name__))
        plugin.hooks, plugin.capabilities, plugin.mode, plugin.priority = hooks, tuple(capabilities), mode, priority
        plugin.timeout, plugin.on_error, plugin.window = timeout, on_error, window
        PluginDeclaration.from_plugin(plugin)
        return plugin

    return decorate


@dataclass(frozen=True, slots=True)
class PluginDeclaration:
    """The declaration of a plugin, validated and fixed, so that the plugin cannot grant itself more."""

    plugin: Plugin
    name: str
    hooks: frozenset[Hook]
    capabilities: frozenset[Capability]
    mode: Mode
    priority: int
    timeout: float | None
    on_error: OnError
    window: int | None
    is_async: bool
    judge: Callable[[Step], Any]
    """Runs the condition and the check of the plugin."""
    copies: FilterCache = field(default_factory=FilterCache, compare=False)
    """What this plugin is shown, so that a change by force reaches no other plugin."""

    @property
    def is_inline(self) -> bool:
        """Whether a pipeline calls the plugin in its own thread and waits for nothing."""
        return self.timeout is None and not self.is_async

    @classmethod
    def from_plugin(cls, plugin: Plugin) -> "PluginDeclaration":
        """Build the declaration of a plugin. Raises ConfigurationError if it is invalid."""
        if not isinstance(plugin, Plugin):
            raise ConfigurationError(
                f"a {type(plugin).__name__} is not a plugin: subclass dragoman.policy.Plugin, or decorate it with hook"
            )
        name, check = plugin.name or type(plugin).__name__, plugin.check
        hooks = frozenset(_parse_word(Hook, each, f"plugin {name!r}: hook") for each in _as_tuple(plugin.hooks))
        if not hooks:
            raise ConfigurationError(f"plugin {name!r} names no hook: it would never run")
        if plugin.timeout is not None and not plugin.timeout > 0:
            raise ConfigurationError(f"plugin {name!r}: the timeout must be more than 0 seconds")
        if plugin.window is not None and plugin.window < 1:
            raise ConfigurationError(f"plugin {name!r}: the window must be at least 1 character")
        # A plugin without a condition is not asked for it.
        has_condition = getattr(plugin.applies, "__func__", None) is not Plugin.applies
        declared = cls(
            plugin=plugin,
            name=name,
            hooks=hooks,
            capabilities=expand_capabilities(_as_tuple(plugin.capabilities)),
            mode=_parse_word(Mode, plugin.mode, f"plugin {name!r}: mode"),
            priority=plugin.priority,
            timeout=plugin.timeout,
            on_error=_parse_word(OnError, plugin.on_error, f"plugin {name!r}: on_error"),
            window=plugin.window,
            is_async=inspect.iscoroutinefunction(check),
            judge=(lambda step: plugin.check(step) if plugin.applies(step) else None) if has_condition else check,
        )
        if fault := _find_fault(check):
            raise ConfigurationError(f"plugin {name!r}: {fault}")
        return declared


def _find_fault(check: Callable[..., Any]) -> str | None:
    """Return why a check can never judge a step, or None."""
    if getattr(check, "__func__", None) is Plugin.check:
        return "it has no check"
    if inspect.isgeneratorfunction(check) or inspect.isasyncgenfunction(check):
        return "its check is a generator: it must return its result"
    try:
        inspect.signature(check).bind(None)
    except TypeError:
        return "its check must take one argument, the step"
    except ValueError:  # written in C, without a signature
        pass
    return None


def _as_tuple(words: Iterable[str] | str) -> tuple[str, ...]:
    """Return a tuple of words; a single string is one word, not a tuple of letters."""
    return (words,) if isinstance(words, str) else tuple(words)


def _parse_word(kind: type[WordT], word: str, where: str) -> WordT:
    try:
        return kind(word)
    except ValueError:
        near = get_close_matches(str(word), list(kind), n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(kind)}"
        raise ConfigurationError(f"{where} {word!r:.80}: {hint}") from None
