"""A request while it is written: projected turns, the ids to use, and the losses so far. Every adapter starts here."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.losses import Loss, LossKind, Severity, log_losses
from dragoman.adapter.projection import Target, project, refuse_critical
from dragoman.adapter.turns import MADE, Turn
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.blocks import TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition


@dataclass(slots=True)
class Outgoing:
    adapter: Adapter
    options: AdapterOptions
    context: RequestContext
    turns: tuple[Turn, ...]
    losses: list[Loss]

    @classmethod
    def begin(
        cls, adapter: Adapter, messages: Sequence[Message], options: AdapterOptions, *, server_state: bool = False
    ) -> "Outgoing":
        """Projects the history. Raises CriticalLossError where a critical block would be lost."""
        context = options.context or RequestContext(model=str(adapter.model_id))
        for message in messages:
            _learn_ids(message, adapter.provider, context)
        target = Target(adapter.provider, adapter.model, adapter.capabilities, server_state)
        projection = project(messages, target)
        return cls(adapter, options, context, projection.turns, list(projection.losses))

    @property
    def provider(self) -> str:
        return self.adapter.provider

    def tool_id(self, key: str) -> str:
        """The provider's id for a call."""
        return self.context.tool_ids.send(key, self.provider, self.adapter.capabilities.tool_id_rule)

    def restored(self, turn: Turn, index: int, encoded: Mapping[str, Any]) -> dict[str, Any]:
        """A block's encoding with what the provider's own block held beyond it."""
        return turn.restored(index, encoded, self.provider)

    def usable(self, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
        """The tools that this provider can be told of: tools that only another provider runs are losses."""
        kept: list[ToolDefinition] = []
        for tool in tools:
            raw = tool.provider_raw or {}
            if "native" in raw and raw.get("by") != self.provider:
                self.lose(LossKind.TOOLS, f"the tool {tool.name} runs at {raw.get('by')} only")
            elif not self.adapter.capabilities.supports_tools:
                self.lose(LossKind.TOOLS, f"{self.adapter.model} calls no tools: {tool.name} left out")
            else:
                kept.append(tool)
        return kept

    def lose_block(
        self, turn: Turn, index: int, kind: LossKind, reason: str, severity: Severity = Severity.WARNING
    ) -> None:
        """Notes a block that the wire cannot carry after all. Raises CriticalLossError where it is marked critical."""
        loss = Loss(kind, turn.message.id, turn.origins[index], reason, severity, turn.blocks[index].type)
        refuse_critical([turn.message], [loss])
        self.losses.append(loss)

    def lose_details(self, turn: Turn, index: int, *lacking: Literal["citations", "arguments", "errors"]) -> None:
        """Notes what a block says besides its content, where the wire lacks a place for it."""
        match turn.blocks[index]:
            case TextBlock(citations=cited) if cited and "citations" in lacking:
                self.lose_block(turn, index, LossKind.CITATIONS, "the sources of a text are not sent")
            case ToolUseBlock(raw_input=raw) if raw is not None and "arguments" in lacking:
                self.lose_block(turn, index, LossKind.INVALID_INPUT, "arguments that are no JSON object: left out")
            case ToolResultBlock(is_error=True) if "errors" in lacking and turn.origins[index] != MADE:
                reason = "the wire has no flag for a failed tool: its answer must say so itself"
                self.lose_block(turn, index, LossKind.FLATTENED, reason, Severity.INFO)
            case _:
                pass

    def lose(self, kind: LossKind, reason: str, severity: Severity = Severity.WARNING) -> None:
        """Notes a loss of the request as a whole."""
        self.losses.append(Loss(kind, "", -1, reason, severity))

    def lose_option(self, name: str, reason: str) -> None:
        """Notes an option that this model does not take."""
        self.lose(LossKind.OPTION, f"{name}: {reason}")

    def overrule(self, *names: str) -> None:
        """Leaves out fields of the caller's own that would now hide what the conversation or an option says."""
        own = self.options.extra.get(self.provider, {})
        kept = {name: value for name, value in own.items() if name not in names}
        self.options = replace(self.options, extra={**self.options.extra, self.provider: kept})

    def wire(
        self,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        *,
        merged: Collection[str] = (),
    ) -> WireRequest:
        """The finished request: the caller's own fields for this provider are laid over the body.

        ``merged`` names fields whose objects are laid over ours field by field, at any depth; a null of the caller's
        yields to what stands there.
        """
        laid_over = _laid_over(body, self.options.extra.get(self.provider, {}), merged)
        losses = tuple(self.losses)
        log_losses(losses, session_id=self.context.session_id, adapter=self.provider)
        return WireRequest(
            method="POST",
            path=path,
            body=wirejson.dumps(laid_over),
            headers={"content-type": "application/json", **(headers or {}), **self.options.headers},
            stream=self.options.stream,
            losses=losses,
        )


def _laid_over(body: Mapping[str, Any], own: Mapping[str, Any], merged: Collection[str]) -> dict[str, Any]:
    """The body with the caller's own fields; one whose value is ``...`` is left out."""
    laid = dict(body)
    for name, value in own.items():
        standing = laid.get(name)
        if name in merged and isinstance(value, Mapping):
            laid[name] = _laid_over(standing if isinstance(standing, Mapping) else {}, value, merged)
        elif not (name in merged and value is None and standing is not None):
            laid[name] = value
    return {name: value for name, value in laid.items() if value is not ...}


def _learn_ids(message: Message, provider: str, context: RequestContext) -> None:
    raw = message.metadata.provider_raw
    if raw and raw.get("by") == provider:
        for canonical, native in raw.get("tool_ids", {}).items():
            context.tool_ids.remember(canonical, provider, native)
