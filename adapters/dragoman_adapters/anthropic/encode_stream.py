"""Encodes streamed replies for clients of the Messages API (docs/answers.md)."""

from collections.abc import Container
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.answers.error_writer import find_request_id
from dragoman.adapter.answers.reply_writer import CALL, TEXT, THINKING, ReplyWriter
from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import Citation, ContentBlock, RedactedThinkingBlock
from dragoman.canonical.message import Message
from dragoman_adapters.anthropic import encode, encode_reply

_BLOCKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    TEXT: ("text_delta", "text", {"type": "text", "text": ""}),
    THINKING: ("thinking_delta", "thinking", {"type": "thinking", "thinking": "", "signature": ""}),
    CALL: ("input_json_delta", "partial_json", {"type": "tool_use", "input": {}}),
}
"""The type and the field of the deltas of a block, and how it starts."""


class MessagesStreamEncoder(ReplyStreamEncoder):
    """Writes one block after the other, each with the next index.

    ``message_start`` needs counts: those that the provider sent at its start, else the context's estimate, else 0. The
    counts of ``message_delta`` are those of the provider.
    """

    state_first: ClassVar[bool] = True
    calls_wait: ClassVar[bool] = True

    def __init__(self, writer: ReplyWriter) -> None:
        super().__init__(writer)
        self._position = 0
        self._has_calls = False
        self._head = self._tail = b""

    def begin(self) -> bytes:
        usage = encode_reply.encode_usage(self.usage, is_own=self.writer.is_own)
        if self.usage is None:
            usage["input_tokens"] = self.writer.context.estimated_input_tokens or 0
        message: dict[str, Any] = {
            "id": self.writer.new_id(encode_reply.MESSAGE_PREFIX),
            "type": "message",
            "role": "assistant",
            "model": self.writer.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return _event("message_start", {"message": message})

    def open_block(self, kind: str, tool_use_id: str, name: str) -> bytes:
        delta_type, field, block = _BLOCKS[kind]
        if kind == CALL:
            self._has_calls = True
            block = {**block, "id": self.writer.tool_id(encode_reply.TOOL_PREFIX, tool_use_id), "name": name}
        start = f'{{"type":"content_block_delta","index":{self._position},"delta":{{"type":"{delta_type}","{field}":'
        self._head, self._tail = b"event: content_block_delta\ndata: " + start.encode(), b"}}\n\n"
        return _event("content_block_start", {"index": self._position, "content_block": block})

    def delta(self, text: str) -> bytes:
        return self._head + wirejson.dumps(text) + self._tail

    def close_block(self, kind: str, index: int, content: str, signature: str | None) -> bytes:
        written = b""
        if kind == THINKING:
            sealed = signature if self.writer.is_own else self.writer.state.seal_thinking(index, content, signature)
            if sealed:
                written = self._delta({"type": "signature_delta", "signature": sealed})
        elif kind == CALL and wirejson.parse_arguments(content)[1] is not None:
            reason = "arguments that are not a JSON object: some clients read them as none"
            self.writer.record_loss(LossKind.INVALID_INPUT, reason, index=index, block=CALL)
        return written + self._stop()

    def _stop(self) -> bytes:
        stopped = _event("content_block_stop", {"index": self._position})
        self._position += 1
        return stopped

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", {"index": self._position, "delta": delta})

    def write_citations(self, index: int, citations: tuple[Citation, ...]) -> bytes:
        if self.writer.is_own:
            encoded = [source.data for source in citations if source.data]
        else:
            encoded = encode_reply.encode_citations(citations, index, self.writer)
        return b"".join(self._delta({"type": "citations_delta", "citation": each}) for each in encoded)

    def write_other(self, index: int, block: ContentBlock, message: Message) -> bytes:
        if self.writer.is_native(block) and isinstance(block, encode_reply.NATIVE_BLOCKS):
            return self._whole(encode.encode_block(block, str))
        if isinstance(block, RedactedThinkingBlock):
            return self.write_redacted(index, block)
        self.writer.record_unsupported(index, block, encode_reply.PLACE)
        return b""

    def write_redacted(self, index: int, block: RedactedThinkingBlock) -> bytes:
        encoded = encode_reply.encode_redacted(block, index, self.writer)
        return b"" if encoded is None else self._whole(encoded)

    def write_state(self, message: Message, shown: Container[int]) -> bytes:
        envelope = self.writer.state.seal_rest(message, shown)
        return b"" if envelope is None else self._whole(encode_reply.sealed_block(envelope))

    def _whole(self, encoded: dict[str, Any]) -> bytes:
        return _event("content_block_start", {"index": self._position, "content_block": encoded}) + self._stop()

    def end(self, message: Message) -> bytes:
        raw = self.writer.own_raw(message)
        self.writer.record_usage_losses(self.usage, *encode_reply.UNCOUNTED)
        stop_reason = self.writer.stop_reason(message, has_calls=self._has_calls)
        delta = {
            "stop_reason": encode_reply.stop_word(stop_reason, raw),
            "stop_sequence": raw.get("stop_sequence"),
            **{name: raw[name] for name in ("stop_details", "container") if raw.get(name)},
        }
        usage = encode_reply.encode_usage(self.usage, is_own=self.writer.is_own)
        return _event("message_delta", {"delta": delta, "usage": usage}) + _event("message_stop", {})

    def write_error(self, error: DragomanError) -> bytes:
        request_id = find_request_id(error, self.writer.context)
        body = encode_reply.error_body(error, request_id, self.writer.provider)
        return b"event: error\ndata: " + wirejson.dumps(body) + b"\n\n"


def _event(name: str, fields: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + wirejson.dumps({"type": name, **fields}) + b"\n\n"
