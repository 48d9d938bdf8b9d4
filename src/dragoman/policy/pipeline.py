"""The pipeline: plugins in their order, each with what it may see; what they return is checked, merged, or refused.

What is sound is decided here, once, for both drivers: `steps` says whom to ask and is told the answers (see `running`).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.extensions import Extensions
from dragoman.canonical.message import Message
from dragoman.canonical.view_parts import CalledTool
from dragoman.policy.changing import changed, without_void
from dragoman.policy.data import stamped
from dragoman.policy.errors import PolicyDeniedError, TierViolation
from dragoman.policy.filtering import Shared
from dragoman.policy.labels import labels_of, with_labels
from dragoman.policy.merging import merge
from dragoman.policy.objects import no_access
from dragoman.policy.parts import only_known, unknown_kind
from dragoman.policy.plugin import Declared, Hook, Mode, OnError, Plugin, PluginResult, Violation
from dragoman.policy.running import Call, SideBySide, Steps, Unheard, run, run_async
from dragoman.policy.slots import Capability, Tier, held
from dragoman.policy.step import Step

logger = logging.getLogger("dragoman.policy")

AFTER = frozenset({Hook.TOOL_POST_INVOKE, Hook.PROMPT_POST_FETCH, Hook.RESOURCE_POST_FETCH})
"""Where data comes in, and gets the labels of its data policy."""

_NAME = "the pipeline"
_TOO_LATE = Violation(
    "the message has been sent, or is part of a history that has, and changes no more: a plugin that changes messages"
    " is of mode transform",
    code="cannot_change",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came through: the message as the plugins left it, and the extensions that go with it from here on."""

    message: Message
    extensions: Extensions | None


@dataclass(frozen=True, slots=True)
class _Asked:
    """The plugins of one hook, in the order in which they run."""

    one_by_one: tuple[Declared, ...]
    side_by_side: tuple[Declared, ...]
    unheard: tuple[Declared, ...]

    @classmethod
    def of(cls, plugins: Iterable[Declared]) -> "_Asked":
        order = list(Mode)
        there = sorted(plugins, key=lambda plugin: (order.index(plugin.mode), plugin.priority))
        apart = (Mode.CONCURRENT, Mode.FIRE_AND_FORGET)
        return cls(
            tuple(plugin for plugin in there if plugin.mode not in apart),
            tuple(plugin for plugin in there if plugin.mode is Mode.CONCURRENT),
            tuple(plugin for plugin in there if plugin.mode is Mode.FIRE_AND_FORGET),
        )


