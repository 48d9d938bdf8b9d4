"""The stream decoder that every adapter fills in: bytes in, events out, and never a lie about the end.

Subclasses read one parsed frame at a time and gather the provider's own reply object while they emit events; at the
terminal event they decode that object as they would a whole reply. So a stream and its unstreamed twin agree by
construction. This class sees to framing, to the order at the end, and to turning every kind of garbage into a
typed error that carries the partial message.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Protocol

from dragoman.adapter import wirejson
from dragoman.adapter.errors import (
    DragomanError,
    MalformedReplyError,
    NetworkError,
    ProviderError,
    RequestError,
    RequestTimeoutError,
    StreamTruncatedError,
)
from dragoman.adapter.replies.framing import Frame
from dragoman.canonical.events import (
    ErrorEvent,
    MessageComplete,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseInputDelta,
)
from dragoman.canonical.message import Message, MessageStatus

_TEXT_GETTERS: dict[type, Callable[[Any], object]] = {
    TextDelta: attrgetter("text"),
    ThinkingDelta: attrgetter("text"),
    ToolUseInputDelta: attrgetter("partial_json"),
}
"""What consumers join together: it is a text, or the provider has sent something else."""

logger = logging.getLogger("dragoman.adapter")


class Framing(Protocol):
    def feed(self, chunk: bytes) -> list[Frame]: ...

    def finish(self) -> list[Frame]: ...


# What reading a reply of the wrong shape raises; anything else is a bug of ours and shows itself.
MALFORMED_ERRORS = (KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)


class StreamDecoder(ABC):
    """Feed it chunks; `done` is set once the last event was handed out."""

    def __init__(self, provider: str, framing: Framing) -> None:
        self.provider = provider
        self.done = False
        self.message: Message | None = None
        """The whole reply, once it has arrived."""
        self.frames_received = 0
        """How many frames have said something: keep-alives do not count."""
        self.translators: Sequence[Callable[[Iterable[StreamEvent]], Iterable[StreamEvent]]] = ()
        """What the events are told as, where that is not what they are; each takes what the one before gives."""
        self._framing = framing
        self._unknown: set[str] = set()

    @abstractmethod
    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        """The events of one frame; MessageComplete ends the stream. Raises ProviderError on an error frame."""

    @abstractmethod
    def partial(self, status: MessageStatus) -> Message | None:
        """What has arrived so far; calls whose arguments are unfinished keep them as raw_input."""

    def skip_unknown(self, kind: str) -> Iterable[StreamEvent]:
        """An event of a kind that this version does not know: passed over, with one warning a stream and kind."""
        if kind not in self._unknown:
            self._unknown.add(kind)
            logger.warning(
                "%s: the stream event %r is unknown to this version and passed over", self.provider, kind[:80]
            )
        return ()

    def skip_keep_alive(self) -> Iterable[StreamEvent]:
        """A frame that says nothing but that the connection lives."""
        self.frames_received -= 1
        return ()

    def end(self) -> Iterable[StreamEvent]:
        """The bytes are over and no terminal event came. Adapters without a marker of their own decide here."""
        raise StreamTruncatedError(
            "the stream ended before its terminal event: the reply is incomplete, ask again",
            provider=self.provider,
        )

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Never raises: what goes wrong is the last event."""
        if self.done:
            return []
        events: list[StreamEvent] = []
        try:
            for frame in self._framing.feed(chunk):
                self.frames_received += 1
                self._collect(self.read(frame), events)
                if self.done:
                    break
        except DragomanError as error:
            events += self.fail(error)
        except MALFORMED_ERRORS as error:
            events += self.fail(self._malformed_error(error))
        return events

    def finish(self) -> list[StreamEvent]:
        """The end of the bytes: nothing more where the stream is done, else what its terminal rule says."""
        if self.done:
            return []
        events: list[StreamEvent] = []
        try:
            for frame in self._framing.finish():
                if _is_complete(frame.data):
                    self._collect(self.read(frame), events)
            if not self.done:
                self._collect(self.end(), events)
        except DragomanError as error:
            events += self.fail(error)
        except MALFORMED_ERRORS as error:
            events += self.fail(self._malformed_error(error))
        return events

    def fail(self, error: DragomanError) -> list[StreamEvent]:
        """Ends the stream with an error and what had arrived."""
        if self.done:
            return []
        self.done = True
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
        for event in new:
            text = _TEXT_GETTERS.get(type(event))
            if text is not None and not isinstance(text(event), str):
                raise TypeError(f"a {event.type} that is no text")
            events.append(event)
            if text is None and isinstance(event, MessageComplete):
                self.done = True
                self.message = event.message
                return

    def _malformed_error(self, error: Exception) -> MalformedReplyError:
        malformed = MalformedReplyError(
            f"the stream is not what the protocol says: {type(error).__name__}: {error}",
            provider=self.provider,
        )
        malformed.__cause__ = error
        return malformed


