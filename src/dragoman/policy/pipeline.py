"""The pipeline: runs plugins in order, each with the extensions it may read, and checks, merges or rejects the results.

All rules are here and in `step_run`, once for both drivers: plugins that nobody has to wait for are called directly,
and `steps` yields the calls of the others and receives their results (see `plugin_calls`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.effects import Work, drive, drive_async
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.filtering import FilterCache
from dragoman.policy.labels import labels_of
from dragoman.policy.merging import judge_alternatives
from dragoman.policy.plugin import Hook, Mode, Plugin, PluginDeclaration
from dragoman.policy.slots import Capability, expand_capabilities
from dragoman.policy.step import LazyExtensions, StepSource
from dragoman.policy.step_run import POST_HOOKS, PRE_HOOKS, HookPlugins, StepRun
from dragoman.policy.texts import find_unknown_kind

MAX_LABEL_ROUNDS = 16
"""How often the plugins of a request are run while they add labels."""
ENDLESS_LABELS = "the plugins add labels each time that they see the request"


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """The message and the extensions after the plugins."""

    message: Message
    """The message as it goes on."""
    extensions: Extensions | None
    """The extensions as they go on; None if there were none."""


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
        given = (plugins,) if isinstance(plugins, Plugin) else plugins
        declared = list(map(PluginDeclaration.from_plugin, given))
        names = [each.name for each in declared]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise ConfigurationError(f"two plugins have the name {min(repeated)!r}: give each a different name")
        drops = ("drop", "deny")
        for setting, choices in ((signed, drops), (unknown, drops), (denied_calls, ("raise", "answer"))):
            if setting not in choices:
                raise ConfigurationError(f"{setting!r:.80}: use {' or '.join(choices)}")
        self.plugins = tuple(declared)
        """The plugins as they were declared, in the order in which they were given."""
        self._by_hook = {hook: HookPlugins([each for each in declared if hook in each.hooks]) for hook in Hook}
        self._hooks = frozenset(hook for each in declared for hook in each.hooks)
        self._shared = FilterCache()
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
        return (hook if isinstance(hook, Hook) else Hook.parse(hook)) in self._hooks

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
        return drive(self.steps(hook, message, extensions, **options))

    async def run_async(
        self, hook: Hook | str, message: Message, extensions: Extensions | None = None, **options: Any
    ) -> PipelineResult:
        """As `run`, for an event loop."""
        return await drive_async(self.steps(hook, message, extensions, **options))

    def steps(
        self,
        hook: Hook | str,
        message: Message,
        extensions: Extensions | None = None,
        *,
        calls: Mapping[str, CalledTool] | None = None,
        partial: bool = False,
        already_seen: bool = False,
    ) -> Work[PipelineResult]:
        """Yield the plugin calls of this hook that have to be awaited, in turn, and return the result.

        Before the plugins run, the caller's permissions are checked against the object profiles, see
        `StepRun.check_access`. Alternatives of a reply are judged one by one, as the reply itself; if one is denied,
        the reply is.

        ``calls`` maps call ids to tools. ``partial``: the message is a piece of a streaming reply, which goes only to
        plugins that may deny or change it. ``already_seen``: the message was judged before, and cannot change any more.

        Raises ConfigurationError for an unknown hook, and TypeError if the message or the extensions are of another
        type, because what cannot be judged must not pass. Source: docs/reference/policy.md#hooks.
        """
        step_hook = Hook.parse(hook)
        if not isinstance(message, Message):
            raise TypeError(f"expected a Message, not a {type(message).__name__}")
        if not (extensions is None or isinstance(extensions, Extensions)):
            type_name = type(extensions).__name__
            raise TypeError(f"extensions must be Extensions, not a {type_name}: Extensions.model_validate reads a dict")
        step_run = start_step(self, step_hook, message, extensions, calls or {}, partial, already_seen)
        yield from step_run.steps()
        changed = step_run.changed_extensions
        final, visible = step_run.finish(), extensions if changed is None else changed
        if step_hook is Hook.LLM_OUTPUT and message.alternatives and self.has_plugins(step_hook):

            def judge(answer: Message) -> Work[Message]:
                nonlocal visible
                found = yield from self.steps(step_hook, answer, visible, calls=calls, already_seen=already_seen)
                visible = found.extensions
                return found.message

            final = yield from judge_alternatives(final, message.alternatives, judge)
        if step_hook is Hook.LLM_INPUT and self.has_plugins(Hook.REQUEST):
            visible = yield from self._judge_request(final, visible)
        return PipelineResult(final, visible)

    def _judge_request(self, message: Message, visible: Extensions | None) -> Work[Extensions | None]:
        """Run the plugins of the request that this input makes, until none of them adds a label.

        A session does so where the request leaves."""
        request = message.model_copy(update={"content": ()})
        for _ in range(MAX_LABEL_ROUNDS):
            found = yield from self.steps(Hook.REQUEST, request, visible, already_seen=True)
            if labels_of(found.extensions) == labels_of(visible):
                return found.extensions
            visible = found.extensions
        raise PolicyDeniedError(Hook.REQUEST, "the pipeline", "labels", ENDLESS_LABELS)


def start_step(
    pipeline: Pipeline,
    hook: Hook,
    message: Message,
    extensions: Extensions | LazyExtensions | None,
    calls: Mapping[str, CalledTool],
    partial: bool = False,
    already_seen: bool = False,
    on_denial: Callable[[PolicyDeniedError], object] | None = None,
) -> StepRun:
    """Start what `Pipeline.steps` does: run the plugins up to the first one that has to be awaited. The caller runs the
    steps of the result, if it is not done. ``on_denial`` receives a denial before it is raised.
    """
    source, plugins = StepSource(hook, message, extensions, calls, partial, pipeline._shared), pipeline._by_hook[hook]
    ordered = plugins.selected[already_seen, partial]
    step_run = StepRun(source, source, plugins, ordered, pipeline.signed, pipeline.unknown, already_seen, on_denial)
    if hook in pipeline._hooks and (kind := find_unknown_kind(message.content)) is not None:
        step_run.handle_unknown_part(kind)
    if hook in PRE_HOOKS:
        step_run.check_access()
    elif hook in POST_HOOKS:
        step_run.add_data_labels()
    step_run.run_inline()
    return step_run
