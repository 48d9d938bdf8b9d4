"""An answer that came as the input of a tool, told as the text that it stands for (specification D5.2).

Where a model is held to a schema by being made to call one tool, callers see no call: its arguments are the answer,
in a message and in its stream alike.
"""

from collections.abc import Iterable, Iterator

from dragoman.adapter import wirejson
from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolUseBlock
from dragoman.canonical.events import StreamEvent, TextDelta, ToolUseEnd, ToolUseInputDelta, ToolUseStart

ANSWER_TOOL_NAME = "answer"
ANSWER_TOOL_DESCRIPTION = "Gives the answer."


class AnswerTool:
    """The tool of one request. A reply without such a call stays as it is."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def translate(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        """The events with text in place of the call; what was told is remembered for the message."""
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
        """The block, as text if it is the call."""
        if not (isinstance(block, ToolUseBlock) and block.name == ANSWER_TOOL_NAME):
            return block
        text = block.raw_input if block.raw_input is not None else wirejson.dumps_text(block.input)
        return TextBlock(text=self._texts.get(block.id) or text)
