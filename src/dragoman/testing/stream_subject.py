"""One stream and its adapter: the subject of the stream laws."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

from dragoman.adapter.contract import Adapter, RequestContext
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.ids import format_ulid

_NOW = datetime(2026, 11, 21, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StreamSubject:
    """A whole recorded stream, and facts about its wire that do not come from the adapter.

    ``ends_at``: the number of bytes after which the reply is complete, or None if unknown. ``errors``: events that
    report a failure, with their error classes. ``keep_alive``: an event without content. ``whole``: the same reply as
    one JSON object, if the wire has that form.
    """

    adapter: Adapter
    body: bytes
    name: str = "the stream"
    ends_at: int | None = None
    errors: tuple[tuple[bytes, type[ProviderError]], ...] = ()
    keep_alive: bytes = b""
    whole: bytes | None = None
    _events: list[tuple[StreamEvent, ...]] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def events(self) -> tuple[StreamEvent, ...]:
        """The events of the unchanged stream."""
        if not self._events:
            self._events.append(tuple(self.play([self.body])))
        return self._events[0]

    def decoder(self) -> StreamDecoder:
        return self.adapter.decoder(self.context())

    def context(self) -> RequestContext:
        """Return a context with counted ids and a fixed time, so that the same bytes give equal events."""
        return RequestContext.for_model(
            str(self.adapter.model_id),
            session_id="sess_laws",
            request_id="request",
            tool_ids=ToolIdMap(mint=_counter("tu_")),
            new_id=_counter(""),
            clock=lambda: _NOW,
        )

    def play(self, chunks: Iterable[bytes]) -> list[StreamEvent]:
        """Return the events of chunks that end cleanly."""
        decoder = self.decoder()
        events: list[StreamEvent] = []
        for chunk in chunks:
            events += decoder.feed(chunk)
        return events + decoder.finish()


def _counter(prefix: str) -> Callable[[], str]:
    numbers = count(1)
    return lambda: prefix + format_ulid(next(numbers))
