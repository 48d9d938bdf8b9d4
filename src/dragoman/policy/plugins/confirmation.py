"""Asks for confirmation before a tool with side effects runs."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.message_view.kinds import ViewKind
from dragoman.canonical.message_view.view import MessageView
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.policy.plugin import CheckResult, Hook, Plugin, Violation
from dragoman.policy.step import Step

HARMLESS = frozenset({SideEffects.NONE, SideEffects.READ})

_DECLINED = Violation("the call was not confirmed", code="not_confirmed")


class Confirmation(Plugin):
    """Asks before a tool with side effects runs. ``ask`` gets each call of a tool with side effects, as a
    `MessageView`, and returns whether it may run.

    ``tools`` are the known tools: their definitions, or their side effects by name. An unknown tool counts as having
    side effects. ``harmless`` are the side effects that need no confirmation. With ``trust_hints``, the
    ``readOnlyHint`` of MCP servers is accepted as well, which servers can set as they like.

    An ``ask`` that is a coroutine function needs an AsyncSession. If it fails, the call does not run.
    """

    name = "confirmation"
    hooks: Iterable[Hook | str] = (Hook.TOOL_PRE_INVOKE,)

    def __init__(
        self,
        ask: Callable[[MessageView], bool | Awaitable[bool]],
        tools: Iterable[ToolDefinition] | Mapping[str, SideEffects | str] = (),
        *,
        harmless: Iterable[SideEffects | str] = HARMLESS,
        trust_hints: bool = False,
    ) -> None:
        """Raises ConfigurationError if ``ask`` is not callable, or if the tools or side effects are not of the given
        types.
        """
        if not callable(ask):
            raise ConfigurationError(f"ask must be a function, not a {type(ask).__name__}")
        known = dict(tools) if isinstance(tools, Mapping) else {}
        for tool in () if isinstance(tools, Mapping) else tools:
            if not isinstance(tool, ToolDefinition):
                type_name = type(tool).__name__
                raise ConfigurationError(f"tools must be definitions, or side effects by name, not a {type_name}")
            known[tool.name] = tool.side_effects
        self._effects = {name: parse_effects(effects) for name, effects in known.items()}
        self._harmless = frozenset(map(parse_effects, (harmless,) if isinstance(harmless, str) else harmless))
        self._ask = ask
        self._trust_hints = trust_hints
        if inspect.iscoroutinefunction(ask):
            self.check = self._check_async  # type: ignore[method-assign]

    def check(self, step: Step) -> CheckResult | Awaitable[CheckResult]:
        for view in self._calls_to_confirm(step):
            if self._ask(view) is not True:
                return _DECLINED
        return None

    async def _check_async(self, step: Step) -> CheckResult:
        for view in self._calls_to_confirm(step):
            allowed = self._ask(view)
            if (await allowed if inspect.isawaitable(allowed) else allowed) is not True:
                return _DECLINED
        return None

    def _calls_to_confirm(self, step: Step) -> list[MessageView]:
        calls = (view for view in step.views() if view.kind is ViewKind.TOOL_CALL)
        return [view for view in calls if not self._is_harmless(view, step)]

    def _is_harmless(self, view: MessageView, step: Step) -> bool:
        if view.name in self._effects:
            return self._effects[view.name] in self._harmless
        described = step.extensions.mcp and step.extensions.mcp.tool
        if not (self._trust_hints and described and described.name == view.name):
            return False
        return described.annotations.get("readOnlyHint") is True and SideEffects.READ in self._harmless


def parse_effects(name: SideEffects | str) -> SideEffects:
    """Raises ConfigurationError if there is no such side effect."""
    try:
        return SideEffects(name)
    except ValueError:
        raise ConfigurationError(f"{name!r:.80} is not a side effect: use one of {', '.join(SideEffects)}") from None