class Pipeline:
    """Plugins, and the rules that they share. Sessions may share one; it keeps nothing of what it sees.

    ``signed`` says what becomes of a provider's signed thinking that a change makes void: it is dropped, or the step
    is denied. ``unknown`` says the same of parts that no plugin can be shown, such as a provider's native blocks.
    ``denied_calls``: a denied call of a tool ends the turn with PolicyDeniedError ("raise"), or the model is told that
    it was denied ("answer"), and nothing but the code. ``grants`` are capabilities of the program itself:
    with declassify_labels its sessions may take labels away.

    Raises ConfigurationError on a plugin whose declaration means nothing, on two of one name, and on a capability that
    is none.
    """

    def __init__(
        self,
        plugins: Iterable[Plugin] | Plugin = (),
        *,
        signed: Literal["drop", "deny"] = "drop",
        unknown: Literal["deny", "drop"] = "deny",
        denied_calls: Literal["raise", "answer"] = "raise",
        grants: Iterable[Capability | str] = (),
    ) -> None:
        declared = [Declared.of(plugin) for plugin in ((plugins,) if isinstance(plugins, Plugin) else plugins)]
        names = [each.name for each in declared]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigurationError(f"two plugins have the name {min(twice)!r}: give each its own")
        for setting, words in ((signed, ("drop", "deny")), (unknown, ("deny", "drop"))):
            if setting not in words:
                raise ConfigurationError(f"{setting!r:.80}: the words are drop and deny")
        if denied_calls not in ("raise", "answer"):
            raise ConfigurationError(f"{denied_calls!r:.80}: the words are raise and answer")
        self.plugins = tuple(declared)
        self._asked = {hook: _Asked.of(each for each in declared if hook in each.hooks) for hook in Hook}
        self._heeded = frozenset(hook for each in declared for hook in each.hooks)
        self._shared = Shared()
        self.signed = signed
        self.unknown = unknown
        self.denied_calls = denied_calls
        self.grants = held((grants,) if isinstance(grants, str) else grants)

    @property
    def async_names(self) -> tuple[str, ...]:
        """Plugins that have to be awaited, which only an AsyncSession does."""
        return tuple(each.name for each in self.plugins if each.is_async)

    def asks(self, hook: Hook | str) -> bool:
        """Whether any plugin is asked there."""
        return hook in self._heeded or Hook.named(hook) in self._heeded

    @property
    def window(self) -> int | None:
        """How many characters of a streamed reply are held back: as many as any plugin has to see together. 0 where
        none is asked; None where one has to see all of it."""
        found = self._asked[Hook.LLM_OUTPUT]
        windows = [each.window for each in (*found.one_by_one, *found.side_by_side) if each.mode is not Mode.AUDIT]
        known = [window for window in windows if window is not None]
        return None if len(known) < len(windows) else max(known, default=0)

    def run(self, hook: Hook | str, message: Message, extensions: Extensions | None = None, **how: Any) -> Outcome:
        """Asks the plugins of this hook; ``how`` as for `steps`. Raises PolicyDeniedError where one refuses, or fails
        and does not declare that it may."""
        return run(self.steps(hook, message, extensions, **how))

    async def run_async(
        self, hook: Hook | str, message: Message, extensions: Extensions | None = None, **how: Any
    ) -> Outcome:
        """The async twin of `run`."""
        return await run_async(self.steps(hook, message, extensions, **how))

    def steps(
        self,
        hook: Hook | str,
        message: Message,
        extensions: Extensions | None = None,
        *,
        calls: Mapping[str, CalledTool] | None = None,
        partial: bool = False,
        again: bool = False,
    ) -> Steps[Outcome]:
        """Whom to ask, in turn; the result is what came through.

        Whoever may ask at all, what is asked for takes the permissions of its profile (see `objects`).
        ``calls`` names the tools by the ids of their calls. ``partial``: the message is a piece of a streaming reply,
        which only those look at who may refuse or change it. ``again``: it came in before, and cannot change any more.

        Raises ConfigurationError where there is no such hook, and TypeError where the message or the extensions are
        something else, since what cannot be judged must not pass.
        """
        where = Hook.named(hook)
        _check_kinds(message, extensions)
        asked = self._asked[where]
        going = _Going(self, where, message, extensions, calls, partial, again)
        if where in self._heeded:
            going.check_parts()
        if (missing := no_access(where, message, extensions, calls)) is not None:
            going.deny(missing)
        if where in AFTER:
            going.extensions = stamped(going.message, going.extensions, calls)
        for declared in asked.one_by_one:
            if (again and declared.mode is Mode.TRANSFORM) or (partial and declared.mode is Mode.AUDIT):
                continue
            answer = yield Call(declared, going.step(declared))
            going.take(declared, answer)
        if asked.side_by_side:
            shown = going.extensions
            answers = yield SideBySide(tuple(Call(each, going.step(each)) for each in asked.side_by_side))
            for declared, answer in zip(asked.side_by_side, answers, strict=True):
                going.take(declared, answer, shown)
        if asked.unheard and not partial:
            yield Unheard(tuple(Call(each, going.step(each)) for each in asked.unheard))
        return Outcome(going.settled(), going.extensions)


