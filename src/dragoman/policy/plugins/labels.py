"""Plugins that set labels or act on them: what is untrusted gets a label and is kept from tools with side effects, and
labelled content goes to the models that may see it."""

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ProviderBlock, ToolResultBlock
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.slots import LLMExtension
from dragoman.canonical.glob import Glob, glob
from dragoman.canonical.message_view.kinds import ViewKind
from dragoman.canonical.message_view.uris import uri_pattern
from dragoman.canonical.message_view.view import MessageView
from dragoman.canonical.tools import SideEffects
from dragoman.policy.labels import labels_of, with_labels
from dragoman.policy.plugin import Hook, Plugin, Violation
from dragoman.policy.plugins.access import compile_patterns
from dragoman.policy.plugins.confirmation import HARMLESS, parse_effects
from dragoman.policy.slots import Capability
from dragoman.policy.step import Step, iter_views_deep

UNTRUSTED = "untrusted"
_SIDE_EFFECTS = "sideEffects"
"""The annotation in which a session says what a tool does; it sets the one of a server too."""


class UntrustedData(Plugin):
    """Data of a tool, a server or an address may hold instructions for the model: it gets the ``label``.

    ``trusted`` are patterns of what needs no label: ``tool://NAMESPACE/NAME``, ``prompt://SERVER/NAME`` and addresses
    of resources and media. With ``protect``, no call of a tool with side effects runs once the conversation has the
    label. ``tools`` are side effects by name, for tools whose own are not right; tools of servers have side effects
    unless they are listed or the program trusts the hints of the server.

    A person who has read the data removes the label with `Session.declassify`.
    """

    name = "untrusted_data"
    hooks: Iterable[Hook | str] = (
        Hook.TOOL_POST_INVOKE, Hook.PROMPT_POST_FETCH, Hook.RESOURCE_POST_FETCH, Hook.LLM_INPUT, Hook.TOOL_PRE_INVOKE,
        Hook.EVALUATE,
    )  # fmt: skip
    capabilities: Iterable[Capability | str] = (Capability.APPEND_LABELS,)

    def __init__(
        self,
        *,
        trusted: Iterable[str] = (),
        tools: Mapping[str, SideEffects | str] | None = None,
        protect: bool = True,
        label: str = UNTRUSTED,
    ) -> None:
        """Raises ConfigurationError for a pattern without a meaning and for an unknown side effect."""
        if isinstance(trusted, str) or not all(isinstance(each, str) for each in trusted):
            raise ConfigurationError("trusted is a list of patterns, as in ['tool://_/add', 'https://docs.example/**']")
        self._trusted = compile_patterns(uri_pattern, trusted)
        self._effects = {name: parse_effects(effects) for name, effects in (tools or {}).items()}
        self._protect = protect
        self._label = label

    def check(self, step: Step) -> Violation | Extensions | None:
        if step.hook == Hook.TOOL_PRE_INVOKE:
            if not self._protect or self._label not in labels_of(step.extensions):
                return None
            for view in step.views():
                if view.kind is ViewKind.TOOL_CALL and not self._is_harmless(view, step):
                    reason = f"the conversation has {self._label} data, which could have caused this call"
                    return Violation(reason, code="untrusted_data")
            return None
        if not any(self._is_untrusted(view, step) for view in iter_views_deep(step)):
            return None
        return with_labels(step.extensions, {self._label})

    def _is_untrusted(self, view: MessageView, step: Step) -> bool:
        if view.has_address:
            meaning = view.uri_meaning
            return meaning is None or not any(each.allows(meaning) for each in self._trusted)
        if view.kind is ViewKind.TOOL_RESULT:
            part = view.raw
            namespace: str | None = None
            if isinstance(part, ProviderBlock):
                namespace = part.provider
            elif isinstance(part, ToolResultBlock) and part.tool_use_id in step.calls:
                namespace = step.calls[part.tool_use_id].namespace
            uri = f"tool://{namespace or '_'}/{view.name or '_'}"
            return not any(each.matches_name(uri) for each in self._trusted)
        return view.kind is ViewKind.PROMPT_RESULT

    def _is_harmless(self, view: MessageView, step: Step) -> bool:
        if view.name in self._effects:
            return self._effects[view.name] in HARMLESS
        described = step.extensions.mcp and step.extensions.mcp.tool
        if not described or described.name != view.name:
            return False
        effects: Any = described.annotations.get(_SIDE_EFFECTS)
        return effects in list(HARMLESS)


class LabelledModels(Plugin):
    """Denies a request if its model may not see one of its labels; a label that is not listed is not restricted.

    ``models`` are globs over model ids by label: ``{"PII": ["ollama:**", "local:**"]}``. Content with several labels
    needs a model that all of them allow. It decides where a request leaves, so that it sees the labels that any other
    plugin adds, whatever its mode, and the model that is really asked. If the model is unknown, the request is denied.
    To route such turns to an allowed model in the first place, give `dragoman.routing.label_rules` to the session's
    router.
    """

    name = "labelled_models"
    hooks: Iterable[Hook | str] = (Hook.REQUEST,)
    capabilities: Iterable[Capability | str] = (Capability.READ_LABELS,)

    def __init__(self, models: Mapping[str, Iterable[str]]) -> None:
        """Raises ConfigurationError if a label has a string instead of a list or a pattern that is too long, or if
        there are no labels."""
        if not isinstance(models, Mapping):
            raise ConfigurationError(
                f"map labels to models, as in {{'PII': ['local:**']}}, not a {type(models).__name__}"
            )
        self._allowed: dict[str, tuple[Glob, ...]] = {}
        for label, patterns in models.items():
            if isinstance(patterns, str):
                raise ConfigurationError(f"the models of the label {label!r:.80} must be a list: [{patterns!r:.80}]")
            self._allowed[label] = compile_patterns(glob, patterns)

    def check(self, step: Step) -> Violation | None:
        security = step.extensions.security
        restricted = sorted((security.labels if security else frozenset()) & self._allowed.keys())
        if not restricted:
            return None
        model = model_of(step.extensions.llm)
        for label in restricted:
            if model is None or not any(each.matches(model) for each in self._allowed[label]):
                return Violation(
                    f"content under the label {label!r:.80} is not for {model or 'a model that is not named'}",
                    code="model_not_allowed",
                )
        return None


def model_of(llm: LLMExtension | None) -> str | None:
    """Return the model id, ``provider:name``, whether or not the slot's name includes the provider."""
    if llm is None or not llm.model_id:
        return None
    if not llm.provider or llm.model_id.startswith(f"{llm.provider}:"):
        return llm.model_id
    return f"{llm.provider}:{llm.model_id}"
