"""The pipeline: runs plugins in order, each with the extensions it may read, and checks, merges or rejects the results.

All rules are here, once for both drivers: `steps` yields plugin calls and receives their results (see `runner`).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.message import Alternative, Message
from dragoman.canonical.message_view.context import UnreadableError
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.policy.data_policy import apply_data_labels
from dragoman.policy.edit import apply_edit, drop_void_thinking, with_alternatives, without_alternatives
from dragoman.policy.errors import PolicyDeniedError, TierViolation
from dragoman.policy.filtering import FilterCache, filter_message
from dragoman.policy.labels import labels_of, with_labels
from dragoman.policy.merging import merge_extensions
from dragoman.policy.object_access import check_access
from dragoman.policy.plugin import Hook, Mode, OnError, Plugin, PluginDeclaration, PluginResult, Violation
from dragoman.policy.runner import BackgroundCalls, ConcurrentCalls, PluginCall, Steps, run, run_async
from dragoman.policy.slots import Capability, Tier, expand_capabilities
from dragoman.policy.step import SharedViews, Step
from dragoman.policy.unknown_parts import drop_unknown_parts, find_unknown_kind

logger = logging.getLogger("dragoman.policy")

POST_HOOKS = frozenset({Hook.TOOL_POST_INVOKE, Hook.PROMPT_POST_FETCH, Hook.RESOURCE_POST_FETCH})
"""The hooks at which data arrives and gets the labels of its data policy."""

_NAME = "the pipeline"
_CANNOT_CHANGE = Violation(
    "the message has been sent, or is part of a history that has, and changes no more: a plugin that changes messages"
    " is of mode transform",
    code="cannot_change",
)


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """The message and the extensions after the plugins."""

    message: Message
    extensions: Extensions | None


@dataclass(frozen=True, slots=True)
class _HookPlugins:
    """The plugins of one hook, in the order in which they run."""

    sequential: tuple[PluginDeclaration, ...]
    concurrent: tuple[PluginDeclaration, ...]
    background: tuple[PluginDeclaration, ...]

    @classmethod
    def from_plugins(cls, plugins: Iterable[PluginDeclaration]) -> "_HookPlugins":
        order = list(Mode)
        ordered = sorted(plugins, key=lambda plugin: (order.index(plugin.mode), plugin.priority))
        off_path = (Mode.CONCURRENT, Mode.FIRE_AND_FORGET)
        return cls(
            tuple(plugin for plugin in ordered if plugin.mode not in off_path),
            tuple(plugin for plugin in ordered if plugin.mode is Mode.CONCURRENT),
            tuple(plugin for plugin in ordered if plugin.mode is Mode.FIRE_AND_FORGET),
        )


class Pipeline:
    """Plugins and their shared rules. Sessions may share one; it stores nothing of what it judges.

    ``signed`` says what happens to a provider's signed thinking that a change makes invalid: it is dropped, or the step
    is denied. ``unknown`` says the same for parts that plugins cannot read, such as a provider's native blocks.
    ``denied_calls``: a denied tool call ends the turn with PolicyDeniedError ("raise"), or the model gets a result that
    says it was denied, with nothing but the code ("answer"). ``grants`` are capabilities of the program itself:
    with declassify_labels its sessions may remove labels.

    Raises ConfigurationError for an invalid plugin declaration, for two plugins of one name, and for an unknown
    capability.
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
        declared = [
            PluginDeclaration.from_plugin(plugin) for plugin in ((plugins,) if isinstance(plugins, Plugin) else plugins)
        ]
        names = [each.name for each in declared]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ConfigurationError(f"two plugins have the name {min(repeated)!r}: give each a different name")
        for setting, choices in ((signed, ("drop", "deny")), (unknown, ("deny", "drop"))):
            if setting not in choices:
                raise ConfigurationError(f"{setting!r:.80}: use drop or deny")
        if denied_calls not in ("raise", "answer"):
            raise ConfigurationError(f"{denied_calls!r:.80}: use raise or answer")
        self.plugins = tuple(declared)
        self._by_hook = {
            hook: _HookPlugins.from_plugins(each for each in declared if hook in each.hooks) for hook in Hook
        }
        self._hooks = frozenset(hook for each in declared for hook in each.hooks)
        self._shared = FilterCache()
        self._copies = {each.name: FilterCache() for each in declared}
        """What each plugin is shown, so that a change by force reaches no other plugin."""
        self.signed = signed
        self.unknown = unknown
        self.denied_calls = denied_calls
        self.grants = expand_capabilities((grants,) if isinstance(grants, str) else grants)

    @property
    def async_names(self) -> tuple[str, ...]:
        """The plugins that must be awaited, which only an AsyncSession does."""
        return tuple(each.name for each in self.plugins if each.is_async)

    def has_plugins(self, hook: Hook | str) -> bool:
        """Return True if any plugin runs at this hook."""
        return hook in self._hooks or Hook.parse(hook) in self._hooks

    @property
    def window(self) -> int | None:
        """The number of characters of a streamed reply to hold back: the largest window of any plugin. 0 if no plugin
        runs on replies, None if one needs the whole reply.
        """
        found = self._by_hook[Hook.LLM_OUTPUT]
        windows = [each.window for each in (*found.sequential, *found.concurrent) if each.mode is not Mode.AUDIT]
        known = [window for window in windows if window is not None]
        return None if len(known) < len(windows) else max(known, default=0)

    def run(
        self, hook: Hook | str, message: Message, extensions: Extensions | None = None, **options: Any
    ) -> PipelineResult:
        """Run the plugins of this hook; ``options`` are those of `steps`. Raises PolicyDeniedError if one denies the
        step, or fails and does not declare that it may.
        """
        return run(self.steps(hook, message, extensions, **options))

    async def run_async(
        self, hook: Hook | str, message: Message, extensions: Extensions | None = None, **options: Any
    ) -> PipelineResult:
        """As `run`, for an event loop."""
        return await run_async(self.steps(hook, message, extensions, **options))

    def steps(
        self,
        hook: Hook | str,
        message: Message,
        extensions: Extensions | None = None,
        *,
        calls: Mapping[str, CalledTool] | None = None,
        partial: bool = False,
        already_seen: bool = False,
    ) -> Steps[PipelineResult]:
        """Yield the plugin calls of this hook, in turn, and return the result.

        Before the plugins run, the caller's permissions are checked against the object profiles (see `object_access`).
        Alternatives of a reply are judged one by one, as the reply itself; if one is denied, the reply is.

        ``calls`` maps call ids to tools. ``partial``: the message is a piece of a streaming reply, which goes only to
        plugins that may deny or change it. ``already_seen``: the message was judged before, and cannot change any more.

        Raises ConfigurationError for an unknown hook, and TypeError if the message or the extensions are of another
        type, because what cannot be judged must not pass. Source: docs/reference/policy.md#hooks.
        """
        step_hook = Hook.parse(hook)
        _check_types(message, extensions)
        plugins = self._by_hook[step_hook]
        step_run = _StepRun(self, step_hook, message, extensions, calls, partial, already_seen)
        if step_hook in self._hooks:
            step_run.check_parts()
        if (missing := check_access(step_hook, message, extensions, calls)) is not None:
            step_run.deny(missing)
        if step_hook in POST_HOOKS:
            step_run.extensions = apply_data_labels(step_run.message, step_run.extensions, calls)
        for declared in plugins.sequential:
            if (already_seen and declared.mode is Mode.TRANSFORM) or (partial and declared.mode is Mode.AUDIT):
                continue
            answer = yield PluginCall(declared, step_run.step(declared))
            step_run.apply_answer(declared, answer)
        if plugins.concurrent:
            before = step_run.extensions
            answers = yield ConcurrentCalls(tuple(PluginCall(each, step_run.step(each)) for each in plugins.concurrent))
            for declared, answer in zip(plugins.concurrent, answers, strict=True):
                step_run.apply_answer(declared, answer, before)
        if plugins.background and not partial:
            yield BackgroundCalls(tuple(PluginCall(each, step_run.step(each)) for each in plugins.background))
        final, shown = step_run.finish(), step_run.extensions
        if step_hook is Hook.LLM_OUTPUT and step_hook in self._hooks and message.alternatives:
            judged: list[Alternative] = []
            for alternative in message.alternatives:
                answer = final.model_copy(update={"content": alternative.content})
                found = yield from self.steps(
                    step_hook, without_alternatives(answer), shown, calls=calls, already_seen=already_seen
                )
                judged.append(alternative.model_copy(update={"content": found.message.content}))
                shown = found.extensions
            final = with_alternatives(final, judged)
        return PipelineResult(final, shown)


