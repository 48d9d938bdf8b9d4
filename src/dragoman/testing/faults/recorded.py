"""Plans for recorded replies: every kind of fault at every event, every cut and every split."""

import random
from collections.abc import Iterator
from itertools import accumulate

from dragoman.testing.cassettes.file import Exchange
from dragoman.testing.cassettes.replay import Cassette
from dragoman.testing.event_bytes import detect_framing, split_events
from dragoman.testing.faults.plan import (
    Bom,
    Chain,
    Comments,
    Corrupt,
    Cut,
    DropEvent,
    DuplicateEvent,
    LineEnds,
    Plan,
    Rechunk,
    Stall,
    SwapEvents,
)

RecordedReply = bytes | Exchange | Cassette
"""A reply: its body, an exchange, or a cassette, which stands for the exchange that it plays next."""

_RANDOM_CHUNKINGS = 20


def next_exchange(recorded: RecordedReply) -> Exchange | None:
    """The exchange of a reply: None of bytes alone, and of a cassette that is played to its end."""
    if isinstance(recorded, Cassette):
        return next(iter(recorded.remaining), None)
    return recorded if isinstance(recorded, Exchange) else None


def reply_body(recorded: RecordedReply) -> bytes:
    """The bytes of a reply. Of a cassette that is played to its end there are none."""
    exchange = next_exchange(recorded)
    if exchange is not None:
        return exchange.response.body
    return recorded if isinstance(recorded, bytes) else b""


def every_cut(recorded: RecordedReply, *, reset: bool = False) -> Iterator[Cut]:
    """A cut before each byte, so that the whole reply is never among them."""
    return (Cut(at, reset) for at in range(len(reply_body(recorded))))


def every_split(recorded: RecordedReply) -> Iterator[Rechunk]:
    """The whole reply in two chunks, in every way."""
    size = len(reply_body(recorded))
    return (Rechunk((at, size - at)) for at in range(1, size))


def plans(recorded: RecordedReply, seed: int = 0) -> Iterator[Plan]:
    """A plan of every kind at every event: some hundred for a short stream, the same ones for the same seed.

    `every_cut` and `every_split` are not among them: they are as many as the reply has bytes. Nor are `InjectEvent`,
    which takes bytes of yours, and `Mutate`, of which there is no end.
    """
    body = reply_body(recorded)
    events = split_events(body)
    picker = random.Random(seed)
    yield Rechunk((1,))
    yield from (Rechunk(seed=picker.randrange(2**32)) for _ in range(_RANDOM_CHUNKINGS))
    if detect_framing(body).is_text:
        yield from (LineEnds("\r\n"), LineEnds("\r"), Bom(), Comments())
        yield Chain((LineEnds("\r\n"), Comments(), Bom(), Rechunk((1,))))
    starts = [0, *accumulate(map(len, events))][:-1]
    for start, event in zip(starts, events, strict=True):
        for at in sorted({start, start + len(event) // 2}):
            yield from (Cut(at), Cut(at, reset=True), Stall(at))
        yield Corrupt(start + picker.randrange(len(event)), picker.randrange(2**32))
    for number in range(len(events)):
        yield from (DropEvent(number), DuplicateEvent(number))
        if number + 1 < len(events):
            yield SwapEvents(number)