def decode_stream(
    chunks: Iterable[bytes],
    decoder: StreamDecoder,
    *,
    idle_timeout: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[StreamEvent]:
    """The events of a stream. Whatever the chunks raise ends it with a typed error.

    ``silence``: the seconds after which a stream that says nothing has stalled, be its connection kept alive or not.
    """
    stall_timer = _StallTimer(decoder, idle_timeout, clock)
    try:
        for chunk in chunks:
            yield from decoder.feed(chunk)
            if decoder.done:
                return
            stall_timer.check(chunk)
    except Exception as error:
        yield from decoder.fail(_as_network_error(error))
        return
    yield from decoder.finish()


async def decode_stream_async(
    chunks: AsyncIterable[bytes],
    decoder: StreamDecoder,
    *,
    idle_timeout: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[StreamEvent, None]:
    """The async twin of `decode`."""
    stall_timer = _StallTimer(decoder, idle_timeout, clock)
    try:
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                yield event
            if decoder.done:
                return
            stall_timer.check(chunk)
    except Exception as error:
        for event in decoder.fail(_as_network_error(error)):
            yield event
        return
    for event in decoder.finish():
        yield event


_MIN_PROGRESS_BYTES = 256
"""Bytes: a larger chunk that completes no frame is a piece of one; a smaller one may be no more than a keep-alive."""


class _StallTimer:
    """How long a stream has said nothing. Comments and pings come from whoever waits himself: they do not count."""

    def __init__(self, decoder: StreamDecoder, idle_timeout: float | None, clock: Callable[[], float]) -> None:
        self._decoder = decoder
        self._timeout = idle_timeout
        self._clock = clock
        self._last_count = decoder.frames_received
        self._last_progress = 0.0 if idle_timeout is None else clock()

    def check(self, chunk: bytes) -> None:
        """Raises RequestTimeoutError if the chunk was none to wait any longer for."""
        if self._timeout is None:
            return
        now = self._clock()
        if self._decoder.frames_received != self._last_count or len(chunk) > _MIN_PROGRESS_BYTES:
            self._last_count, self._last_progress = self._decoder.frames_received, now
        elif now - self._last_progress > self._timeout:
            raise RequestTimeoutError(f"the stream has said nothing for {self._timeout:g} s, though it was kept alive")


def _as_network_error(error: Exception) -> DragomanError:
    if isinstance(error, DragomanError):
        return error
    kind = RequestTimeoutError if isinstance(error, TimeoutError) else NetworkError
    wrapped = kind(f"the connection broke: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


@contextmanager
def wrap_malformed(provider: str, *, request: bool = False) -> Iterator[None]:
    """Turns what a reply, or a request, of the wrong shape raises into MalformedReplyError, or RequestError."""
    try:
        yield
    except RequestError as error:  # of a value in the reply that nothing can write again
        if request:
            raise
        raise MalformedReplyError(f"the reply is not what the protocol says: {error}", provider=provider) from error
    except MALFORMED_ERRORS as error:
        reason = f"{type(error).__name__}: {error}"
        if request:
            raise RequestError(f"this is no request in the format of {provider}: {reason}") from error
        raise MalformedReplyError(f"the reply is not what the protocol says: {reason}", provider=provider) from error


def _is_complete(data: bytes) -> bool:
    if data.strip() == b"[DONE]":
        return True
    try:
        return isinstance(wirejson.loads(data), dict)
    except MalformedReplyError:
        return False


def replay(decoder: StreamDecoder, chunks: Sequence[bytes]) -> list[StreamEvent]:
    """All events of a stream that has already arrived."""
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.finish()