class _Going:
    """One step on its way through the plugins."""

    def __init__(
        self,
        pipeline: Pipeline,
        hook: Hook,
        message: Message,
        extensions: Extensions | None,
        calls: Mapping[str, CalledTool] | None,
        partial: bool,
        again: bool,
    ) -> None:
        self._pipeline = pipeline
        self._hook = hook
        self._first = message
        self.message = message
        self.extensions = extensions
        self._calls = calls
        self._partial = partial
        self._again = again

    def step(self, declared: Declared) -> Step:
        return Step(
            self._hook,
            self.message,
            self.extensions,
            declared.capabilities,
            calls=self._calls,
            partial=self._partial,
            shared=self._pipeline._shared,
        )

    def check_parts(self) -> None:
        kind = unknown_kind(self.message.content)
        if kind is None:
            return
        if self._pipeline.unknown == "drop" and not self._again:
            self.message = only_known(self.message)
            return
        self.deny(Violation(f"a part of the kind {kind!r:.80} cannot be judged", code="unknown_part"))

    def take(self, declared: Declared, answer: Any, shown: Extensions | None = None) -> None:
        """Merges an answer, or denies the step; ``shown`` are the extensions that all side by side are shown."""
        try:
            result = _as_result(answer)
            refusal = self._refusal(declared, result.violation)
            message, extensions = self.message, self.extensions
            if refusal is None:
                message = self._message(declared, result.message)
                extensions = self._extensions(declared, result.extensions, shown)
        except Exception as error:
            self._failed(declared, error)
            return
        if self._again and message is not self.message:
            refusal = _TOO_LATE
        if refusal is not None:
            self.deny(replace(refusal, plugin=declared.name))
        self.message, self.extensions = message, extensions

    def _refusal(self, declared: Declared, violation: Violation | None) -> Violation | None:
        if violation is None or declared.mode.may_refuse:
            return violation
        if declared.mode is Mode.AUDIT:
            logger.warning("the plugin %s would deny %s: %s", declared.name, self._hook, violation.code)
            return None
        raise TierViolation(declared.name, "step", Tier.IMMUTABLE, f"the mode {declared.mode} denies nothing")

    def _message(self, declared: Declared, returned: Message | None) -> Message:
        if returned is None:
            return self.message
        message = changed(self.message, returned, declared.name)
        if message is not self.message and not declared.mode.may_change:
            raise TierViolation(
                declared.name, "message.content", Tier.IMMUTABLE, f"the mode {declared.mode} changes nothing"
            )
        return message

    def _extensions(
        self, declared: Declared, returned: Extensions | None, shown: Extensions | None
    ) -> Extensions | None:
        if returned is None:
            return self.extensions
        apart = declared.mode is Mode.CONCURRENT
        base = shown if apart else self.extensions
        may_write = declared.mode.may_change
        merged = merge(base, returned, declared.capabilities, plugin=declared.name, may_write=may_write)
        # Who runs side by side can have added labels, and nothing else.
        return with_labels(self.extensions, labels_of(merged)) if apart else merged

    def _failed(self, declared: Declared, error: Exception) -> None:
        if isinstance(error, ConfigurationError):
            raise error
        code, reason = _failure(error)
        if declared.on_error is OnError.IGNORE:
            logger.warning("%s goes on without the plugin %s: %s", self._hook, declared.name, reason)
            return
        self.deny(Violation(reason, code=code, plugin=declared.name), error)

    def settled(self) -> Message:
        """The message at the end, without the signed thinking that a change made void."""
        settled = without_void(self._first, self.message)
        if settled is not self.message and self._pipeline.signed == "deny":
            reason = "a change would make signed thinking void, and it is set to be kept"
            self.deny(Violation(reason, code="signed_thinking"))
        return settled

    def deny(self, violation: Violation, cause: Exception | None = None) -> NoReturn:
        raise PolicyDeniedError(
            self._hook, violation.plugin or _NAME, violation.code, violation.reason, violation.description
        ) from cause


def _check_kinds(message: object, extensions: object) -> None:
    if not isinstance(message, Message):
        raise TypeError(f"a Message is judged, not a {type(message).__name__}")
    if not (extensions is None or isinstance(extensions, Extensions)):
        given = type(extensions).__name__
        raise TypeError(f"extensions are Extensions, not a {given}: Extensions.model_validate reads a dict")


def _as_result(answer: Any) -> PluginResult:
    match answer:
        case Exception():
            raise answer
        case None:
            return _NOTHING
        case PluginResult():
            return answer
        case Violation():
            return PluginResult(violation=answer)
        case Message():
            return PluginResult(message=answer)
        case Extensions():
            return PluginResult(extensions=answer)
        case _:
            raise _AnswerError(type(answer).__name__)


_NOTHING = PluginResult()


class _AnswerError(TypeError):
    """Its text is ours, and quotes nothing that the plugin has seen."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"check returned a {kind}: a Violation, a Message, Extensions, a PluginResult or None is due")


def _failure(error: Exception) -> tuple[str, str]:
    """Code and reason; what an error of a plugin says is not told, since it may quote what the plugin has seen."""
    if isinstance(error, TierViolation):
        return "tier_violation", str(error)
    if isinstance(error, TimeoutError):
        return "timeout", "the plugin did not answer in time"
    if isinstance(error, _AnswerError):
        return "plugin_error", str(error)
    return "plugin_error", f"the plugin failed with {type(error).__name__}"
