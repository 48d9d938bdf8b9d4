"""Calls of functions that were not declared: the predefined actions of a provider's tool, run by one function.

A provider that controls a computer by ordinary calls (``click_at``, ``navigate`` …) does not name the tool, or names it
beside the action. Callers see a call of the tool, whose input has the name as ``action``.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from dragoman.adapter import wirejson
from dragoman.canonical.blocks import ContentBlock, ToolUseBlock
from dragoman.canonical.events import StreamEvent, ToolUseEnd, ToolUseInputDelta, ToolUseStart

ACTIONS_NOTE = "actions"
"""The name of the note in provider_raw: the ids of the calls that were translated."""
ACTION = "action"


class ActionCalls:
    """The tool of one request, and how its actions are known: every call of a name that is none of ``functions``, or,
    if that is None, the calls that the decoder marks."""

    def __init__(self, tool_name: str, functions: Collection[str] | None = None) -> None:
        self.tool_name = tool_name
        self._functions = None if functions is None else frozenset(functions)
        self._marked: set[str] = set()
        """The ids of the calls that are actions by the provider's own words."""
        self._actions: dict[str, str] = {}
        """The actions of a stream, by id of the call."""

    def mark(self, call_id: str) -> None:
        self._marked.add(call_id)

    def _is_action(self, call_id: str, name: str) -> bool:
        return call_id in self._marked if self._functions is None else name not in self._functions

    def note(self, content: Iterable[ContentBlock]) -> dict[str, list[str]]:
        """Return the note for provider_raw; empty if there are no actions."""
        calls = (block for block in content if isinstance(block, ToolUseBlock))
        ids = [call.id for call in calls if self._is_action(call.id, call.name)]
        return {ACTIONS_NOTE: ids} if ids else {}

    def translate(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        """Make each action a call of the tool. Its arguments come in one piece, at its end."""
        for event in events:
            match event:
                case ToolUseStart() if self._is_action(event.tool_use_id, event.tool_name):
                    self._actions[event.tool_use_id] = event.tool_name
                    yield replace(event, tool_name=self.tool_name)
                case ToolUseInputDelta() if event.tool_use_id in self._actions:
                    pass
                case ToolUseEnd() if (action := self._actions.get(event.tool_use_id)) is not None:
                    final = {ACTION: action, **event.final_input}
                    place = (event.message_id, event.content_block_index, event.tool_use_id)
                    yield ToolUseInputDelta(*place, wirejson.dumps_text(final))
                    yield ToolUseEnd(*place, final)
                case _:
                    yield event

    def translate_block(self, block: ContentBlock) -> ContentBlock:
        """Make an action a call of the tool."""
        if isinstance(block, ToolUseBlock) and self._is_action(block.id, block.name):
            return block.model_copy(update={"name": self.tool_name, "input": {ACTION: block.name, **block.input}})
        return block


def restore_action(block: ToolUseBlock) -> ToolUseBlock:
    """Return the provider's own call of an action."""
    arguments = dict(block.input)
    name = arguments.pop(ACTION, None)
    return block.model_copy(update={"name": name, "input": arguments}) if isinstance(name, str) else block
