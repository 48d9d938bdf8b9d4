"""The answer tool: its input is the answer, and callers see it as text (docs/reference/contract.md#capabilities).

Some models obey a schema only as the input of a tool. They are made to call one tool; its arguments become the text
of the message, in streams as well.
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
