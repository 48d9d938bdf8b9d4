"""Renames tools whose names a provider refuses, and maps calls back (docs/reference/tool-ids.md#tool-names).

A made name depends on the tool's name alone, so it is the same in every process. Legal names are not changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from dragoman.adapter.facts.capabilities import ToolNameRule
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.options import AdapterOptions, NamedTool
from dragoman.adapter.requests.request_builder import Target
from dragoman.canonical.blocks import ContentBlock, ToolUseBlock
from dragoman.canonical.events import StreamEvent, ToolUseStart
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.tools.base import ServerTool


class ToolNames:
    """The made names of one request's tools, with their own names."""

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = own

    @property
    def own(self) -> Mapping[str, str]:
        """The tools' own names, by the made ones."""
        return self._own

    def translate(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        """Give each call in the events its tool's own name."""
        for event in events:
            if isinstance(event, ToolUseStart) and (own := self._own.get(event.tool_name)):
                yield replace(event, tool_name=own)
            else:
                yield event

    def translate_block(self, block: ContentBlock) -> ContentBlock:
        """Give a call its tool's own name."""
        if isinstance(block, ToolUseBlock) and (own := self._own.get(block.name)):
            return block.model_copy(update={"name": own})
        return block


def make_legal_names(tools: Iterable[ToolDefinition], rule: ToolNameRule, provider: str) -> dict[str, str]:
    """Return made names by own names, for the tools that need one. The provider's own tools keep theirs."""
    return {
        tool.name: rule.make_legal(tool.name)
        for tool in tools
        if not rule.accepts(tool.name)
        and not isinstance(tool, ServerTool)
        and (tool.provider_raw or {}).get("by") != provider
    }


def rename_tools(
    target: Target, tools: Sequence[ToolDefinition], options: AdapterOptions, losses: list[Loss]
) -> tuple[Sequence[ToolDefinition], AdapterOptions]:
    """Give each tool a name that the provider takes, and record it as a loss of form."""
    legal_names = make_legal_names(tools, target.capabilities.tool_name_rule, target.provider)
    if not legal_names:
        return tools, options
    for own, name in legal_names.items():
        reason = f"the tool {own} is offered under the name {name}, which the wire takes"
        losses.append(Loss(LossKind.TOOLS, "", -1, reason, Severity.INFO))
    if options.context is not None:
        options.context.tool_names = ToolNames({name: own for own, name in legal_names.items()})
    if isinstance(choice := options.tool_choice, NamedTool):
        options = replace(options, tool_choice=NamedTool(legal_names.get(choice.name, choice.name)))
    renamed_tools = [
        tool.model_copy(update={"name": legal_names[tool.name]}) if tool.name in legal_names else tool for tool in tools
    ]
    return renamed_tools, options
