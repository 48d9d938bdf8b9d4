"""The smallest possible adapter: JSON lines of texts, and a final line."""

import builtins
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.errors import ProviderError, RateLimitError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.replies.error_context import class_for_status
from dragoman.adapter.replies.framing import Frame, NdjsonDecoder
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.blocks import TextBlock
from dragoman.canonical.events import MessageComplete, MessageStart, StreamEvent, TextDelta
from dragoman.canonical.message import Message, MessageStatus, StopReason
from dragoman.canonical.tools import ToolDefinition


class ToyDecoder(StreamDecoder):
    """``{"text": ...}`` is content, ``{"done": true}`` ends, ``{"error": ...}`` fails, ``{"crash": name}`` is a bug."""

    def __init__(self, context: RequestContext) -> None:
        super().__init__("toy", NdjsonDecoder(context.frame_cap, context.body_cap))
        self._reply = ReplyBuilder(context, "toy")
        self._texts: list[str] = []

    def read(self, frame: Frame) -> Iterator[StreamEvent]:
        data = wirejson.loads_object(frame.data)
        if "error" in data:
            raise RateLimitError(data["error"])
        if "crash" in data:
            raise getattr(builtins, data["crash"])("crashed")
        if "done" in data:
            yield MessageComplete(self._message(MessageStatus.COMPLETE))
            return
        if "text" not in data:
            yield from self.skip_unknown(data["type"])
            return
        if not self._texts:
            yield MessageStart(self._reply.message_id, "m")
        self._texts.append(data["text"])
        yield TextDelta(self._reply.message_id, 0, data["text"])

    def partial(self, status: MessageStatus) -> Message | None:
        return self._message(status) if self._texts else None

    def _message(self, status: MessageStatus) -> Message:
        text = TextBlock(text="".join(self._texts))
        return self._reply.build((text,), model="m", stop_reason=StopReason.END_TURN, usage=None, raw={}, status=status)


class ToyAdapter(Adapter):
    provider = "toy"
    endpoint = Endpoint("https://toy.example")

    @property
    def capabilities(self) -> AdapterCapabilities:
        return AdapterCapabilities()

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        return WireRequest("POST", "/say", wirejson.dumps([message.text for message in messages]))

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        raise NotImplementedError

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return ToyDecoder(context)

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        raise NotImplementedError

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return class_for_status(status or 500)(body.decode("utf-8", "replace"))


def lines(*texts: str) -> bytes:
    return "".join(text + "\n" for text in texts).encode()


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))
