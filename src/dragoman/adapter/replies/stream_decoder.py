"""The base class of stream decoders. A stream ends with the complete message or with an error.

Subclasses read one parsed frame at a time and accumulate the provider's own reply object while they emit events. At
the terminal event they decode that object as they would a whole reply, so both forms give the same message. This class
does the framing, orders the last events, and turns invalid data into a typed error with the partial message
(docs/reference/streams.md#terminal-rule).
"""

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from operator import attrgetter
from typing import Any, ClassVar, Protocol

from dragoman.adapter import wirejson
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import (
    MALFORMED_ERRORS,
    DragomanError,
    FrameTooLargeError,
    MalformedReplyError,
    NetworkError,
    ProviderError,
    RequestTimeoutError,
    StreamTruncatedError,
)
from dragoman.adapter.replies.drift import with_drift
from dragoman.adapter.replies.framing import Frame, NdjsonDecoder, SseDecoder, TextFrame, TextSkimmer
from dragoman.adapter.replies.message_events import BLANKS, Document
from dragoman.adapter.replies.reply_builder import MAX_CALLS, MAX_NAME
from dragoman.adapter.wire import DEFAULT_BODY_CAP
from dragoman.canonical.events import (
    ErrorEvent,
    MessageComplete,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseInputDelta,
    ToolUseStart,
)
from dragoman.canonical.log import get_logger
from dragoman.canonical.message import Message, MessageStatus

_TEXT_GETTERS: dict[type, Callable[[Any], object]] = {
    TextDelta: attrgetter("text"),
    ThinkingDelta: attrgetter("text"),
    ToolUseInputDelta: attrgetter("partial_json"),
}
"""The fields of deltas that consumers join: each must be a text, or the frame is malformed."""

MAX_FRAMES = 1_000_000
"""The most frames of one stream."""
MAX_FRAME_EVENTS = 10_000
"""The most events of one frame; a whole reply in one frame has a few for each of its blocks."""
MAX_FRAME_VALUES = 800_000
"""The most JSON values of one frame, which is parsed in one step: dense values take about 50 ns each."""
_LARGE_FRAME = 1024 * 1024
_MAX_WARNINGS = 100
_SLICE = 4 * 1024
"""Bytes that are decoded before their events are handed out."""
_SKIMMED_SLICE = 8 * _SLICE
"""The same for a decoder that leaves text out or joins it."""
_WORK_SECONDS = 0.005
"""Seconds of work after which the event loop may run other tasks."""

_SKIPPED = TextDelta("", 0, "")
"""Stands for the frames that a skimming decoder has left out."""

logger = get_logger("dragoman.adapter")


class Framing(Protocol):
    def feed(self, chunk: bytes) -> list[Frame]: ...

    def finish(self) -> list[Frame]: ...


