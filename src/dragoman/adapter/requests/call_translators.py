"""Calls that a request offers, or a provider makes, in another form than the program sees, and their way back.

The answer tool: its input is the answer, and callers see it as text (docs/reference/contract.md#capabilities). Some
models obey a schema only as the input of a tool. They are made to call one tool; its arguments become the text of the
message, in streams as well.

Tool names: tools whose names a provider refuses are renamed (docs/reference/tool-ids.md#tool-names). A made name
depends on the tool's name alone, so it is the same in every process. Legal names are not changed.

Action calls: calls of functions that were not declared are the predefined actions of a provider's tool, run by one
function. A provider that controls a computer by ordinary calls (``click_at``, ``navigate`` …) does not name the tool,
or names it beside the action. Callers see a call of the tool, whose input has the name as ``action``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dragoman.adapter import wirejson
from dragoman.adapter.requests.block_fields import ACTIONS_NOTE
from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolUseBlock
from dragoman.canonical.events import StreamEvent, TextDelta, ToolUseEnd, ToolUseInputDelta, ToolUseStart

ANSWER_TOOL_NAME = "answer"
ANSWER_TOOL_DESCRIPTION = "Gives the answer."


class AnswerTool:
    """The tool of one request. A reply without such a call stays as it is."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def translate(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        """Replace the call with text in the events, and remember which call it was for the message."""
        for event in events:
            match event:
                case ToolUseStart(tool_name=name, tool_use_id=call) if name == ANSWER_TOOL_NAME:
                    self._texts[call] = ""
                case ToolUseInputDelta(tool_use_id=call) if call in self._texts:
                    self._texts[call] += event.partial_json
                    yield TextDelta(event.message_id, event.content_block_index, event.partial_json)
                case ToolUseEnd(tool_use_id=call) if call in self._texts:
                    if not self._texts[call]:
                        self._texts[call] = wirejson.dumps_text(event.final_input)
                        yield TextDelta(event.message_id, event.content_block_index, self._texts[call])
                case _:
                    yield event

    def translate_block(self, block: ContentBlock) -> ContentBlock:
        """Return the block as text if it is the call."""
        if not (isinstance(block, ToolUseBlock) and block.name == ANSWER_TOOL_NAME):
            return block
        text = block.raw_input if block.raw_input is not None else wirejson.dumps_text(block.input)
        return TextBlock(text=self._texts.get(block.id) or text)


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The made names of one request's tools, with their ``own`` names by the made ones."""

    own: Mapping[str, str]

    def translate(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        """Give each call in the events its tool's own name."""
        for event in events:
            if isinstance(event, ToolUseStart) and (own := self.own.get(event.tool_name)):
                yield replace(event, tool_name=own)
            else:
                yield event

    def translate_block(self, block: ContentBlock) -> ContentBlock:
        """Give a call its tool's own name."""
        if isinstance(block, ToolUseBlock) and (own := self.own.get(block.name)):
            return block.model_copy(update={"name": own})
        return block


ACTION = "action"


class ActionCalls:
    """The tool of one request, and how its actions are known: every call of a name that is none of ``functions``, or,
    if that is None, the calls that the decoder marks."""

    def __init__(self, tool_name: str, functions: Collection[str] | None = None) -> None:
        self.tool_name = tool_name
        self._functions = None if functions is None else frozenset(functions)
        self._marked: set[str] = set()
        """The ids of the calls that the decoder has marked."""
        self._actions: dict[str, str] = {}
        """The actions of a stream, by id of the call."""

    def mark(self, call_id: str) -> None:
        """Note that a call is an action, by the provider's own words."""
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
