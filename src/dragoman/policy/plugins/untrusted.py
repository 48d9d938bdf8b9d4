"""Labels what comes from tools and from the web, and keeps it from tools with side effects."""

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ProviderBlock, ToolResultBlock
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.message_view.kinds import ViewKind
from dragoman.canonical.message_view.uris import UriPattern, uri_pattern
from dragoman.canonical.message_view.view import MessageView
from dragoman.canonical.tools import SideEffects
from dragoman.policy.labels import labels_of, with_labels
from dragoman.policy.plugin import Hook, Plugin, Violation
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
        try:
            self._trusted: tuple[UriPattern, ...] = tuple(map(uri_pattern, trusted))
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
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
            return not self._trusts_name(_tool_uri(view, step))
        return view.kind is ViewKind.PROMPT_RESULT

    def _trusts_name(self, uri: str) -> bool:
        return any(each.matches_name(uri) for each in self._trusted)

    def _is_harmless(self, view: MessageView, step: Step) -> bool:
        if view.name in self._effects:
            return self._effects[view.name] in HARMLESS
        described = step.extensions.mcp and step.extensions.mcp.tool
        if not described or described.name != view.name:
            return False
        effects: Any = described.annotations.get(_SIDE_EFFECTS)
        return effects in list(HARMLESS)


def _tool_uri(view: MessageView, step: Step) -> str:
    part = view.raw
    if isinstance(part, ProviderBlock):
        return f"tool://{part.provider}/{view.name or '_'}"
    called = step.calls.get(part.tool_use_id) if isinstance(part, ToolResultBlock) else None
    return f"tool://{(called and called.namespace) or '_'}/{view.name or '_'}"
