"""The base class of decoders that accumulate the provider's own reply object while they emit events."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.context import RequestContext
from dragoman.adapter.replies.framing import SseDecoder
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.canonical.events import MessageComplete, MessageStart, StreamEvent, ToolUseEnd, UsageUpdate
from dragoman.canonical.message import Message, MessageStatus
from dragoman.canonical.usage import TokenUsage


class AccumulatingDecoder(StreamDecoder):
    """Subclasses read the frames of ``framing``, add what they say to ``_native``, and return the reply object so far
    and its message. ``_native`` is empty until the message starts."""

    framing: ClassVar[Any] = SseDecoder
    """Returns a framing for the most bytes of a frame and of the body."""

    def __init__(self, provider: str, context: RequestContext) -> None:
        super().__init__(provider, self.framing(context.frame_cap, context.body_cap))
        self._reply = ReplyBuilder(context, provider)
        self._model = context.model
        self._native: dict[str, Any] = {}

    @abstractmethod
    def accumulated_reply(self) -> dict[str, Any]:
        """Return the reply object so far."""

    @abstractmethod
    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder, status: MessageStatus) -> Message:
        """Decode the reply object as that of a whole reply."""

    def partial(self, status: MessageStatus) -> Message | None:
        return self.decode_message(self.accumulated_reply(), self._reply, status) if self._native else None

    def start(self, native: dict[str, Any], model: str | None = None) -> Iterator[StreamEvent]:
        """Start the reply with this object. ``model`` is the one that answers, if the wire names it."""
        if self._native:
            raise ValueError("a second message starts in one stream")
        self._native = native
        yield MessageStart(self._reply.message_id, model or self._model)

    def end_call(self, index: int, tool_use_id: str, text: str) -> Iterator[StreamEvent]:
        """End a call with these arguments; a call whose arguments are malformed does not end."""
        arguments, malformed = wirejson.parse_arguments(text)
        if malformed is None:
            yield ToolUseEnd(self._reply.message_id, index, tool_use_id, arguments)

    def complete(self, usage: TokenUsage | None) -> Iterator[StreamEvent]:
        """Complete the reply."""
        if usage is not None:
            yield UsageUpdate(self._reply.message_id, usage)
        message = self.decode_message(self.accumulated_reply(), self._reply, MessageStatus.COMPLETE)
        yield MessageComplete(message)
