"""Encodes streamed replies for clients of Ollama's chat (docs/answers.md)."""

from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.answers.reply_writer import CALL, THINKING, ReplyWriter
from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
from dragoman.adapter.errors import DragomanError
from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.message import Message
from dragoman_adapters.ollama import encode_reply


class OllamaStreamEncoder(ReplyStreamEncoder):
    """Writes a line for each delta. A call is whole in one line, so it waits for its arguments."""

    media_type: ClassVar[str] = "application/x-ndjson"
    ordered: ClassVar[bool] = False

    def __init__(self, writer: ReplyWriter) -> None:
        super().__init__(writer)
        self._line_start = self._head = self._tail = b""
        self._is_call = False
        self._open_call: tuple[str, str] = ("", "")

    def begin(self) -> bytes:
        named = {
            "model": self.writer.model,
            "created_at": encode_reply.format_time(self.writer.context.clock()),
        }
        self._line_start = wirejson.dumps(named)[:-1]
        return b""

    def open_block(self, kind: str, tool_use_id: str, name: str) -> bytes:
        self._is_call = kind == CALL
        if self._is_call:
            self._open_call = (self.writer.tool_id(encode_reply.TOOL_PREFIX, tool_use_id), name)
            return b""
        field = b'"content":"","thinking":' if kind == THINKING else b'"content":'
        self._head = self._line_start + b',"message":{"role":"assistant",' + field
        self._tail = b'},"done":false}\n'
        return b""

    def _line(self, fields: dict[str, Any]) -> bytes:
        message = {"role": "assistant", "content": "", **fields}
        return self._line_start + b',"message":' + wirejson.dumps(message) + b',"done":false}\n'

    def delta(self, text: str) -> bytes:
        return b"" if self._is_call else self._head + wirejson.dumps(text) + self._tail

    def close_block(self, kind: str, index: int, content: str, signature: str | None) -> bytes:
        if kind != CALL:
            return b""
        if (arguments := self.read_call(index, content)) is None:
            return b""
        return self._line({"tool_calls": [encode_reply.tool_call(*self._open_call, arguments)]})

    def write_other(self, index: int, block: ContentBlock, message: Message) -> bytes:
        fields = encode_reply.encode_block(block, index, message, self.writer)
        return self._line(fields) if fields else b""

    def end(self, message: Message) -> bytes:
        if not self.writer.is_own:
            encode_reply.record_order_losses(message, self.writer)
            self.writer.store_state(encode_reply.TOOL_PREFIX, message)
        fields = {
            "message": {"role": "assistant", "content": ""},
            **encode_reply.encode_end(message.stop_reason, self.usage, self.writer),
        }
        return self._line_start + b"," + wirejson.dumps(fields)[1:] + b"\n"

    def write_error(self, error: DragomanError) -> bytes:
        return wirejson.dumps(encode_reply.error_body(error)) + b"\n"
