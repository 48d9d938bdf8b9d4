"""Decoders with one known fault each: the laws must find it."""

from collections.abc import Iterable, Iterator

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.replies.framing import Frame
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.canonical.events import ErrorEvent, MessageComplete, StreamEvent, TextDelta
from dragoman.canonical.message import Message, MessageStatus
from tests.unit.adapter.toy_adapter import ToyAdapter, ToyDecoder


class CompletesAtEndOfBytes(ToyDecoder):
    """Treats the end of the bytes as the end of the reply."""

    def end(self) -> Iterable[StreamEvent]:
        return (MessageComplete(self._message(MessageStatus.COMPLETE)),)


class CompletesTooEarly(ToyDecoder):
    """Completes after the last text."""

    def read(self, frame: Frame) -> Iterator[StreamEvent]:
        yield from super().read(frame)
        if len(self._texts) == 2:
            yield MessageComplete(self._message(MessageStatus.COMPLETE))


class SplitsOnUnicode(ToyDecoder):
    """Splits lines like Python's strings, and drops half a line."""

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        pieces = chunk.decode("utf-8", "ignore").splitlines(keepends=True)
        return [event for piece in pieces for event in super(SplitsOnUnicode, self).feed(piece.encode())]


class RaisesUntypedErrors(ToyDecoder):
    """A wrong shape is a bare exception."""

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        events = super().feed(chunk)
        for event in events:
            if isinstance(event, ErrorEvent) and event.error.__cause__ is not None:
                raise event.error.__cause__
        return events


class DropsADelta(ToyDecoder):
    """Emits less than the message contains."""

    def read(self, frame: Frame) -> Iterator[StreamEvent]:
        for event in super().read(frame):
            if not (isinstance(event, TextDelta) and len(self._texts) == 2):
                yield event


class InventsText(ToyDecoder):
    """Invents the missing text."""

    def _message(self, status: MessageStatus) -> Message:
        if len(self._texts) == 1 and status is MessageStatus.COMPLETE:
            self._texts.append("…")
        return super()._message(status)


class EmitsAfterTheEnd(ToyDecoder):
    """Emits events after the last one."""

    def read(self, frame: Frame) -> Iterator[StreamEvent]:
        if "type" in wirejson.loads_object(frame.data):
            yield ErrorEvent(ValueError("unknown"))
        yield from super().read(frame)


class AddsToPartial(ToyDecoder):
    """The partial message of a broken stream has more content than arrived."""

    def partial(self, status: MessageStatus) -> Message | None:
        self._texts.append("and so on")
        return self._message(status)


def _adapter(decoder: type[ToyDecoder]) -> type[ToyAdapter]:
    class FaultyAdapter(ToyAdapter):
        def decoder(self, context: RequestContext) -> StreamDecoder:
            return decoder(context)

    FaultyAdapter.__name__ = decoder.__name__
    return FaultyAdapter


FAULTY_DECODERS = [
    (_adapter(CompletesAtEndOfBytes), "clean cuts"),
    (_adapter(CompletesTooEarly), "clean cuts"),
    (_adapter(CompletesTooEarly), "resets"),
    (_adapter(SplitsOnUnicode), "chunkings"),
    (_adapter(RaisesUntypedErrors), "mutations"),
    (_adapter(DropsADelta), "foldings"),
    (_adapter(InventsText), "edits"),
    (_adapter(EmitsAfterTheEnd), "foldings"),
    (_adapter(AddsToPartial), "resets"),
]
"""The law that each one breaks."""
