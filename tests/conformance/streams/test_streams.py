"""Recorded streams, cut and re-chunked at every byte: a stream yields the whole message or a typed error."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise

import pytest

from dragoman import DragomanError
from dragoman.adapter import errors
from dragoman.canonical.events import ErrorEvent, MessageComplete, StreamEvent, ToolUseEnd
from dragoman.canonical.message import Message, MessageStatus
from tests.conformance.adapters import create_adapter, create_context, missing_adapter
from tests.conformance.scope import ADAPTERS, model_name, wire_name
from tests.conformance.streams.recorded import (
    HANDWRITTEN_ERROR_FRAMES,
    SEED,
    SMALL,
    boundaries,
    cuts,
    select_streams,
    terminal_offset,
)
from tests.exchanges import RecordedExchange

pytestmark = pytest.mark.exchanges

RANDOM_CUTTINGS = 200
STEP = 149
"""The default run cuts at one of this many bytes, with another start in each stream."""


@pytest.fixture(params=list(ADAPTERS))
def streams(request: pytest.FixtureRequest) -> list[RecordedExchange]:
    """The chosen streams of one provider whose adapter is installed."""
    provider: str = request.param
    found = select_streams(provider)
    if missing := missing_adapter(provider):
        pytest.skip(missing)
    return found


class TrialCounter:
    """Counts the trials and prints them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tried = 0
        self._failed: list[str] = []
        self._started = time.perf_counter()

    def check(self, exchange: RecordedExchange, where: str, faults: Iterable[str]) -> None:
        found = list(faults)
        self._tried += 1
        if found:
            self._failed.append(f"{exchange.id} {where}: {'; '.join(found)}")

    def close(self, exchanges: Sequence[RecordedExchange]) -> None:
        """Prints the count and fails with the first few faults."""
        seconds = time.perf_counter() - self._started
        size = sum(len(exchange.body) for exchange in exchanges)
        print(
            f"\n{exchanges[0].provider}: {self._name}: {len(exchanges)} streams, {size} bytes: {self._tried} tried, "
            f"{self._tried - len(self._failed)} passed, {len(self._failed)} failed, {seconds:.1f} s"
        )
        assert not self._failed, "\n".join(self._failed[:10])


def test_a_clean_cut_at_every_byte_is_never_a_success(streams: list[RecordedExchange], exhaustive: bool) -> None:
    """A stream that ends early ends in a typed error, and has no content that the whole stream lacks."""
    counter = TrialCounter("clean cuts")
    for exchange in streams:
        whole, end, body = _whole(exchange), terminal_offset(exchange), exchange.body
        for cut in _some(cuts(exchange), exchange, exhaustive):
            events = _decode(exchange, [body[:cut]])
            counter.check(exchange, f"cut at {cut}", _faults(events, whole, early=cut < end))
    counter.close(streams)


def test_a_reset_at_every_byte_is_never_a_success(streams: list[RecordedExchange], exhaustive: bool) -> None:
    """A broken connection gives a typed error, unless the reply was already complete."""
    counter = TrialCounter("resets")
    for exchange in streams:
        whole, end, body = _whole(exchange), terminal_offset(exchange), exchange.body
        model = model_name(exchange)
        adapter = create_adapter(model)
        for cut in [*_some(cuts(exchange), exchange, exhaustive), len(body)]:
            events = list(adapter.iter_stream(_then_reset(body[:cut]), create_context(model)))
            counter.check(exchange, f"reset at {cut}", _faults(events, whole, early=cut < end))
    counter.close(streams)


def test_a_split_at_any_byte_changes_nothing(streams: list[RecordedExchange], exhaustive: bool) -> None:
    """Events do not show the borders of chunks."""
    counter = TrialCounter("splits")
    for exchange in streams:
        whole, body = _whole(exchange), exchange.body
        for cut in _some(cuts(exchange), exchange, exhaustive):
            same = _decode(exchange, [body[:cut], body[cut:]]) == whole
            counter.check(exchange, f"split at {cut}", () if same else ("other events",))
    counter.close(streams)


def test_random_splits_change_nothing(streams: list[RecordedExchange], exhaustive: bool) -> None:
    """Two hundred seeded splits, from single bytes to a few large chunks, and every byte alone."""
    counter = TrialCounter("cuttings")
    for exchange in streams:
        whole, body = _whole(exchange), exchange.body
        picker = random.Random(f"{SEED}/{exchange.id}")
        count = RANDOM_CUTTINGS if len(body) <= SMALL else RANDOM_CUTTINGS // 10
        for number in range(count if exhaustive else 5):
            same = _decode(exchange, _random_chunks(body, picker)) == whole
            counter.check(exchange, f"cutting {number}", () if same else ("other events",))
        single_bytes = [body[index : index + 1] for index in range(len(body))]
        counter.check(exchange, "single bytes", () if _decode(exchange, single_bytes) == whole else ("other events",))
    counter.close(streams)


def test_sync_and_async_streams_agree(streams: list[RecordedExchange], exhaustive: bool) -> None:
    """stream_response and iter_stream give the decoder's events: whole, cut and broken."""
    counter = TrialCounter("twins")
    for exchange in streams:
        whole, end, body = _whole(exchange), terminal_offset(exchange), exchange.body
        model = model_name(exchange)
        adapter = create_adapter(model)
        picker = random.Random(f"{SEED}/{exchange.id}/async")
        for cut in [len(body), *(picker.randrange(len(body)) for _ in range(10 if exhaustive else 3))]:
            chunks = _random_chunks(body[:cut], picker) if cut else []
            sync = list(adapter.iter_stream(chunks, create_context(model)))
            twin = asyncio.run(_collect(exchange, chunks, broken=False))
            counter.check(exchange, f"sync at {cut}", _faults(sync, whole, early=cut < end))
            counter.check(exchange, f"async at {cut}", _faults(twin, whole, early=cut < end))
            counter.check(
                exchange, f"twins at {cut}", () if _comparable(sync) == _comparable(twin) else ("they differ",)
            )
            broken = asyncio.run(_collect(exchange, chunks, broken=True))
            counter.check(exchange, f"async reset at {cut}", _faults(broken, whole, early=cut < end))
    counter.close(streams)


