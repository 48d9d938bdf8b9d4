"""Renames tools whose names a provider refuses, and maps calls back (docs/reference/tool-ids.md#tool-names).

A made name depends on the tool's name alone, so it is the same in every process. Legal names are not changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from dragoman.adapter.facts.capabilities import ToolNameRule
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