class StreamDecoder(ABC):
    """Takes a ``provider``'s chunks and returns events; ``done`` is set once the last event was returned."""

    text_frame: ClassVar[TextFrame | None] = None
    """The form of a frame that adds to a text and does nothing else. None if the wire has none."""

    def __init__(self, provider: str, framing: Framing) -> None:
        self.provider = provider
        self.done = False
        self.message: Message | None = None
        """The complete message, once it has arrived."""
        self.frames_received = 0
        """The number of frames with content; keep-alives do not count."""
        self.unknown_frames = 0
        """How many of these frames have a type that is unknown to this version."""
        self.translators: Sequence[Callable[[Iterable[StreamEvent]], Iterable[StreamEvent]]] = ()
        """Functions that rewrite the events, applied in order."""
        self.listener: Callable[[bytes], object] | None = None
        """Receives each chunk before it is decoded."""
        self._skimmer: TextSkimmer | None = None
        self._joins = False
        self._framing = framing
        self._document: Document | None = None
        self._unknown: set[str] = set()
        self._tool_starts = 0

    @property
    def slice_bytes(self) -> int:
        """The bytes of a chunk that are decoded before their events are handed out."""
        return _SLICE if self._skimmer is None else _SKIMMED_SLICE

    @abstractmethod
    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        """Return the events of one frame; MessageComplete ends the stream. Raises ProviderError on an error frame."""

    @abstractmethod
    def partial(self, status: MessageStatus) -> Message | None:
        """Return the message so far; calls with unfinished arguments keep them as raw_input."""

    def accept_document(self, read: Callable[[bytes], Message], *, always: bool = False) -> None:
        """Accept a whole reply in place of a stream of server-sent events, as some proxies answer.

        ``read`` decodes it. Other framings do not tell a document from an event: they accept one if ``always`` says
        that a whole reply was asked for.
        """
        if always or isinstance(self._framing, SseDecoder):
            self._document = Document(read, getattr(self._framing, "body_cap", DEFAULT_BODY_CAP))

    def skim(self) -> None:
        """Leave out the most of the text, for a reader of the counts and of the end. Frames that are left out give an
        empty delta together."""
        if self.text_frame is not None:
            self._skimmer = TextSkimmer(self.text_frame)

    def join_text(self) -> None:
        """Return text that arrives together as one delta, for a reader that passes it on at once."""
        if self.text_frame is not None and isinstance(self._framing, SseDecoder):
            self._skimmer, self._joins = TextSkimmer(self.text_frame), True

    def skip_unknown(self, kind: str) -> Iterable[StreamEvent]:
        """Ignore an event of an unknown type, with one warning for each stream and type."""
        self.unknown_frames += 1
        if kind not in self._unknown and len(self._unknown) < _MAX_WARNINGS:
            self._unknown.add(kind)
            logger.warning(
                "%s: the stream event %r is unknown to this version and is ignored", self.provider, kind[:80]
            )
        return ()

    def skip_keep_alive(self) -> Iterable[StreamEvent]:
        """Handle a frame that only keeps the connection alive."""
        self.frames_received -= 1
        return ()

    def end(self) -> Iterable[StreamEvent]:
        """Handle the end of the bytes without a terminal event. Adapters whose wire has no end marker decide here."""
        raise StreamTruncatedError(
            "the stream ended before its terminal event: the reply is incomplete, ask again",
            provider=self.provider,
        )

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Decode a chunk. Never raises: an error is the last event."""
        if self.listener is not None:
            self.listener(chunk)
        if self.done:
            return []
        return self._decode(chunk) if self._skimmer is None else self._skim(chunk, self._skimmer)

    def _skim(self, chunk: bytes, skimmer: TextSkimmer) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        while chunk and not self.done:
            if self._joins:  # the text at the start of the chunk, as one frame
                assert isinstance(self._framing, SseDecoder)
                end, frames, left_out = skimmer.join(chunk, self._framing.frame_cap)
                if end:
                    self.frames_received += left_out
                    self._framing.count(end - len(frames))
                    events += self._decode(frames)
            else:
                end, left_out = skimmer.skip(chunk)
                if left_out:
                    self.frames_received += left_out
                    events.append(_SKIPPED)
            if end:
                chunk = chunk[end:]
                continue
            cut = skimmer.cut(chunk)
            piece, chunk = chunk[:cut], chunk[cut:]
            decoded = self._decode(piece)
            skimmer.note(piece, decoded)
            events += decoded
        return events

    def _decode(self, chunk: bytes) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        try:
            if self._document is not None:
                if self._document.take(chunk):
                    return []
                if chunk.strip(BLANKS):  # the first chunk of another form decides that there is no document
                    self._document = None
            for frame in self._framing.feed(chunk):
                if frame.data[:1] <= b" " and not frame.data.strip():  # some proxies keep a connection alive with it
                    continue
                self.frames_received += 1
                if self.frames_received > MAX_FRAMES:
                    raise FrameTooLargeError(f"the reply has over {MAX_FRAMES} events")
                if len(frame.data) > _LARGE_FRAME and frame.data.count(b",") > MAX_FRAME_VALUES:
                    raise FrameTooLargeError(f"one event of the reply has over {MAX_FRAME_VALUES} values")
                self._collect(self.read(frame), events)
                if self.done:
                    break
        except (DragomanError, *MALFORMED_ERRORS) as error:
            events += self.fail(error)
        return events

    def finish(self) -> list[StreamEvent]:
        """Handle the end of the bytes: no events if the stream is done, else those of the terminal rule."""
        if self.done:
            return []
        events: list[StreamEvent] = []
        try:
            for frame in self._framing.finish():
                if _is_complete(frame.data):
                    self._collect(self.read(frame), events)
            if self._document is not None and _is_complete(bytes(self._document.body)):
                events += self._document.events()
                self.message, self.done = self._document.message, True
            if not self.done:
                self._collect(self.end(), events)
        except (DragomanError, *MALFORMED_ERRORS) as error:
            events += self.fail(error)
        return events

    def fail(self, error: Exception) -> list[StreamEvent]:
        """End the stream with an error and the partial message. An error of the reading shows a malformed reply."""
        if self.done:
            return []
        self.done = True
        if not isinstance(error, DragomanError):
            reason = f"the stream does not follow the protocol: {type(error).__name__}: {error}"
            malformed = MalformedReplyError(reason, provider=self.provider)
            malformed.__cause__ = error
            error = malformed
        cancelled = isinstance(error, ProviderError) and error.error_class == "cancelled"
        if isinstance(error, ProviderError) and error.provider is None:
            error.provider = self.provider
        try:
            partial = self.partial(MessageStatus.CANCELLED if cancelled else MessageStatus.ERROR)
        except (DragomanError, *MALFORMED_ERRORS):
            partial = None
        return [ErrorEvent(error, partial)]

    def _collect(self, new: Iterable[StreamEvent], events: list[StreamEvent]) -> None:
        for translate in self.translators:
            new = translate(new)
        room = len(events) + MAX_FRAME_EVENTS
        for event in new:
            if len(events) >= room:
                raise FrameTooLargeError(f"one frame of the reply has over {MAX_FRAME_EVENTS} events")
            text = _TEXT_GETTERS.get(type(event))
            if text is not None:
                if not isinstance(text(event), str):
                    raise TypeError(f"a {event.type} that is not text")
            elif isinstance(event, ToolUseStart):
                self._check_call(event)
            events.append(event)
            if text is None and isinstance(event, MessageComplete):
                if self._unknown:
                    events[-1] = event = MessageComplete(with_drift(event.message, "event", self._unknown))
                self.done = True
                self.message = event.message
                return

    def _check_call(self, start: ToolUseStart) -> None:
        self._tool_starts += 1
        if len(start.tool_name) > MAX_NAME:
            raise MalformedReplyError(f"the name of a tool is over {MAX_NAME} characters", provider=self.provider)
        if self._tool_starts > MAX_CALLS:
            raise MalformedReplyError(f"the reply calls tools over {MAX_CALLS} times", provider=self.provider)


class WholeReplyDecoder(StreamDecoder):
    """Reads the bytes of a whole reply, for adapters whose models do not stream."""

    def __init__(self, provider: str, context: RequestContext) -> None:
        super().__init__(provider, NdjsonDecoder(context.frame_cap, context.body_cap))

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        raise MalformedReplyError(
            "the adapter does not read streams: declare supports_streaming absent, or write its decoder",
            provider=self.provider,
        )

    def partial(self, status: MessageStatus) -> Message | None:
        return None


def decode_stream(chunks: Iterable[bytes], decoder: StreamDecoder) -> Iterator[StreamEvent]:
    """Yield the events of a stream. An exception from the chunks ends it with a typed error."""
    for batch in decode_batches(chunks, decoder):
        yield from batch


async def decode_stream_async(
    chunks: AsyncIterable[bytes], decoder: StreamDecoder
) -> AsyncGenerator[StreamEvent, None]:
    """The async twin of `decode_stream`. Other tasks run after every few milliseconds of work."""
    async with aclosing(decode_batches_async(chunks, decoder)) as batches:
        async for batch in batches:
            for event in batch:
                yield event


def decode_batches(
    chunks: Iterable[bytes],
    decoder: StreamDecoder,
    *,
    idle_timeout: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Sequence[StreamEvent]]:
    """Do what `decode_stream` does, but yield the events that arrived together as one list of at least one event.

    ``idle_timeout``: the seconds without data after which the stream times out, even if keep-alives arrive.
    """
    stall_timer = _StallTimer(decoder, idle_timeout, clock)
    try:
        for chunk in chunks:
            for piece in _slices(chunk, decoder.slice_bytes):
                if events := decoder.feed(piece):
                    yield events
                if decoder.done:
                    return
            stall_timer.check(chunk)
    except Exception as error:
        events = decoder.fail(_as_network_error(error))
    else:
        events = decoder.finish()
    if events:
        yield events


async def decode_batches_async(
    chunks: AsyncIterable[bytes],
    decoder: StreamDecoder,
    *,
    idle_timeout: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[Sequence[StreamEvent], None]:
    """The async twin of `decode_batches`. Other tasks run after every few milliseconds of work."""
    import asyncio  # sync programs do not need it

    stall_timer = _StallTimer(decoder, idle_timeout, clock)
    gave_way_at, unmeasured = clock(), 0
    try:
        async for chunk in chunks:
            for piece in _slices(chunk, decoder.slice_bytes):
                if events := decoder.feed(piece):
                    yield events
                if decoder.done:
                    return
                unmeasured += len(piece)
                if unmeasured >= _SLICE:
                    unmeasured = 0
                    if clock() - gave_way_at > _WORK_SECONDS:
                        await asyncio.sleep(0)
                        gave_way_at = clock()
            stall_timer.check(chunk)
            del chunk, piece, events  # a stream that pauses holds none
    except Exception as error:
        events = decoder.fail(_as_network_error(error))
    else:
        events = decoder.finish()
    if events:
        yield events


def _slices(chunk: bytes, size: int) -> Sequence[bytes] | Iterator[bytes]:
    """Return a chunk in small pieces: the events of the first are handed out before the others are decoded."""
    if len(chunk) <= size:
        return (chunk,)
    return (chunk[start : start + size] for start in range(0, len(chunk), size))


_MIN_PROGRESS_BYTES = 256
"""Bytes: a larger chunk that completes no frame may be part of one; a smaller one may be a keep-alive."""
_MAX_EMPTY_TIMEOUTS = 2.0
"""The number of timeouts during which bytes without a known frame count as progress, because comments may be large."""


class _StallTimer:
    """Measures how long a stream has sent no data. Comments and pings do not count."""

    def __init__(self, decoder: StreamDecoder, idle_timeout: float | None, clock: Callable[[], float]) -> None:
        self._decoder = decoder
        self._timeout = idle_timeout
        self._clock = clock
        self._last_count = decoder.frames_received
        self._last_known = self._known_frames()
        self._last_progress = self._last_data = 0.0 if idle_timeout is None else clock()

    def check(self, chunk: bytes) -> None:
        """Raise RequestTimeoutError if the stream has sent no data for too long."""
        if self._timeout is None:
            return
        now = self._clock()
        if (known := self._known_frames()) != self._last_known:
            self._last_known, self._last_data = known, now
        elif now - self._last_data > _MAX_EMPTY_TIMEOUTS * self._timeout:
            raise RequestTimeoutError(f"the stream sent no event for {now - self._last_data:g} s, only other bytes")
        if self._decoder.frames_received != self._last_count or len(chunk) > _MIN_PROGRESS_BYTES:
            self._last_count, self._last_progress = self._decoder.frames_received, now
        elif now - self._last_progress > self._timeout:
            raise RequestTimeoutError(f"the stream sent nothing but keep-alives for {self._timeout:g} s")

    def _known_frames(self) -> int:
        return self._decoder.frames_received - self._decoder.unknown_frames


def _as_network_error(error: Exception) -> DragomanError:
    if isinstance(error, DragomanError):
        return error
    kind = RequestTimeoutError if isinstance(error, TimeoutError) else NetworkError
    wrapped = kind(f"the connection broke: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def _is_complete(data: bytes) -> bool:
    if data.strip() == b"[DONE]":
        return True
    try:
        return isinstance(wirejson.loads(data), dict)
    except MalformedReplyError:
        return False


def replay(decoder: StreamDecoder, chunks: Sequence[bytes]) -> list[StreamEvent]:
    """Return all events of a stream that has already arrived."""
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.finish()
