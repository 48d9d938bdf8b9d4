"""Calls whose functions nobody declared: the predefined actions of a provider's tool, run by one function.

A provider that controls a computer by ordinary calls (``click_at``, ``navigate`` …) does not name the tool. Callers see
a call of the tool, whose input has the name as ``action``.
"""

from collections.abc import Collection, Iterable, Iterator

from dragoman.adapter import wirejson
from dragoman.canonical.blocks import ContentBlock, ToolUseBlock
from dragoman.canonical.events import StreamEvent, ToolUseEnd, ToolUseInputDelta, ToolUseStart

ACTIONS_NOTE = "actions"
"""The name of the note in provider_raw: the ids of the calls that were translated."""
ACTION = "action"


class ActionCalls:
    """The tool of one request, and the functions that were declared next to it."""

    def __init__(self, tool_name: str, functions: Collection[str]) -> None:
        self.tool_name = tool_name
        self._functions = frozenset(functions)
        self._actions: dict[str, str] = {}
        """The actions of a stream, by id of the call."""

    def note(self, content: Iterable[ContentBlock]) -> dict[str, list[str]]:
        """Return the note for provider_raw; empty if there are no actions."""
        calls = (block for block in content if isinstance(block, ToolUseBlock))
        ids = [call.id for call in calls if call.name not in self._functions]
        return {ACTIONS_NOTE: ids} if ids else {}

    def translate(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        """Make each action a call of the tool. Its arguments arrive whole."""
        for event in events:
            match event:
                case ToolUseStart() if event.tool_name not in self._functions:
                    self._actions[event.tool_use_id] = event.tool_name
                    yield ToolUseStart(event.message_id, event.content_block_index, event.tool_use_id, self.tool_name)
                case ToolUseInputDelta() if (action := self._actions.get(event.tool_use_id)) is not None:
                    arguments, malformed = wirejson.parse_arguments(event.partial_json)
                    text = malformed or wirejson.dumps_text({ACTION: action, **arguments})
                    yield ToolUseInputDelta(event.message_id, event.content_block_index, event.tool_use_id, text)
                case ToolUseEnd() if (action := self._actions.get(event.tool_use_id)) is not None:
                    final = {ACTION: action, **event.final_input}
                    yield ToolUseEnd(event.message_id, event.content_block_index, event.tool_use_id, final)
                case _:
                    yield event

    def translate_block(self, block: ContentBlock) -> ContentBlock:
        """Make an action a call of the tool."""
        if isinstance(block, ToolUseBlock) and block.name not in self._functions:
            return block.model_copy(update={"name": self.tool_name, "input": {ACTION: block.name, **block.input}})
        return block


def restore_action(block: ToolUseBlock) -> ToolUseBlock:
    """Return the provider's own call of an action."""
    arguments = dict(block.input)
    name = arguments.pop(ACTION, None)
    return block.model_copy(update={"name": name, "input": arguments}) if isinstance(name, str) else block
