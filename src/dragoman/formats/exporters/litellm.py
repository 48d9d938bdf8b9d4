"""LiteLLM's message lists: Chat Completions, with thinking in the fields that LiteLLM has for it."""

from collections.abc import Sequence
from functools import partial

from pydantic_core import to_json

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.formats.exporters.shared import (
    Entry,
    LibraryWriter,
    base64_of,
    data_url,
    media_type_of,
    plain_content,
    result_content,
    split_results,
)
from dragoman.formats.results import Conversion

_AUDIO_TYPES = ("audio/mpeg", "audio/wav")
"""The types that the formats are read as."""
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def to_litellm(messages: Sequence[Message]) -> Conversion[list[Entry]]:
    """Write a history for `litellm.completion`. Raises CriticalLossError if a critical block would be lost."""
    writer = _Writer(messages)
    return writer.write(writer.entries)


class _Writer(LibraryWriter):
    library, label = "litellm", "LiteLLM"

    def entries(self, message: Message) -> list[Entry]:
        self.check_message(message)
        self.leave_out_usage(message)
        if message.role is Role.ASSISTANT:
            return [self._reply(message)]
        results, others = split_results(message)
        entries: list[Entry] = []
        for index, block in results:
            self.leave_out_error(message, index, block)
            entries.append(self.tool_entry(block, result_content(block, partial(self._part, message, index))))
        if message.role is Role.TOOL and others:
            self.report_role(message, "user")
        parts = [part for index, block in others for part in self._part(message, index, block)]
        role = "user" if message.role is Role.TOOL else str(message.role)
        return [*entries, *([{"role": role, "content": plain_content(parts)}] if parts else [])]

    def _reply(self, message: Message) -> Entry:
        texts: list[str] = []
        thinking: list[Entry] = []
        calls: list[Entry] = []
        citations: list[Entry] = []
        for index, block in enumerate(message.content):
            match block:
                case TextBlock():
                    texts.append(block.text)
                    citations += [
                        cited | {"supported_text": block.text} for cited in self.citations(message, index, block)
                    ]  # fmt: skip
                case ThinkingBlock():
                    signed = {"signature": block.signature} if block.signature else {}
                    thinking.append({"type": "thinking", "thinking": block.text, **signed})
                case RedactedThinkingBlock():
                    thinking.append({"type": "redacted_thinking", "data": block.data})
                case ToolUseBlock():
                    arguments = to_json(dict(self.object_arguments(message, index, block))).decode()
                    function = {"name": block.name, "arguments": arguments}
                    calls.append({"id": block.id, "type": "function", "function": function})
                case ProviderBlock():
                    self.leave_out(message, index)
                case _ if isinstance(block, MEDIA_BLOCKS):
                    self.leave_out(message, index, f"{block.type} in a reply", kind=LossKind.MEDIA)
                case _:
                    texts += self.as_texts(message, index, block)
        if len(texts) > 1:
            reason = "a reply of LiteLLM has one text: the texts are joined"
            self.losses.add_info(message, -1, reason, LossKind.FLATTENED)
        entry: Entry = {"role": "assistant", "content": "".join(texts) if texts else None}
        if thinking:
            entry["thinking_blocks"] = thinking
            entry["reasoning_content"] = "".join(each.get("thinking", "") for each in thinking)
        entry |= {"tool_calls": calls} if calls else {}
        entry |= {"provider_specific_fields": {"citations": [citations]}} if citations else {}
        return entry

    def _part(self, message: Message, index: int, block: ContentBlock) -> list[Entry]:
        match block:
            case TextBlock():
                if block.citations:
                    self.leave_out(message, index, "citation in a prompt", kind=LossKind.CITATIONS)
                return [{"type": "text", "text": block.text}]
            case _ if isinstance(block, MEDIA_BLOCKS):
                return self._media(message, index, block)
            case _:
                return self.text_parts(message, index, block)

    def _media(self, message: Message, index: int, block: MediaBlock) -> list[Entry]:
        data, media_type = base64_of(block.source), media_type_of(block)
        self.check_medium(message, index, block, typed=("base64", "text"), url_type=False,
                          unknown=("context", "duration_ms", "transcript"))  # fmt: skip
        if isinstance(block, ImageBlock) and block.source.kind in ("base64", "url"):
            detail = {"detail": block.detail} if block.detail else {}
            return [{"type": "image_url", "image_url": {"url": data_url(block), **detail}}]
        if isinstance(block, AudioBlock) and data is not None and media_type in _AUDIO:
            word = _AUDIO[media_type]
            if media_type not in _AUDIO_TYPES:
                reason = f"the type of audio is written as its format {word}: another spelling of it is lost"
                self.losses.add_info(message, index, reason, LossKind.MEDIA)
            return [{"type": "input_audio", "input_audio": {"data": data, "format": word}}]
        if isinstance(block, DocumentBlock) and data is not None:
            named = {"filename": block.title} if block.title else {}
            return [{"type": "file", "file": {"file_data": data_url(block), **named}}]
        if isinstance(block, DocumentBlock) and block.source.kind == "file_id":
            return [{"type": "file", "file": {"file_id": block.source.data}}]
        self.leave_out(message, index, f"{block.type} with a {block.source.kind} source")
        return []
