"""Encodes streamed replies for clients of streamGenerateContent (docs/answers.md)."""

from collections.abc import Sequence
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.answers.reply_writer import CALL, TEXT, THINKING, ReplyWriter, is_runnable
from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
from dragoman.adapter.errors import DragomanError
from dragoman.canonical.blocks import Citation, ContentBlock, ToolUseBlock
from dragoman.canonical.message import Message
from dragoman_adapters.google import encode_blocks, encode_reply


class GenerateContentStreamEncoder(ReplyStreamEncoder):
    """Writes a small reply for each delta. A call is one part, so it waits for its arguments.

    The finish reason and the counts are in the last chunk.
    """

    calls_wait: ClassVar[bool] = True
    before_chunk: ClassVar[bytes] = b"data: "
    after_chunk: ClassVar[bytes] = b"\r\n\r\n"

    def __init__(self, writer: ReplyWriter) -> None:
        super().__init__(writer)
        self._chunk_end = self._head = self._tail = b""
        self._is_call = False
        self._call_part: dict[str, Any] = {}
        self._envelope: str | None = None
        self._seals_call = False

    def begin(self) -> bytes:
        named = {
            "modelVersion": self.writer.model,
            "responseId": self.writer.new_id(""),
        }
        self._chunk_end = b"," + wirejson.dumps(named)[1:] + self.after_chunk
        return b""

    def _parts(self, parts: list[dict[str, Any]]) -> bytes:
        content = b'{"candidates":[{"content":{"parts":' + wirejson.dumps(parts) + b',"role":"model"},"index":0}]'
        return self.before_chunk + content + self._chunk_end

    def open_block(self, kind: str, tool_use_id: str, name: str) -> bytes:
        self._is_call = kind == CALL
        if self._is_call:
            native = self.writer.context.tool_ids.native_id(tool_use_id, self.writer.provider)
            own = native or (None if self.writer.is_own else self.writer.tool_id(encode_reply.TOOL_PREFIX, tool_use_id))
            self._call_part = {**({"id": own} if own else {}), "name": name}
            return b""
        thought = b',"thought":true' if kind == THINKING else b""
        self._head = self.before_chunk + b'{"candidates":[{"content":{"parts":[{"text":'
        self._tail = thought + b'}],"role":"model"},"index":0}]' + self._chunk_end
        return b""

    def delta(self, text: str) -> bytes:
        return b"" if self._is_call else self._head + wirejson.dumps(text) + self._tail

    def close_block(self, kind: str, index: int, content: str, signature: str | None) -> bytes:
        if kind == TEXT:
            return b""
        if kind == THINKING:
            sealed = signature if self.writer.is_own else self.writer.state.seal_thinking(index, content, signature)
            return b"" if not sealed else self._parts([encode_reply.sealed_part(sealed)])
        if (arguments := self.read_call(index, content)) is None:
            return b""
        part: dict[str, Any] = {"functionCall": {**self._call_part, "args": arguments}}
        if self._envelope is not None:
            part["thoughtSignature"], self._envelope = self._envelope, None
        return self._parts([part])

    def begin_unsent(self, message: Message, places: Sequence[int]) -> None:
        """Put the rest of a message into the first call that waited."""
        blocks = (message.content[place] for place in places)
        self._seals_call = any(isinstance(block, ToolUseBlock) and is_runnable(block) for block in blocks)
        if self._seals_call:
            self._envelope = encode_reply.seal_rest(message, self.writer, in_call=True)

    def write_citations(self, index: int, citations: tuple[Citation, ...]) -> bytes:
        return b""  # all sources are in the last chunk

    def lose_citations(self, index: int) -> None:
        """All sources are in the last chunk."""

    def write_other(self, index: int, block: ContentBlock, message: Message) -> bytes:
        if self.writer.is_native(block) and isinstance(block, encode_reply.NATIVE_BLOCKS):
            parts = [encode_blocks.encode_block(block)]
        else:
            parts = encode_reply.encode_part(block, index, message, self.writer)
        return self._parts(parts) if parts else b""

    def end(self, message: Message) -> bytes:
        raw = self.writer.own_raw(message)
        candidate: dict[str, Any] = {"content": {"parts": [{"text": ""}], "role": "model"}, "index": 0}
        candidate["finishReason"] = encode_reply.stop_word(message.stop_reason, self.writer)
        if self.writer.is_own:
            candidate |= raw.get("candidate") or {}
        else:
            self.writer.record_usage_losses(self.usage, *encode_reply.UNCOUNTED)
            candidate |= encode_reply.encode_grounding(message, self.writer)
            envelope = None if self._seals_call else encode_reply.seal_rest(message, self.writer, in_call=False)
            if envelope is not None:
                candidate["content"]["parts"] = [encode_reply.sealed_part(envelope)]
        chunk: dict[str, Any] = {"candidates": [candidate]}
        if self.usage is not None:
            chunk["usageMetadata"] = encode_reply.encode_usage(self.usage, is_own=self.writer.is_own)
        return self.before_chunk + wirejson.dumps(chunk)[:-1] + self._chunk_end

    def write_error(self, error: DragomanError) -> bytes:
        """Write the error as a chunk, and again as a bare object.

        A client that ignores the chunk fails at the object, which is not a server-sent event; the others have stopped
        before.
        """
        body = wirejson.dumps(encode_reply.error_body(error, self.writer.provider))
        return self.before_chunk + body + self.after_chunk + body


class JsonArrayStreamEncoder(GenerateContentStreamEncoder):
    """Writes one JSON array, as the wire does without ``alt=sse``. The array of a broken reply does not end."""

    media_type: ClassVar[str] = "application/json"
    before_chunk: ClassVar[bytes] = b",\r\n"
    after_chunk: ClassVar[bytes] = b""

    def begin(self) -> bytes:
        """Write the first chunk, which has no content: what follows can then begin with a comma."""
        super().begin()
        return b"[{" + self._chunk_end[1:]

    def end(self, message: Message) -> bytes:
        return super().end(message) + b"]"

    def write_error(self, error: DragomanError) -> bytes:
        body = wirejson.dumps(encode_reply.error_body(error, self.writer.provider))
        return (self.before_chunk if self._chunk_end else b"[") + body
