"""A stream of each framing, the same short reply written by hand on four wires, and how to read its payloads."""

from collections.abc import Callable

from dragoman.adapter.replies.aws_event_stream import AwsEventStreamDecoder
from dragoman.adapter.replies.framing import JsonArrayDecoder, NdjsonDecoder, SseDecoder
from dragoman.adapter.replies.stream_decoder import Framing as FrameDecoder
from dragoman.testing import faults
from dragoman.testing.event_bytes import Framing, event_payload, split_events
from dragoman.testing.sample_reply import SHORT
from tests.laws.wires import handwritten_anthropic, handwritten_bedrock, handwritten_google, handwritten_ollama


def _array() -> bytes:
    """As generateContent answers without ``alt=sse``."""
    events = split_events(handwritten_google.handwritten_stream(SHORT))
    return b"[" + b",\r\n".join(map(event_payload, events)) + b"\n]\n"


BODIES: dict[Framing, bytes] = {
    Framing.SSE: handwritten_anthropic.handwritten_stream(SHORT),
    Framing.LINES: handwritten_ollama.handwritten_stream(SHORT),
    Framing.ARRAY: _array(),
    Framing.AWS: handwritten_bedrock.handwritten_stream(SHORT),
}

_DECODERS: dict[Framing, Callable[[], FrameDecoder]] = {
    Framing.SSE: SseDecoder,
    Framing.LINES: NdjsonDecoder,
    Framing.ARRAY: JsonArrayDecoder,
    Framing.AWS: AwsEventStreamDecoder,
}


def payloads(framing: Framing, body: bytes) -> list[bytes]:
    """What the library's own decoders read; they share no code with the fault plans."""
    decoder = _DECODERS[framing]()
    return [frame.data for frame in [*decoder.feed(body), *decoder.finish()]]


def plans_for(framing: Framing) -> list[faults.Plan]:
    """One or two plans of every kind that fits."""
    body = BODIES[framing]
    half = len(body) // 2
    binary: list[faults.Plan] = [
        faults.Cut(0),
        faults.Cut(half),
        faults.Cut(half, reset=True),
        faults.Cut(len(body), reset=True),
        faults.Stall(half),
        faults.Rechunk((1,)),
        faults.Rechunk((3, 50)),
        faults.Rechunk(seed=8),
        faults.Corrupt(half, seed=2),
        faults.DropEvent(1),
        faults.DuplicateEvent(1),
        faults.SwapEvents(0),
        faults.InjectEvent(1, split_events(body)[2]),
        faults.Mutate(4),
        faults.Chain((faults.DropEvent(0), faults.Cut(9, reset=True))),
    ]
    return (
        binary
        if framing is Framing.AWS
        else [*binary, faults.LineEnds("\r\n"), faults.LineEnds("\r"), faults.Bom(), faults.Comments()]
    )


CASES = [(framing, plan) for framing in BODIES for plan in plans_for(framing)]