def test_a_handwritten_error_frame_ends_the_stream_anywhere(streams: list[RecordedExchange], exhaustive: bool) -> None:
    """An error after any frame is the last event, has its class, and what follows is not read."""
    counter = TrialCounter("error frames")
    for exchange in streams:
        whole, body = _whole(exchange), exchange.body
        frame, name = HANDWRITTEN_ERROR_FRAMES[wire_name(exchange)]
        for place in _some(boundaries(exchange), exchange, exhaustive, step=5):
            events = _decode(exchange, [body[:place] + frame + body[place:]])
            faults = list(_faults(events, whole, early=True, network=False))
            last = events[-1]
            if not (isinstance(last, ErrorEvent) and isinstance(last.error, getattr(errors, name))):
                faults.append(f"{name} was expected, not {last}")
            counter.check(exchange, f"error at {place}", faults)
    counter.close(streams)


def _some(places: list[int], exchange: RecordedExchange, exhaustive: bool, step: int = STEP) -> list[int]:
    """All places, or one in ``step`` of them."""
    return places if exhaustive else places[random.Random(exchange.id).randrange(step) :: step]


def _decode(exchange: RecordedExchange, chunks: Iterable[bytes]) -> list[StreamEvent]:
    model = model_name(exchange)
    decoder = create_adapter(model).decoder(create_context(model))
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.finish()


@cache
def _whole(exchange: RecordedExchange) -> list[StreamEvent]:
    events = _decode(exchange, [exchange.body])
    assert isinstance(events[-1], MessageComplete), f"{exchange.id} is whole, but gave {events[-1]}"
    return events


def _faults(
    events: Sequence[StreamEvent], whole: Sequence[StreamEvent], *, early: bool, network: bool = True
) -> Iterator[str]:
    """Faults in the events of a part of a stream. ``early``: its terminal event had not arrived."""
    if not events:
        yield "no events at all"
        return
    *before, last = events
    if any(isinstance(event, (MessageComplete, ErrorEvent)) for event in before):
        yield "events after the last event"
    if list(before) != list(whole[: len(before)]):
        yield "the events are not a beginning of those of the whole stream"
    if isinstance(last, MessageComplete):
        if early:
            yield "success before the terminal event"
        elif _without_tier(last) != _without_tier(whole[-1]):
            yield "a different message than that of the whole stream"
    elif isinstance(last, ErrorEvent):
        yield from _error_faults(last, network=network)
        ended = {event.tool_use_id for event in before if isinstance(event, ToolUseEnd)}
        if last.partial is not None:
            yield from _partial_faults(last.partial, whole, ended)
    else:
        yield f"the last event is {last}"


def _without_tier(event: StreamEvent) -> object:
    """A whole message without the served tier, which one router without a marker sends after the counts."""
    assert isinstance(event, MessageComplete)
    message = event.message
    if message.usage is None:
        return message
    usage = message.usage.model_copy(update={"service_tier": None, "raw": None})
    return message.model_copy(update={"metadata": message.metadata.model_copy(update={"usage": usage})})


def _error_faults(event: ErrorEvent, *, network: bool) -> Iterator[str]:
    if not isinstance(event.error, DragomanError):
        yield f"{type(event.error).__name__} is not a DragomanError"
    elif network and not isinstance(event.error, errors.NetworkError):
        yield f"{type(event.error).__name__} is not a NetworkError: {event.error}"


def _partial_faults(partial: Message, whole: Sequence[StreamEvent], ended: set[str]) -> Iterator[str]:
    complete = whole[-1]
    assert isinstance(complete, MessageComplete)
    if partial.metadata.status is not MessageStatus.ERROR:
        yield f"the partial message has the status {partial.metadata.status}"
    if not complete.message.text.startswith(partial.text):
        yield "the partial text is not a beginning of the text"
    inputs = {call.id: call.input for call in complete.message.tool_uses}
    for call in partial.tool_uses:
        if call.id in ended and call.input != inputs[call.id]:
            yield "a finished call lost its input"
        if call.id not in ended and call.input:
            yield "an unfinished call has an input"


def _random_chunks(body: bytes, picker: random.Random) -> list[bytes]:
    """The body in pieces: few or many, at random."""
    pieces = picker.choice((2, 3, 5, 10, 50))
    places = sorted(picker.randrange(1, len(body)) for _ in range(pieces - 1)) if len(body) > 1 else []
    return [body[start:stop] for start, stop in pairwise([0, *places, len(body)])]


def _then_reset(*chunks: bytes) -> Iterator[bytes]:
    yield from chunks
    raise ConnectionResetError("the connection was reset")


async def _collect(exchange: RecordedExchange, chunks: Sequence[bytes], *, broken: bool) -> list[StreamEvent]:
    async def arriving() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
        if broken:
            raise ConnectionResetError("the connection was reset")

    model = model_name(exchange)
    return [event async for event in create_adapter(model).stream_response(arriving(), create_context(model))]


def _comparable(events: Sequence[StreamEvent]) -> list[object]:
    """Events in a comparable form: two errors are equal if class, text and partial message are."""
    return [
        (type(event.error), str(event.error), event.partial) if isinstance(event, ErrorEvent) else event
        for event in events
    ]
