"""One stream and the adapter that reads it, as the stream laws see them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

from dragoman.adapter.contract import Adapter, RequestContext
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.requests.tool_ids import ToolIdMap
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.ids import format_ulid

_NOW = datetime(2026, 11, 21, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StreamSubject:
    """A whole recorded stream, and what is known of its wire apart from the adapter.

    ``ends_at``: bytes that must have arrived before the reply may be called whole; None where that is not known.
    ``errors``: events that report a failure, each with the class it means. ``keep_alive``: an event that says nothing.
    ``whole``: the same reply as one JSON object, where the wire has that form.
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
        """What the untouched stream says."""
        if not self._events:
            self._events.append(tuple(self.play([self.body])))
        return self._events[0]

    def decoder(self) -> StreamDecoder:
        return self.adapter.decoder(self.context())

    def context(self) -> RequestContext:
        """Ids count up from nothing and time stands still, so that the same bytes give equal events."""
        return RequestContext.for_model(
            str(self.adapter.model_id),
            session_id="sess_laws",
            request_id="request",
            tool_ids=ToolIdMap(mint=_counter("tu_")),
            new_id=_counter(""),
            clock=lambda: _NOW,
        )

    def play(self, chunks: Iterable[bytes]) -> list[StreamEvent]:
        """The events of chunks that end cleanly."""
        decoder = self.decoder()
        events: list[StreamEvent] = []
        for chunk in chunks:
            events += decoder.feed(chunk)
        return events + decoder.finish()


def _counter(prefix: str) -> Callable[[], str]:
    numbers = count(1)
    return lambda: prefix + format_ulid(next(numbers))