class _StepRun:
    """One step on its way through the plugins."""

    def __init__(
        self,
        pipeline: Pipeline,
        hook: Hook,
        message: Message,
        extensions: Extensions | None,
        calls: Mapping[str, CalledTool] | None,
        partial: bool,
        already_seen: bool,
    ) -> None:
        self._pipeline = pipeline
        self._hook = hook
        self._first = message
        self.message = message
        self.extensions = extensions
        self._calls = calls
        self._partial = partial
        self._already_seen = already_seen
        self._views = SharedViews(pipeline._shared)

    def step(self, declared: PluginDeclaration) -> Step:
        return Step(
            self._hook,
            self.message,
            self.extensions,
            declared.capabilities,
            calls=self._calls,
            partial=self._partial,
            cache=self._pipeline._copies[declared.name],
            views=self._views,
        )

    def check_parts(self) -> None:
        kind = find_unknown_kind(self.message.content)
        if kind is None:
            return
        if self._pipeline.unknown == "drop" and not self._already_seen:
            self.message = drop_unknown_parts(self.message)
            return
        self.deny(Violation(f"no plugin can judge a part of the kind {kind!r:.80}", code="unknown_part"))

    def apply_answer(self, declared: PluginDeclaration, answer: Any, visible: Extensions | None = None) -> None:
        """Merge a plugin's result, or deny the step. ``visible`` are the extensions that all concurrent plugins
        received.
        """
        try:
            result = _as_result(answer)
            refusal = self._check_violation(declared, result.violation)
            message, extensions = self.message, self.extensions
            if refusal is None:
                message = self._message(declared, result.message)
                extensions = self._extensions(declared, result.extensions, visible)
        except Exception as error:
            self._handle_failure(declared, error)
            return
        if self._already_seen and message is not self.message:
            refusal = _CANNOT_CHANGE
        if refusal is not None:
            self.deny(replace(refusal, plugin=declared.name))
        self.message, self.extensions = message, extensions

    def _check_violation(self, declared: PluginDeclaration, violation: Violation | None) -> Violation | None:
        if violation is None or declared.mode.can_deny:
            return violation
        if declared.mode is Mode.AUDIT:
            logger.warning("the plugin %s would deny %s: %s", declared.name, self._hook, violation.code)
            return None
        raise TierViolation(declared.name, "step", Tier.IMMUTABLE, f"a plugin of mode {declared.mode} cannot deny")

    def _message(self, declared: PluginDeclaration, returned: Message | None) -> Message:
        if returned is None:
            return self.message
        shown = filter_message(self.message, declared.capabilities)
        message = apply_edit(self.message, returned, declared.name, shown)
        if message is not self.message and not declared.mode.can_change:
            raise TierViolation(
                declared.name,
                "message.content",
                Tier.IMMUTABLE,
                f"a plugin of mode {declared.mode} cannot change anything",
            )
        return message

    def _extensions(
        self, declared: PluginDeclaration, returned: Extensions | None, visible: Extensions | None
    ) -> Extensions | None:
        if returned is None:
            return self.extensions
        off_path = declared.mode is Mode.CONCURRENT
        base = visible if off_path else self.extensions
        may_write = declared.mode.can_change
        merged = merge_extensions(base, returned, declared.capabilities, plugin=declared.name, may_write=may_write)
        # Concurrent plugins can only add labels.
        return with_labels(self.extensions, labels_of(merged)) if off_path else merged

    def _handle_failure(self, declared: PluginDeclaration, error: Exception) -> None:
        if isinstance(error, UnreadableError):
            raise ConfigurationError(f"plugin {declared.name!r}: {error}") from None
        if isinstance(error, ConfigurationError):
            raise error
        code, reason = _describe_failure(error)
        if declared.on_error is OnError.IGNORE:
            logger.warning("%s continues without the plugin %s: %s", self._hook, declared.name, reason)
            return
        self.deny(Violation(reason, code=code, plugin=declared.name), error)

    def finish(self) -> Message:
        """Return the final message, without the signed thinking that a change made invalid."""
        final = drop_void_thinking(self._first, self.message)
        if final is not self.message and self._pipeline.signed == "deny":
            reason = "a change would invalidate signed thinking, and the policy keeps it"
            self.deny(Violation(reason, code="signed_thinking"))
        return final

    def deny(self, violation: Violation, cause: Exception | None = None) -> NoReturn:
        raise PolicyDeniedError(
            self._hook, violation.plugin or _NAME, violation.code, violation.reason, violation.description
        ) from cause


def _check_types(message: object, extensions: object) -> None:
    if not isinstance(message, Message):
        raise TypeError(f"expected a Message, not a {type(message).__name__}")
    if not (extensions is None or isinstance(extensions, Extensions)):
        type_name = type(extensions).__name__
        raise TypeError(f"extensions must be Extensions, not a {type_name}: Extensions.model_validate reads a dict")


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
            raise _CheckResultError(type(answer).__name__)


_NOTHING = PluginResult()


class _CheckResultError(TypeError):
    """The text is our own, and quotes nothing that the plugin read."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"check returned a {kind}: return a Violation, a Message, Extensions, a PluginResult or None")


def _describe_failure(error: Exception) -> tuple[str, str]:
    """Return a code and a reason. The error's own text is left out, because it may quote what the plugin read."""
    if isinstance(error, TierViolation):
        return "tier_violation", str(error)
    if isinstance(error, TimeoutError):
        return "timeout", "the plugin did not answer in time"
    if isinstance(error, _CheckResultError):
        return "plugin_error", str(error)
    return "plugin_error", f"the plugin failed with {type(error).__name__}"
