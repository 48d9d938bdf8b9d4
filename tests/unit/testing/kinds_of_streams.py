"""A stream of each framing, the same short reply written by hand on four wires, and how to read its payloads."""

from collections.abc import Callable

from dragoman.adapter.decoding import Framing as FrameDecoder
from dragoman.adapter.event_stream import EventStreamDecoder
from dragoman.adapter.framing import JsonArrayDecoder, NdjsonDecoder, SseDecoder
from dragoman.testing.event_bytes import Framing, events_of, payload_of
from dragoman.testing.fault_plans import (
    Bom,
    Chain,
    Comments,
    Corrupt,
    Cut,
    DropEvent,
    DuplicateEvent,
    InjectEvent,
    LineEnds,
    Plan,
    Rechunk,
    Stall,
    SwapEvents,
)
from dragoman.testing.mutation import Mutate
from tests.laws.streams import handwritten_anthropic, handwritten_bedrock, handwritten_google, handwritten_ollama
from tests.laws.streams.said import handwritten_short


def _array() -> bytes:
    """As generateContent answers without ``alt=sse``."""
    events = events_of(handwritten_google.handwritten_stream(handwritten_short()))
    return b"[" + b",\r\n".join(map(payload_of, events)) + b"\n]\n"


BODIES: dict[Framing, bytes] = {
    Framing.SSE: handwritten_anthropic.handwritten_stream(handwritten_short()),
    Framing.LINES: handwritten_ollama.handwritten_stream(handwritten_short()),
    Framing.ARRAY: _array(),
    Framing.AWS: handwritten_bedrock.handwritten_stream(handwritten_short()),
}

_DECODERS: dict[Framing, Callable[[], FrameDecoder]] = {
    Framing.SSE: SseDecoder,
    Framing.LINES: NdjsonDecoder,
    Framing.ARRAY: JsonArrayDecoder,
    Framing.AWS: EventStreamDecoder,
}


def payloads(framing: Framing, body: bytes) -> list[bytes]:
    """What the library's own decoders read, which share no code with the fault plans."""
    decoder = _DECODERS[framing]()
    return [frame.data for frame in [*decoder.feed(body), *decoder.finish()]]


def plans_for(framing: Framing) -> list[Plan]:
    """One or two plans of every kind that fits."""
    body = BODIES[framing]
    half = len(body) // 2
    binary: list[Plan] = [
        Cut(0),
        Cut(half),
        Cut(half, reset=True),
        Cut(len(body), reset=True),
        Stall(half),
        Rechunk((1,)),
        Rechunk((3, 50)),
        Rechunk(seed=8),
        Corrupt(half, seed=2),
        DropEvent(1),
        DuplicateEvent(1),
        SwapEvents(0),
        InjectEvent(1, events_of(body)[2]),
        Mutate(4),
        Chain((DropEvent(0), Cut(9, reset=True))),
    ]
    return binary if framing is Framing.AWS else [*binary, LineEnds("\r\n"), LineEnds("\r"), Bom(), Comments()]


CASES = [(framing, plan) for framing in BODIES for plan in plans_for(framing)]
