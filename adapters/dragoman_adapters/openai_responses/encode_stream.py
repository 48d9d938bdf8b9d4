"""Encodes streamed replies for clients of the Responses API (docs/answers.md)."""

from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.answers.reply_writer import CALL, TEXT, THINKING, ReplyWriter
from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
from dragoman.adapter.errors import DragomanError
from dragoman.canonical.blocks import Citation, ContentBlock, ProviderBlock
from dragoman.canonical.message import Message, StopReason
from dragoman_adapters.openai_platform.custom_tools import free_text
from dragoman_adapters.openai_platform.encode_errors import error_object
from dragoman_adapters.openai_responses import encode_blocks, encode_reply
from dragoman_adapters.openai_responses.client_tools import CUSTOM_CALL

_PARTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    TEXT: ("response.content_part", "response.output_text", {"logprobs": []}),
    THINKING: ("response.reasoning_summary_part", "response.reasoning_summary_text", {}),
}
"""The names of the events of a part and of its text, and the other fields of the text's."""


class ResponsesStreamEncoder(ReplyStreamEncoder):
    """Writes the items of a response. The terminal event holds all of them again.

    Neighbouring texts are parts of one message item, which ends when another item begins.
    """

    def __init__(self, writer: ReplyWriter) -> None:
        super().__init__(writer)
        self._number = 0
        self._output: list[dict[str, Any]] = []
        self._item: dict[str, Any] = {}
        """The item that is open, empty if none is; its place is after those in the output."""
        self._annotations: list[dict[str, Any]] = []
        self._created = 0.0
        self._head = self._tail = b""

    def begin(self) -> bytes:
        self._created = self.writer.context.clock().timestamp()
        response = encode_reply.response_object(self.writer, self._created, self.writer.model)
        started = self._event("response.created", {"response": response})
        return started + self._event("response.in_progress", {"response": response})

    def _event(self, name: str, fields: dict[str, Any]) -> bytes:
        data = wirejson.dumps({"type": name, **fields, "sequence_number": self._number})
        self._number += 1
        return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"

    @property
    def _position(self) -> int:
        return len(self._output)

    def open_block(self, kind: str, tool_use_id: str, name: str) -> bytes:
        written = b"" if kind == TEXT else self._end_message()
        if kind == CALL:
            tool_id = self.writer.tool_id(encode_reply.TOOL_PREFIX, tool_use_id)
            self._item = encode_reply.call_item(self._position, tool_id, name, "", "in_progress", self.writer)
            if self._item["type"] != CUSTOM_CALL:
                self._set_delta("response.function_call_arguments.delta", self._place())
            return written + self._added(self._item)
        if not self._item:
            if kind == TEXT:
                item_id = self.writer.new_id(encode_reply.MESSAGE_PREFIX, self._position)
                self._item = encode_reply.message_item(item_id, [], "in_progress")
            else:
                item_id = self.writer.new_id(encode_reply.REASONING_PREFIX, self._position)
                self._item = encode_reply.reasoning_item(item_id, "", None)
            written += self._added(self._item)
        part_event, text_event, fields = _PARTS[kind]
        place = self._part_place(kind)
        self._annotations = []
        written += self._event(f"{part_event}.added", {**place, "part": self._part(kind, "")})
        self._set_delta(f"{text_event}.delta", {**place, **fields})
        return written

    def _place(self, **inner: int) -> dict[str, Any]:
        return {"item_id": self._item["id"], "output_index": self._position, **inner}

    def _part_place(self, kind: str) -> dict[str, Any]:
        return self._place(content_index=len(self._item["content"])) if kind == TEXT else self._place(summary_index=0)

    def _part(self, kind: str, text: str) -> dict[str, Any]:
        if kind == TEXT:
            return encode_reply.text_part(text, self._annotations)
        return {"type": "summary_text", "text": text}

    def _added(self, item: dict[str, Any]) -> bytes:
        return self._event("response.output_item.added", {"output_index": self._position, "item": item})

    def _set_delta(self, name: str, fields: dict[str, Any]) -> None:
        data = wirejson.dumps({"type": name, **fields})
        self._head = b"event: " + name.encode() + b"\ndata: " + data[:-1] + b',"delta":'
        self._tail = b',"sequence_number":'

    def delta(self, text: str) -> bytes:
        if self._item.get("type") == CUSTOM_CALL:
            return b""  # its input is inside the JSON of the arguments, and is sent when it is complete
        number = self._number
        self._number = number + 1
        return b"%b%b%b%d}\n\n" % (self._head, wirejson.dumps(text), self._tail, number)

    def close_block(self, kind: str, index: int, content: str, signature: str | None) -> bytes:
        if kind == CALL:
            return self._close_call(content)
        part_event, text_event, fields = _PARTS[kind]
        place, part = self._part_place(kind), self._part(kind, content)
        written = self._event(f"{text_event}.done", {**place, "text": content, **fields})
        written += self._event(f"{part_event}.done", {**place, "part": part})
        if kind == TEXT:
            self._item["content"].append(part)
            return written
        sealed = signature if self.writer.is_own else self.writer.state.seal_thinking(index, content, signature)
        self._item = encode_reply.reasoning_item(self._item["id"], content, sealed)
        return written + self._end_item()

    def _close_call(self, content: str) -> bytes:
        place = self._place()
        status = encode_reply.call_status(wirejson.parse_arguments(content)[1])
        if self._item["type"] == CUSTOM_CALL:
            text = free_text(content)
            written = self._event("response.custom_tool_call_input.delta", {**place, "delta": text})
            written += self._event("response.custom_tool_call_input.done", {**place, "input": text})
            self._item |= {"input": text, "status": status}
            return written + self._end_item()
        done = {**place, "name": self._item["name"], "arguments": content}
        self._item |= {"arguments": content, "status": status}
        return self._event("response.function_call_arguments.done", done) + self._end_item()

    def _end_item(self) -> bytes:
        item, self._item = self._item, {}
        done = self._event("response.output_item.done", {"output_index": self._position, "item": item})
        self._output.append(item)
        return done

    def _end_message(self, status: str = "completed") -> bytes:
        if not self._item:
            return b""
        self._item["status"] = status
        return self._end_item()

    def _whole(self, item: dict[str, Any]) -> bytes:
        written = self._end_message()
        written += self._added(item)
        self._item = item
        return written + self._end_item()

    def write_citations(self, index: int, citations: tuple[Citation, ...]) -> bytes:
        place = self._part_place(TEXT)
        if self.writer.is_own:
            self._annotations = [source.data for source in citations if source.data]
        else:
            self._annotations = encode_reply.encode_citations(citations, index, self.writer)
        return b"".join(
            self._event(
                "response.output_text.annotation.added", {**place, "annotation_index": number, "annotation": annotation}
            )
            for number, annotation in enumerate(self._annotations)
        )

    def write_other(self, index: int, block: ContentBlock, message: Message) -> bytes:
        item: dict[str, Any] | None
        if isinstance(block, ProviderBlock) and self.writer.is_native(block) and not encode_blocks.is_part(block):
            item = block.data
        else:
            item = encode_reply.encode_item(block, index, self._position + bool(self._item), message, self.writer)
        return b"" if item is None else self._whole(item)

    def end(self, message: Message) -> bytes:
        written = self._end_message(encode_reply.last_status(message))
        if not self.writer.is_own:
            envelope = self.writer.state.seal_rest(message, encode_reply.shown_places(message))
            if envelope is not None:
                item_id = self.writer.new_id(encode_reply.REASONING_PREFIX, self._position)
                written += self._whole(encode_reply.reasoning_item(item_id, "", envelope))
        response = encode_reply.finish_response(message, self._output, self.writer, self.usage, self._created)
        response |= {"id": self.writer.new_id(encode_reply.RESPONSE_PREFIX), "model": self.writer.model}
        if message.stop_reason is StopReason.REFUSAL:  # the refusal was sent as text, so the status has to say it
            response["status"], response["incomplete_details"] = encode_reply.find_status(
                message.stop_reason, self.writer
            )
        return written + self._event(f"response.{response['status']}", {"response": response})

    def write_error(self, error: DragomanError) -> bytes:
        """Write ``error`` and ``response.failed``: some clients act on the one, and some on the other.

        The event has the error as an object too: OpenAI's own clients raise that, and pass over an event without one.
        """
        failed = error_object(error, self.writer.provider)
        code = failed["code"] or "server_error"
        flat = {"code": code, "message": failed["message"], "param": None}
        written = self._event("error", {**flat, "error": {**failed, "code": code}})
        response = encode_reply.response_object(self.writer, self._created, self.writer.model)
        response |= {"status": "failed", "error": {"code": code, "message": failed["message"]}, "output": self._output}
        return written + self._event("response.failed", {"response": response})
