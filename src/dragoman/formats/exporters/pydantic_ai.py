"""pydantic-ai's message history, as its `ModelMessagesTypeAdapter` validates it (version 2)."""

import re
from collections.abc import Sequence
from itertools import groupby

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    MediaBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, MessageStatus, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.exporters.shared import (
    Entry,
    LibraryWriter,
    base64_of,
    block_signature,
    media_type_of,
    result_content,
)
from dragoman.formats.reading.blocks import library_provider
from dragoman.formats.reading.fields import words_of
from dragoman.formats.results import Conversion

_FILE_OWNERS = re.compile("anthropic|openai|google(-gla|-cloud)?|bedrock|xai")
"""pydantic-ai's names of the providers that keep uploaded files: it accepts no others."""


def to_pydantic_ai(messages: Sequence[Message]) -> Conversion[list[Entry]]:
    """Write a history as requests and responses. Raises CriticalLossError if a critical block would be lost."""
    writer = _Writer(messages)
    written: list[Entry] = []
    for is_reply, messages_of_turn in groupby(writer.history, lambda message: message.role is Role.ASSISTANT):
        turn = list(messages_of_turn)
        written += map(writer.response, turn) if is_reply else [writer.request(turn)]
    return writer.finish([message for message in written if message["parts"]])


class _Writer(LibraryWriter):
    library, label = "pydantic-ai", "pydantic-ai"

    def request(self, messages: Sequence[Message]) -> Entry:
        parts = [part for message in messages for part in self._request_parts(message)]
        return {"kind": "request", "parts": parts, "timestamp": messages[0].created_at.isoformat()}

    def _request_parts(self, message: Message) -> list[Entry]:
        self.check_message(message)
        time = message.created_at.isoformat()
        parts: list[Entry] = []
        prompt: list[str | Entry] = []
        for index, block in enumerate(message.content):
            if isinstance(block, ToolResultBlock):
                parts.append({**self._result(message, index, block), "timestamp": time})
            elif message.role in (Role.SYSTEM, Role.DEVELOPER):
                texts = [block.text] if isinstance(block, TextBlock) else self.as_texts(message, index, block)
                parts += [{"part_kind": "system-prompt", "content": text, "timestamp": time} for text in texts]
            else:
                prompt += self._content(message, index, block)
        if message.role is Role.DEVELOPER:
            self.report_role(message, "system")
        if prompt:
            content = prompt[0] if len(prompt) == 1 and isinstance(prompt[0], str) else prompt
            parts.append({"part_kind": "user-prompt", "content": content, "timestamp": time})
        return parts

    def _result(self, message: Message, index: int, block: ToolResultBlock) -> Entry:
        content = result_content(block, lambda part: self._content(message, index, part))
        if not isinstance(content, str) and all(isinstance(item, str) for item in content):
            reason = "several texts of a result are a list, which is read again as one text of JSON"
            self.losses.add_info(message, index, reason, LossKind.FLATTENED)
        return {
            "part_kind": "tool-return",
            "tool_name": self.names.get(block.tool_use_id, "unknown"),
            "content": content,
            "tool_call_id": block.tool_use_id,
            "outcome": "failed" if block.is_error else "success",
        }

    def _content(self, message: Message, index: int, block: ContentBlock) -> list[str | Entry]:
        """Return a block of a prompt or of a result."""
        if isinstance(block, TextBlock):
            if block.citations:
                self.leave_out(message, index, "citation in a prompt", kind=LossKind.CITATIONS)
            return [block.text]
        if isinstance(block, MEDIA_BLOCKS):
            written = self._media(message, index, block)
            return [written] if written is not None else []
        if isinstance(block, ProviderBlock) and block.provider == self.library and "kind" in block.data:
            return [dict(block.data)]
        return [*self.as_texts(message, index, block)]

    def _media(self, message: Message, index: int, block: MediaBlock) -> Entry | None:
        self.check_medium(message, index, block, typed=("base64", "text", "file_id"), owner=True,
                          unknown=("title", "context", "duration_ms", "transcript"))  # fmt: skip
        detail = getattr(block, "detail", None)
        noted = {"vendor_metadata": {"detail": detail}} if detail else {}
        if (data := base64_of(block.source)) is not None:
            urlsafe = data.replace("+", "-").replace("/", "_")
            return {"kind": "binary", "data": urlsafe, "media_type": media_type_of(block), **noted}
        if block.source.kind == "url":
            named = {"media_type": block.media_type} if block.media_type else {}
            return {"kind": f"{block.type}-url", "url": block.source.data, **named, **noted}
        owner = library_provider(self.library, block.source.provider) if block.source.provider is not None else ""
        if block.source.kind == "file_id" and _FILE_OWNERS.fullmatch(owner):
            return {"kind": "uploaded-file", "file_id": block.source.data, "provider_name": owner,
                    "media_type": media_type_of(block), **noted}  # fmt: skip
        self.leave_out(message, index, f"{block.type} with a {block.source.kind} source")
        return None

    def response(self, message: Message) -> Entry:
        self.check_message(message)
        provider, model = self.model(message)
        parts = [
            part for index, block in enumerate(message.content) for part in self._part(message, index, block, provider)
        ]
        reason = message.metadata.stop_reason
        written: Entry = {"kind": "response", "parts": parts, "timestamp": message.created_at.isoformat()}
        optional: Entry = {
            "model_name": model,
            "provider_name": provider,
            "finish_reason": words_of(self.library).written_stops.get(reason) if reason else None,
            "usage": _usage(message.usage) if message.usage else None,
            "state": "interrupted" if message.metadata.status is MessageStatus.PARTIAL else None,
        }
        return written | {name: value for name, value in optional.items() if value is not None}

    def _part(self, message: Message, index: int, block: ContentBlock, provider: str | None) -> list[Entry]:
        match block:
            case TextBlock():
                cited = self._citations(message, index, block)
                return [{"part_kind": "text", "content": block.text, **({"citations": cited} if cited else {})}]
            case ThinkingBlock():
                signed = {"signature": block.signature, "provider_name": provider} if block.signature else {}
                return [{"part_kind": "thinking", "content": block.text, **signed}]
            case RedactedThinkingBlock():
                return [{"part_kind": "thinking", "content": "", "id": "redacted_thinking", "signature": block.data,
                         "provider_name": provider}]  # fmt: skip
            case ToolUseBlock():
                arguments = block.input if block.raw_input is None else block.raw_input
                call = {"part_kind": "tool-call", "tool_name": block.name, "args": arguments, "tool_call_id": block.id}
                signature = block_signature(message, index)
                details = {"provider_name": provider, "provider_details": {"thought_signature": signature}}
                return [call | details if signature else call]
            case _ if isinstance(block, MEDIA_BLOCKS):
                media = self._media(message, index, block)
                if media is not None and media["kind"] == "binary":
                    return [{"part_kind": "file", "content": media}]
                if media is not None:
                    self.leave_out(message, index, f"{block.type} by reference in a reply", kind=LossKind.MEDIA)
                return []
            case ProviderBlock(provider=self.library) if "part_kind" in block.data:
                return [dict(block.data)]
            case _:
                texts = self.as_texts(message, index, block)
                return [{"part_kind": "text", "content": text} for text in texts]

    def _citations(self, message: Message, index: int, block: TextBlock) -> list[Entry]:
        written: list[Entry] = []
        for citation in block.citations:
            if citation.url is None:
                self.leave_out(message, index, "citation without a URL", kind=LossKind.CITATIONS)
                continue
            if citation.kind != "web":
                reason = f"pydantic-ai has no citations of the kind {citation.kind[:40]!r}: written as web"
                self.losses.add_info(message, index, reason, LossKind.CITATIONS)
            excerpts = [citation.cited_text] if citation.cited_text else []
            source = {"kind": "web", "url": citation.url, "title": citation.title, "excerpts": excerpts}
            anchored = citation.start is not None and citation.end is not None
            anchor = {"kind": "content", "start": citation.start, "end": citation.end}
            written.append({"sources": [source], **({"anchor": anchor} if anchored else {})})
        if any(citation.data is not None for citation in block.citations):
            self.leave_out(message, index, "provider's own form of a citation", kind=LossKind.CITATIONS)
        return written


def _usage(usage: Usage) -> Entry:
    counts = {
        "input_tokens": usage.prompt_tokens,
        "cache_read_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_creation_input_tokens,
        "cache_write_1h_tokens": usage.cache_creation_1h_input_tokens,
        "output_tokens": usage.output_tokens,
        "output_reasoning_tokens": usage.reasoning_tokens,
        "output_audio_tokens": usage.audio_output_tokens,
        "input_audio_tokens": (usage.audio_input_tokens or 0) + (usage.cached_audio_input_tokens or 0) or None,
        "cache_audio_read_tokens": usage.cached_audio_input_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}
