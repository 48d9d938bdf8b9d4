"""One step on its way through the plugins of a pipeline: each result is checked, then merged, ignored or raised.

Before any plugin, the object profiles say who may use a tool, a resource or a prompt. Source:
docs/reference/cmf.md#object-profiles.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from inspect import isawaitable, iscoroutine
from itertools import product
from typing import Any, Literal, NoReturn

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.security import ObjectSecurityProfile, SubjectExtension
from dragoman.canonical.log import get_logger
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.context import UnreadableError
from dragoman.canonical.message_view.uris import AmbiguousUriError
from dragoman.canonical.message_view.view import iter_views
from dragoman.effects import Work
from dragoman.policy.data_policy import apply_data_labels
from dragoman.policy.errors import PolicyDeniedError, TierViolation
from dragoman.policy.filtering import filter_message
from dragoman.policy.labels import labels_of, with_labels
from dragoman.policy.merging import apply_edit, drop_void_thinking, merge_extensions
from dragoman.policy.plugin import Hook, Mode, OnError, PluginDeclaration, PluginResult, Violation
from dragoman.policy.plugin_calls import PluginCall, call, call_all, start_all
from dragoman.policy.slots import Tier
from dragoman.policy.step import Step, StepSource, new_step
from dragoman.policy.texts import drop_unknown_parts

logger = get_logger("dragoman.policy")

PRE_HOOKS = frozenset({Hook.TOOL_PRE_INVOKE, Hook.PROMPT_PRE_FETCH, Hook.RESOURCE_PRE_FETCH})
"""The hooks before something is used."""
POST_HOOKS = frozenset({Hook.TOOL_POST_INVOKE, Hook.PROMPT_POST_FETCH, Hook.RESOURCE_POST_FETCH})
"""The hooks at which data arrives and gets the labels of its data policy."""

_OFF_PATH = (Mode.CONCURRENT, Mode.FIRE_AND_FORGET)
"""The modes whose plugins do not run one after the other."""
_NO_RESULT = PluginResult()
_REPEATED = Violation(
    "a plugin changed the message, and one that had judged it before wants another change: let the two be one plugin",
    code="cannot_change",
)
_CANNOT_CHANGE = Violation(
    "the message has been sent, or is part of a history that has, and changes no more: a plugin that changes messages"
    " is of mode transform",
    code="cannot_change",
)


def lacks_permissions(subject: SubjectExtension | None, profile: ObjectSecurityProfile) -> bool:
    """Return True if the subject lacks a required permission. No subject means no permissions."""
    granted = frozenset[str]() if subject is None else subject.permissions
    return not granted.issuperset(profile.permissions)


class HookPlugins:
    """The plugins of one hook, in the order in which they run: by mode, then by priority. `Mode` says what each mode
    may do."""

    def __init__(self, plugins: Iterable[PluginDeclaration]) -> None:
        order = list(Mode)
        ordered = sorted(plugins, key=lambda plugin: (order.index(plugin.mode), plugin.priority))
        self.sequential = tuple(plugin for plugin in ordered if plugin.mode not in _OFF_PATH)
        self.concurrent = tuple(plugin for plugin in ordered if plugin.mode is Mode.CONCURRENT)
        self.background = tuple(plugin for plugin in ordered if plugin.mode is Mode.FIRE_AND_FORGET)
        self.has_off_path = bool(self.concurrent or self.background)
        self.selected = {key: self._select(*key) for key in product((False, True), repeat=2)}
        """What `_select` returns, by its arguments."""

    def _select(self, already_seen: bool, partial: bool) -> tuple[tuple[PluginDeclaration, bool], ...]:
        """Return the plugins that run one after the other, and whether each is inline: for a message that was judged
        before or a new one, and for a piece of a stream or a whole message."""
        selected = self.sequential
        if already_seen:
            selected = tuple(plugin for plugin in selected if plugin.mode is not Mode.TRANSFORM)
        if partial:
            selected = tuple(plugin for plugin in selected if plugin.mode is not Mode.AUDIT)
        return tuple((plugin, plugin.is_inline) for plugin in selected)


@dataclass(slots=True, eq=False)
class StepRun:
    """One step, and how far it is.

    `start_step` creates it, calls `handle_unknown_part`, `check_access` or `add_data_labels` if the message or the hook
    requires it, and then `run_inline`. Its caller runs `steps` unless `is_done`, and then `finish` if anything changed.

    ``first`` is what the first plugin sees, ``source`` what the next one sees: the same object if nothing changed.
    ``changed_extensions`` is None until the extensions change.
    """

    first: StepSource
    source: StepSource
    plugins: HookPlugins
    ordered: tuple[tuple[PluginDeclaration, bool], ...]
    """The plugins that run one after the other, and whether each is inline."""
    signed: Literal["drop", "deny"]
    """Whether signed thinking that a change makes invalid is dropped, or the step denied."""
    unknown: Literal["deny", "drop"]
    """Whether a part that no plugin can judge is dropped, or the step denied."""
    already_seen: bool
    """Whether the message was judged before, so that it cannot change any more."""
    on_denial: Callable[[PolicyDeniedError], object] | None
    changed_extensions: Extensions | None = None
    is_done: bool = False
    """Whether no plugin has to be awaited any more."""
    _next: int = 0
    _last_change: int = 0
    """The position of the last plugin that changed the message: those before it have seen another one. 0 also
    if none did: no plugin has to judge again."""
    _outputs: dict[str, Message] = field(default_factory=dict)
    """What each plugin made of the message, by its name."""
    _is_repeated: bool = False
    """Whether this is the second pass, in which plugins judge what later ones made of the message."""
    _pending: Awaitable[Any] | None = None
    """The answer of the next plugin, if it was called already."""

    def run_inline(self) -> None:
        """Call the next plugins, up to one that has to be awaited."""
        position, ordered = self._next, self.ordered
        for declared, is_inline in ordered[position:]:
            if not is_inline:
                break
            try:
                answer = declared.judge(new_step(self.source, declared.capabilities, declared.copies))
            except Exception as error:
                answer = error  # `apply_answer` raises it, and handles it as any other failure
            if answer is not None:
                if isawaitable(answer):
                    self._pending = answer
                    break
                self._apply(position, declared, answer)
            position += 1
        self._next = position
        if position == len(ordered):
            if self._last_change and not self._is_repeated:
                # The second pass: the plugins before the last change that may deny judge the result.
                judges = self.ordered[: self._last_change]
                self.ordered = tuple(each for each in judges if each[0].mode is Mode.SEQUENTIAL)
                self._next, self._is_repeated = 0, True
                self.run_inline()
                return
            self.is_done = not self.plugins.has_off_path

    def _apply(self, position: int, declared: PluginDeclaration, answer: Any) -> None:
        before = self.source.message
        self.apply_answer(declared, answer)
        if self.source.message is not before:
            self._last_change = position
            self._outputs[declared.name] = self.source.message

    def steps(self) -> Work[None]:
        """Yield the calls of the plugins that have to be awaited."""
        while self._next < len(self.ordered):
            declared, _ = self.ordered[self._next]
            answer = yield call(PluginCall(declared, self._step(declared), self._pending))
            self._pending = None
            self._apply(self._next, declared, answer)
            self._next += 1
            self.run_inline()
        plugins = self.plugins
        if plugins.concurrent:
            before = self.source.extensions  # built once, before several threads read them
            answers = yield call_all([PluginCall(each, self._step(each)) for each in plugins.concurrent])
            for declared, answer in zip(plugins.concurrent, answers, strict=True):
                self.apply_answer(declared, answer, before)
        if plugins.background and not self.source.partial:
            _ = self.source.extensions  # as above
            yield start_all([PluginCall(each, self._step(each)) for each in plugins.background])

    def _step(self, declared: PluginDeclaration) -> Step:
        return new_step(self.source, declared.capabilities, declared.copies)

    def check_access(self) -> None:
        """Deny the step if the message requests what the object profiles do not allow to the subject.

        Profiles with ``managed_by="tool"`` are skipped: the tool enforces them. The violation names no permission,
        because its reader may not be allowed to see it.
        """
        source, extensions = self.source, self.source.extensions
        if extensions is None or extensions.security is None or not extensions.security.objects:
            return
        for view in iter_views(source.message, source.hook.removeprefix("cmf."), extensions, calls=source.calls):
            try:
                profiles = view.objects if view.is_tool or view.is_prompt or view.has_address else ()
            except AmbiguousUriError as error:
                self.deny(Violation(str(error), code="uri_denied", plugin="object profile"))
            own = [profile for profile in profiles if profile.managed_by != "tool"]
            if any(lacks_permissions(extensions.security.subject, profile) for profile in own):
                reason = "the caller lacks a permission that this requires"
                self.deny(Violation(reason, code="object_permissions", plugin="object profile"))

    def add_data_labels(self) -> None:
        source = self.source
        self._replace(source.message, apply_data_labels(source.message, source.extensions, source.calls))

    def handle_unknown_part(self, kind: str) -> None:
        """Drop the parts that no plugin can judge, or deny the step. ``kind`` is that of the first one."""
        if self.unknown == "drop" and not self.already_seen:
            self._replace(drop_unknown_parts(self.source.message), None)
            return
        self.deny(Violation(f"no plugin can judge a part of the kind {kind!r:.80}", code="unknown_part"))

    def apply_answer(self, declared: PluginDeclaration, answer: Any, visible: Extensions | None = None) -> None:
        """Merge a plugin's result, or deny the step. ``visible`` are the extensions that all concurrent plugins
        received.
        """
        message, extensions = self.source.message, None
        try:
            result = _as_result(answer)
            refusal = self._check_violation(declared, result.violation)
            if refusal is None:
                message = self._message(declared, result.message)
                extensions = self._extensions(declared, result.extensions, visible)
            if message is not self.source.message:
                if self.already_seen:
                    refusal = _CANNOT_CHANGE
                elif self._is_repeated and self._changes_always(declared):
                    message = self.source.message
                elif self._is_repeated:
                    refusal = _REPEATED
        except Exception as error:
            self._handle_failure(declared, error)
            return
        if refusal is not None:
            self.deny(replace(refusal, plugin=declared.name))
        self._replace(message, extensions)

    def _changes_always(self, declared: PluginDeclaration) -> bool:
        """Whether a plugin changes even its own result, as one does that appends a text: its change in the second pass
        then says nothing new. A plugin that has to be awaited is not asked."""
        own = self._outputs.get(declared.name)
        if own is None or not declared.is_inline:
            return False
        step = new_step(self.source.replace(own, None), declared.capabilities, declared.copies)
        answer = declared.judge(step)
        if isawaitable(answer):
            if iscoroutine(answer):
                answer.close()
            return False
        again = _as_result(answer).message
        return again is not None and again.content != own.content

    def finish(self) -> Message:
        """Return the final message, without the signed thinking that a change made invalid."""
        final = drop_void_thinking(self.first.message, self.source.message)
        if final is not self.source.message and self.signed == "deny":
            reason = "a change would invalidate signed thinking, and the policy keeps it"
            self.deny(Violation(reason, code="signed_thinking"))
        return final

    def deny(self, violation: Violation, cause: Exception | None = None) -> NoReturn:
        plugin = violation.plugin or "the pipeline"
        denial = PolicyDeniedError(self.source.hook, plugin, violation.code, violation.reason, violation.description)
        if self.on_denial is not None:
            self.on_denial(denial)
        raise denial from cause

    def _replace(self, message: Message, extensions: Extensions | None) -> None:
        """Let the next plugin see a change; extensions that are None did not change."""
        if extensions is not None and extensions is not self.source.extensions:
            self.changed_extensions = extensions
        elif message is self.source.message:
            return
        self.source = self.source.replace(message, self.changed_extensions)

    def _check_violation(self, declared: PluginDeclaration, violation: Violation | None) -> Violation | None:
        if violation is None or declared.mode.can_deny:
            return violation
        if declared.mode is Mode.AUDIT:
            logger.warning("the plugin %s would deny %s: %s", declared.name, self.source.hook, violation.code)
            return None
        raise TierViolation(declared.name, "step", Tier.IMMUTABLE, f"a plugin of mode {declared.mode} cannot deny")

    def _message(self, declared: PluginDeclaration, returned: Message | None) -> Message:
        known = self.source.message
        if returned is None:
            return known
        message = apply_edit(known, returned, declared.name, filter_message(known, declared.capabilities))
        if message is not known and not declared.mode.can_change:
            detail = f"a plugin of mode {declared.mode} cannot change anything"
            raise TierViolation(declared.name, "message.content", Tier.IMMUTABLE, detail)
        return message

    def _extensions(
        self, declared: PluginDeclaration, returned: Extensions | None, visible: Extensions | None
    ) -> Extensions | None:
        if returned is None:
            return None
        present = self.source.extensions
        is_concurrent = declared.mode is Mode.CONCURRENT
        base = visible if is_concurrent else present
        may_write = declared.mode.can_change
        merged = merge_extensions(base, returned, declared.capabilities, plugin=declared.name, may_write=may_write)
        # Concurrent plugins can only add labels.
        return with_labels(present, labels_of(merged)) if is_concurrent else merged

    def _handle_failure(self, declared: PluginDeclaration, error: Exception) -> None:
        if isinstance(error, UnreadableError):
            raise ConfigurationError(f"plugin {declared.name!r}: {error}") from None
        if isinstance(error, ConfigurationError):
            raise error
        # The error's own text is left out, because it may quote what the plugin read.
        code, reason = "plugin_error", f"the plugin failed with {type(error).__name__}"
        if isinstance(error, TierViolation):
            code, reason = "tier_violation", str(error)
        elif isinstance(error, TimeoutError):
            code, reason = "timeout", "the plugin did not answer in time"
        elif isinstance(error, _WrongResultError):
            reason = str(error)
        if declared.on_error is OnError.IGNORE:
            logger.warning("%s continues without the plugin %s: %s", self.source.hook, declared.name, reason)
            return
        self.deny(Violation(reason, code=code, plugin=declared.name), error)


def _as_result(answer: Any) -> PluginResult:
    match answer:
        case Exception():
            raise answer
        case None:
            return _NO_RESULT
        case PluginResult():
            return answer
        case Violation():
            return PluginResult(violation=answer)
        case Message():
            return PluginResult(message=answer)
        case Extensions():
            return PluginResult(extensions=answer)
        case _:
            raise _WrongResultError(type(answer).__name__)


class _WrongResultError(TypeError):
    """The text is our own, and quotes nothing that the plugin read."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"check returned a {kind}: return a Violation, a Message, Extensions, a PluginResult or None")
