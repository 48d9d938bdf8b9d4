"""Encodes streamed replies for clients of Chat Completions (docs/answers.md)."""

from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.answers.reply_writer import CALL, FAILED, THINKING, ReplyWriter
from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.wirejson import lookup_path
from dragoman.canonical.blocks import Citation, ContentBlock, ImageBlock, TextBlock
from dragoman.canonical.message import Message
from dragoman_adapters.openai_chat import encode, encode_reply
from dragoman_adapters.openai_chat.dialect import Dialect
from dragoman_adapters.openai_platform.custom_tools import custom_names, free_text
from dragoman_adapters.openai_platform.encode_errors import error_object

_DATA, _END = b"data: ", b"\n\n"


class ChatStreamEncoder(ReplyStreamEncoder):
    """Writes one chunk for each delta. Calls are numbered from 0, each with its id and name in its first chunk."""

    ordered: ClassVar[bool] = False

    def __init__(self, writer: ReplyWriter, dialect: Dialect) -> None:
        super().__init__(writer)
        self._dialect = dialect
        self._call_number = -1
        self._chunk_start = self._head = self._tail = b""
        self._custom = custom_names(writer.client_fields)
        self._holds = False
        """Whether the call that is open has a free text. It is inside the JSON of the arguments, and is sent when it is
        complete."""

    def begin(self) -> bytes:
        head = {
            "id": self.writer.new_id(encode_reply.REPLY_PREFIX),
            "object": "chat.completion.chunk",
            "created": int(self.writer.context.clock().timestamp()),
            "model": self.writer.model,
        }
        self._chunk_start = _DATA + wirejson.dumps(head)[:-1]
        return self._chunk({"role": "assistant", "content": ""})

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._chunk_start + b',"choices":[' + wirejson.dumps(choice) + b"]}" + _END

    def open_block(self, kind: str, tool_use_id: str, name: str) -> bytes:
        if kind == CALL:
            self._call_number += 1
            tool_id = self.writer.tool_id(encode_reply.TOOL_PREFIX, tool_use_id)
            self._holds = name in self._custom
            if self._holds:
                return self._chunk({"tool_calls": [self._numbered(encode_reply.custom_call(tool_id, name, ""))]})
            call = f'"tool_calls":[{{"index":{self._call_number},"function":{{"arguments":'
            self._set_delta(call.encode(), b"}}]")
            function = {"name": name, "arguments": ""}
            return self._chunk(
                {"tool_calls": [self._numbered({"id": tool_id, "type": "function", "function": function})]}
            )
        if kind == THINKING:
            field = (encode_reply.issuer_dialect(self.writer) or self._dialect).reasoning_fields[0]
        else:
            field = "content"
        self._set_delta(f'"{field}":'.encode(), b"")
        return b""

    def _numbered(self, call: dict[str, Any]) -> dict[str, Any]:
        return {"index": self._call_number, **call}

    def _set_delta(self, head: bytes, tail: bytes) -> None:
        self._head = self._chunk_start + b',"choices":[{"index":0,"delta":{' + head
        self._tail = tail + b'},"logprobs":null,"finish_reason":null}]}' + _END

    def delta(self, text: str) -> bytes:
        if self._holds:
            return b""
        return self._head + wirejson.dumps(text) + self._tail

    def close_block(self, kind: str, index: int, content: str, signature: str | None) -> bytes:
        if not self._holds:
            return b""
        self._holds = False
        return self._chunk({"tool_calls": [self._numbered({"custom": {"input": free_text(content)}})]})

    def write_citations(self, index: int, citations: tuple[Citation, ...]) -> bytes:
        return b""  # the sources of all texts follow at the end

    def lose_citations(self, index: int) -> None:
        """Nothing is lost: the sources of all texts follow at the end."""

    def write_other(self, index: int, block: ContentBlock, message: Message) -> bytes:
        if isinstance(block, ImageBlock) and (image := encode_reply.encode_image(block, self._dialect)):
            return self._chunk({encode.IMAGES_FIELD: [image]})
        encode_reply.record_unsupported(block, index, self.writer)
        return b""

    def end(self, message: Message) -> bytes:
        encode_reply.record_order_losses(message.content, self.writer)
        if not self.writer.is_own:
            self.writer.store_state(encode_reply.TOOL_PREFIX, message)
            self.writer.record_usage_losses(self.usage, *encode_reply.UNCOUNTED)
        stop_reason = self.writer.stop_reason(message, has_calls=self._call_number >= 0)
        texts = [block for block in message.content if isinstance(block, TextBlock)]
        if self.writer.is_own:
            found = [each.data for block in texts for each in block.citations if each.data and each.kind != "reference"]
        else:
            found = encode_reply.encode_annotations(message.content, self.writer)
        # The sources of all texts, with indexes into the whole text.
        numbered = [{"index": number, **each} for number, each in enumerate(found)]
        written = self._chunk({"annotations": numbered}) if numbered else b""
        word = encode_reply.stop_word(stop_reason, self.writer)
        if stop_reason in FAILED:  # only of this wire's provider
            word = self.writer.own_raw(message).get("choice", {}).get("finish_reason") or word
        written += self._chunk({}, word)
        if self.usage is not None and lookup_path(self.writer.client_fields, "stream_options.include_usage"):
            counts = wirejson.dumps(encode_reply.encode_usage(self.usage, is_own=self.writer.is_own))
            tier = self.writer.own_raw(message).get("reply", {}).get("service_tier")
            served = b',"service_tier":' + wirejson.dumps(tier) if tier else b""
            written += self._chunk_start + served + b',"choices":[],"usage":' + counts + b"}" + _END
        return written + b"data: [DONE]" + _END

    def write_error(self, error: DragomanError) -> bytes:
        return _DATA + wirejson.dumps({"error": error_object(error, self.writer.provider)}) + _END
