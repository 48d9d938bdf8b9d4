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
"""A reply: its body, an exchange, or a cassette, which means its next exchange."""

_RANDOM_CHUNKINGS = 20


def next_exchange(recorded: RecordedReply) -> Exchange | None:
    """Return the exchange of a reply, or None for bytes and for a cassette without remaining exchanges."""
    if isinstance(recorded, Cassette):
        return next(iter(recorded.remaining), None)
    return recorded if isinstance(recorded, Exchange) else None


def reply_body(recorded: RecordedReply) -> bytes:
    """Return the bytes of a reply. They are empty for a cassette without remaining exchanges."""
    exchange = next_exchange(recorded)
    if exchange is not None:
        return exchange.response.body
    return recorded if isinstance(recorded, bytes) else b""


def every_cut(recorded: RecordedReply, *, reset: bool = False) -> Iterator[Cut]:
    """Yield a cut before each byte, so never the whole reply."""
    return (Cut(at, reset) for at in range(len(reply_body(recorded))))


def every_split(recorded: RecordedReply) -> Iterator[Rechunk]:
    """Yield every split of the whole reply into two chunks."""
    size = len(reply_body(recorded))
    return (Rechunk((at, size - at)) for at in range(1, size))


def plans(recorded: RecordedReply, seed: int = 0) -> Iterator[Plan]:
    """Yield a plan of every kind at every event: about a hundred for a short stream, the same for the same seed.

    They do not include `every_cut` and `every_split`, one plan per byte each, nor `InjectEvent`, which needs your
    bytes, nor `Mutate`, which has endless variants.
    """
    body = reply_body(recorded)
    events = split_events(body)
    rng = random.Random(seed)
    yield Rechunk((1,))
    yield from (Rechunk(seed=rng.randrange(2**32)) for _ in range(_RANDOM_CHUNKINGS))
    if detect_framing(body).is_text:
        yield from (LineEnds("\r\n"), LineEnds("\r"), Bom(), Comments())
        yield Chain((LineEnds("\r\n"), Comments(), Bom(), Rechunk((1,))))
    starts = [0, *accumulate(map(len, events))][:-1]
    for start, event in zip(starts, events, strict=True):
        for at in sorted({start, start + len(event) // 2}):
            yield from (Cut(at), Cut(at, reset=True), Stall(at))
        yield Corrupt(start + rng.randrange(len(event)), rng.randrange(2**32))
    for number in range(len(events)):
        yield from (DropEvent(number), DuplicateEvent(number))
        if number + 1 < len(events):
            yield SwapEvents(number)
