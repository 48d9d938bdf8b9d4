"""Names of tools that a wire refuses: sent under another one, and read back under their own (wire reference 8.1).

A made name is the same in every process, as it depends on the name alone; names that are legal stay as they are.
"""

from collections.abc import Iterable, Iterator, Mapping

from dragoman.adapter.facts.capabilities import ToolNameRule
from dragoman.canonical.blocks import ContentBlock, ToolUseBlock
from dragoman.canonical.events import StreamEvent, ToolUseStart
from dragoman.canonical.tools import ToolDefinition


class ToolNames:
    """The made names of one request's tools, and whose they are."""

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = own

    @property
    def own(self) -> Mapping[str, str]:
        """The tools' own names, by the made ones."""
        return self._own

    def translate(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        """The events with each call under the name that its tool has here."""
        for event in events:
            if isinstance(event, ToolUseStart) and (own := self._own.get(event.tool_name)):
                yield ToolUseStart(event.message_id, event.content_block_index, event.tool_use_id, own)
            else:
                yield event

    def translate_block(self, block: ContentBlock) -> ContentBlock:
        """The block, as a call of the tool that it means."""
        if isinstance(block, ToolUseBlock) and (own := self._own.get(block.name)):
            return block.model_copy(update={"name": own})
        return block


def make_legal_names(tools: Iterable[ToolDefinition], rule: ToolNameRule, provider: str) -> dict[str, str]:
    """Made names by the own ones, of the tools that need any. Tools of the provider's own are named by it."""
    names = (tool.name for tool in tools if (tool.provider_raw or {}).get("by") != provider)
    return {name: rule.make_legal(name) for name in names if not rule.accepts(name)}
