"""Plugins: what a policy is made of, and how one is written.

A function becomes a plugin by `hook`; a class with settings of its own subclasses `Plugin` and overrides ``check``::

    @hook("cmf.tool_pre_invoke")
    def no_shell(step: Step) -> Violation | None:
        if any(view.name == "run_shell" for view in step.views()):
            return Violation("the shell is closed", code="no_shell")
        return None
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.message import Message
from dragoman.policy.slots import Capability, expand_capabilities
from dragoman.policy.step import Step

WordT = TypeVar("WordT", bound=StrEnum)


class Hook(StrEnum):
    """Where a plugin is asked (CMF A6); ``evaluate`` is for messages that go no other way.

    The specification has two words for each of the others: as messages bear it (``llm_input``), and as plugins are
    asked (``cmf.llm_input``). Either is taken; the second is the value.
    """

    LLM_INPUT = "cmf.llm_input"
    LLM_OUTPUT = "cmf.llm_output"
    TOOL_PRE_INVOKE = "cmf.tool_pre_invoke"
    TOOL_POST_INVOKE = "cmf.tool_post_invoke"
    PROMPT_PRE_FETCH = "cmf.prompt_pre_fetch"
    PROMPT_POST_FETCH = "cmf.prompt_post_fetch"
    RESOURCE_PRE_FETCH = "cmf.resource_pre_fetch"
    RESOURCE_POST_FETCH = "cmf.resource_post_fetch"
    EVALUATE = "evaluate"

    @classmethod
    def _missing_(cls, value: object) -> "Hook | None":
        return next((each for each in cls if each.value == f"cmf.{value}"), None)

    @classmethod
    def parse(cls, word: "Hook | str") -> "Hook":
        """Raises ConfigurationError, with the nearest word, where there is no such hook."""
        return _parse_word(cls, word, "hook")


class Mode(StrEnum):
    """How a plugin is run; plugins run in the order of these, then of their priority.

    Sequential ones may refuse and change, one after the other. Transforming ones change and never refuse, and see each
    message once, when it comes in. Auditing ones look, and are waited for; a violation of
    theirs is logged, and stops nothing. Concurrent ones run side by side and may
    refuse. Fire-and-forget ones are started and not waited for. All may add labels that they hold append_labels for,
    but for the last, who are heard by nobody.
    """

    SEQUENTIAL = "sequential"
    TRANSFORM = "transform"
    AUDIT = "audit"
    CONCURRENT = "concurrent"
    FIRE_AND_FORGET = "fire_and_forget"

    @property
    def can_deny(self) -> bool:
        return self in (Mode.SEQUENTIAL, Mode.CONCURRENT)

    @property
    def can_change(self) -> bool:
        return self in (Mode.SEQUENTIAL, Mode.TRANSFORM)


class OnError(StrEnum):
    """What follows where a plugin fails, takes too long or breaks a rule: the step is denied, or goes on without it."""

    DENY = "deny"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Violation:
    """A refusal. ``reason`` is told to people, ``code`` to programs; neither should quote what was said.

    ``plugin`` is filled in by the pipeline.
    """

    reason: str
    code: str = "denied"
    description: str = ""
    plugin: str = ""


@dataclass(frozen=True, slots=True)
class PluginResult:
    """What a plugin wants: a changed message, changed extensions, or an end to it. None leaves a thing as it is."""

    message: Message | None = None
    extensions: Extensions | None = None
    violation: Violation | None = None


CheckResult: TypeAlias = PluginResult | Violation | Message | Extensions | None
"""What ``check`` may return; a message, extensions or a violation alone stand for a result that holds just that."""


class Plugin:
    """Override ``check``, as a function or a coroutine. The rest is declared on the class, or set before first use.

    ``hooks`` are where it is asked. ``capabilities`` are what it may see and change of the extensions. Of plugins of
    the same mode the one with the lower ``priority`` runs first. ``timeout`` is in seconds; a plain function that has
    one runs in a thread of its own, any other one where the session does. A coroutine needs an AsyncSession.

    ``window`` is for streamed replies: how many characters of text, at most, the plugin has to see together to judge
    or change them. None is all of them: then nothing of a reply is shown before it is complete.
    """

    name: str = ""
    hooks: Iterable[Hook | str] = ()
    capabilities: Iterable[Capability | str] = ()
    mode: Mode | str = Mode.SEQUENTIAL
    priority: int = 100
    timeout: float | None = None
    on_error: OnError | str = OnError.DENY
    window: int | None = None

    def check(self, step: Step) -> CheckResult | Awaitable[CheckResult]:
        """Looks at one step, and says what is to become of it; None lets it pass."""
        raise NotImplementedError(f"{type(self).__name__} has no check")

    def applies(self, step: Step) -> bool:
        """A condition: whether the plugin has to do with this step at all. A failure here is as one of ``check``."""
        return True


class _FunctionPlugin(Plugin):
    """A function as a plugin; calling it calls the function."""

    def __init__(self, check: Callable[[Step], Any], when: Callable[[Step], bool] | None) -> None:
        self._check = check
        self._when = when

    def check(self, step: Step) -> Any:
        return self._check(step)

    def applies(self, step: Step) -> bool:
        return self._when is None or self._when(step)

    __call__ = check


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
    """Makes a function, or a coroutine function, the plugin of these hooks; ``when`` is its condition.

    The rest is as on `Plugin`. Raises ConfigurationError on a word that is none of its list, and where it is written
    without words, or what it makes a plugin of takes no step.
    """
    if any(map(callable, hooks)):
        raise ConfigurationError("hook says where a plugin is asked, as in @hook('cmf.llm_input')")

    def decorate(function: Callable[[Step], Any]) -> Plugin:
        plugin = _FunctionPlugin(function, when)
        plugin.name = name or str(getattr(function, "__name__", type(function).__name__))
        plugin.hooks, plugin.capabilities, plugin.mode, plugin.priority = hooks, tuple(capabilities), mode, priority
        plugin.timeout, plugin.on_error, plugin.window = timeout, on_error, window
        PluginDeclaration.of(plugin)
        return plugin

    return decorate


@dataclass(frozen=True, slots=True)
class PluginDeclaration:
    """A plugin as its pipeline knows it: what it declared, checked and fixed, so that it cannot grant itself more."""

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

    @classmethod
    def of(cls, plugin: Plugin) -> "PluginDeclaration":
        """Raises ConfigurationError on a declaration that means nothing."""
        if not isinstance(plugin, Plugin):
            raise ConfigurationError(
                f"a {type(plugin).__name__} is no plugin: subclass dragoman.policy.Plugin, or decorate it with hook"
            )
        name = plugin.name or type(plugin).__name__
        check = plugin._check if isinstance(plugin, _FunctionPlugin) else plugin.check
        hooks = frozenset(_parse_word(Hook, each, f"plugin {name!r}: hook") for each in _as_tuple(plugin.hooks))
        if not hooks:
            raise ConfigurationError(f"plugin {name!r} names no hook: it would never be asked")
        if plugin.timeout is not None and not plugin.timeout > 0:
            raise ConfigurationError(f"plugin {name!r}: the timeout is in seconds, and more than 0")
        if plugin.window is not None and plugin.window < 1:
            raise ConfigurationError(f"plugin {name!r}: the window is in characters, and at least 1")
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
        )
        if fault := _find_fault(check):
            raise ConfigurationError(f"plugin {name!r}: {fault}")
        return declared


def _find_fault(check: Callable[..., Any]) -> str | None:
    """Why a check could never judge a step, if so."""
    if getattr(check, "__func__", None) is Plugin.check:
        return "it has no check"
    if inspect.isgeneratorfunction(check) or inspect.isasyncgenfunction(check):
        return "its check yields: it has to return what is to become of the step"
    try:
        inspect.signature(check).bind(None)
    except TypeError:
        return "its check takes one argument, the step"
    except ValueError:  # written in C, and silent about what it takes
        pass
    return None


def _as_tuple(words: Iterable[str] | str) -> tuple[str, ...]:
    """A single word is one word, not its letters."""
    return (words,) if isinstance(words, str) else tuple(words)


def _parse_word(kind: type[WordT], word: str, where: str) -> WordT:
    try:
        return kind(word)
    except ValueError:
        near = get_close_matches(str(word), list(kind), n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(kind)}"
        raise ConfigurationError(f"{where} {word!r:.80}: {hint}") from None
