"""One row of a data set: a line with ``messages``, as chat templates take them (arguments are objects), or as OpenAI's
files for fine-tuning have them.
"""

from collections.abc import Sequence

from pydantic_core import to_json

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import ContentBlock, ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats.exporters.shared import Entry, LibraryWriter, base64_of, split_results
from dragoman.formats.native import to_native
from dragoman.formats.results import Conversion


def to_openai_finetuning(messages: Sequence[Message]) -> Conversion[str]:
    """Write a history as one line of JSON lines; the definitions of its tools, and weights, are the caller's to add.

    The losses are those of a list of Chat Completions. Raises CriticalLossError if a critical block would be lost.
    """
    written = to_native("openai-chat", messages)
    return Conversion(to_json({"messages": written.data}).decode() + "\n", written.losses, written.labels)


def to_hugging_face(messages: Sequence[Message]) -> Conversion[str]:
    """Write a history as one line of JSON lines. Raises CriticalLossError if a critical block would be lost."""
    writer = _Writer(messages)
    written = writer.write(writer.entries)
    return Conversion(to_json({"messages": written.data}).decode() + "\n", written.losses, written.labels)


class _Writer(LibraryWriter):
    library, label = "hf", "a chat data set"

    def entries(self, message: Message) -> list[Entry]:
        self.check_message(message)
        self.leave_out_usage(message)
        results, others = split_results(message)
        entries: list[Entry] = []
        for index, block in results:
            self.leave_out_error(message, index, block)
            answer = [part for each in block.content for part in self._part(message, index, each)]
            entries.append(self.tool_entry(block, _content(answer)))
        if message.role is Role.TOOL and others:
            self.report_role(message, "user")
        if not others:
            return entries
        entry: Entry = {"role": "user" if message.role is Role.TOOL else str(message.role)}
        parts = [part for index, block in others for part in self._part(message, index, block)]
        entry["content"] = _content(parts)
        thinking = [block.text for _, block in others if isinstance(block, ThinkingBlock)]
        if any(thinking):
            entry["reasoning_content"] = "\n\n".join(thinking)
        for index, call in others:
            if isinstance(call, ToolUseBlock):
                function = {"name": call.name, "arguments": self.object_arguments(message, index, call)}
                entry.setdefault("tool_calls", []).append({"id": call.id, "type": "function", "function": function})
        return [*entries, entry]

    def _part(self, message: Message, index: int, block: ContentBlock) -> list[Entry]:
        match block:
            case TextBlock():
                if block.citations:
                    self.leave_out(message, index, "citation", kind=LossKind.CITATIONS)
                return [{"type": "text", "text": block.text}]
            case ThinkingBlock():
                if block.signature is not None:
                    self.leave_out(message, index, "signature", kind=LossKind.THINKING)
                return []
            case ToolUseBlock():
                return []
            case ImageBlock() if (data := base64_of(block.source)) is not None or block.source.kind == "url":
                if block.media_type is not None or block.detail is not None:
                    self.leave_out(message, index, "type or detail of an image", kind=LossKind.MEDIA)
                return [{"type": "image", **({"url": block.source.data} if data is None else {"base64": data})}]
            case _:
                return self.text_parts(message, index, block)


def _content(parts: list[Entry]) -> str | list[Entry]:
    """Return texts alone as one text, which every template takes."""
    if len(parts) > 1 or any(part["type"] != "text" for part in parts):
        return parts
    return "".join(str(part["text"]) for part in parts)
