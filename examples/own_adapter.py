"""An adapter for a server of your own that speaks no known API: text in, text out, whole and streamed.

It shows the contract of adapters: `ECHO_BASE_URL=http://127.0.0.1:9000 python examples/own_adapter.py`
"""

from collections.abc import Iterable, Sequence
from typing import Any

from dragoman import AdapterCapabilities, AdapterOptions, Message, RequestContext, Session, ToolDefinition
from dragoman.adapters import (
    Endpoint,
    ErrorContext,
    Frame,
    HistoryReader,
    ReplyBuilder,
    RequestBuilder,
    SseDecoder,
    StreamDecoder,
    WireAdapter,
    loads_object,
    register_adapter,
)
from dragoman.blocks import TextBlock
from dragoman.errors import ProviderError
from dragoman.events import MessageComplete, MessageStart, StreamEvent, TextDelta
from dragoman.messages import MessageStatus, Role, StopReason


class EchoAdapter(WireAdapter):
    """`POST /say {"turns": [["user", "Hi"]], "stream": false}` is answered by `{"said": "Hello"}`."""

    provider = "echo"
    endpoint = Endpoint("http://127.0.0.1:9000", base_url_variable="ECHO_BASE_URL", key_required=False)
    path = "/say"

    @property
    def capabilities(self) -> AdapterCapabilities:
        return AdapterCapabilities()  # neither tools nor images: the projection leaves them out, and names each loss

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        texts = [
            (turn.role, block.text) for turn in request.turns for block in turn.blocks if isinstance(block, TextBlock)
        ]
        return {"turns": texts, "stream": request.options.stream}

    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder) -> Message:
        return build(native["said"], reply)

    def decode_request(
        self, native: dict[str, Any], reader: HistoryReader
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        for role, text in native["turns"]:
            reader.add(Role(role), [TextBlock(text=text)])
        return [], AdapterOptions(context=reader.context)

    def decode_error(self, native: dict[str, Any], origin: ErrorContext) -> ProviderError:
        return origin.failure(message=native.get("problem")).error()

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return EchoDecoder(context)


def build(text: str, reply: ReplyBuilder, status: MessageStatus = MessageStatus.COMPLETE) -> Message:
    """This server counts no tokens, so the usage is None, and the cost is unknown instead of 0."""
    blocks, end = [TextBlock(text=text)], StopReason.END_TURN
    return reply.build(blocks, model=None, stop_reason=end, usage=None, raw={}, status=status)


class EchoDecoder(StreamDecoder):
    """Events of the stream: `word` with a piece of the text, and `end`."""

    def __init__(self, context: RequestContext) -> None:
        super().__init__("echo", SseDecoder(context.frame_cap, context.body_cap))
        self._builder, self._said = ReplyBuilder(context, "echo"), ""

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        if frame.event == "end":
            yield MessageComplete(self._message(MessageStatus.COMPLETE))
            return
        if not self._said:
            yield MessageStart(self._builder.message_id, "echo")
        piece = loads_object(frame.data, what="a word")["piece"]
        self._said += piece
        yield TextDelta(self._builder.message_id, 0, piece)

    def _message(self, status: MessageStatus) -> Message:
        return build(self._said, self._builder, status)

    def partial(self, status: MessageStatus) -> Message | None:
        return self._message(status) if self._said else None


register_adapter("echo", EchoAdapter)  # a package does it with an entry point in the group "dragoman.adapters"

if __name__ == "__main__":
    with Session("echo:any") as session:
        for text in session.stream("Is anybody there?").text_deltas():
            print(text, end="")
