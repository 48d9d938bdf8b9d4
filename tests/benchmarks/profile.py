"""Where the time of a stream goes: `python -m tests.benchmarks.profile [WIRE] [spoken|called]`.

Prints two tables for a stream of texts, or of a call's arguments, that arrives at once, without a network: the
microseconds of CPU that each layer takes of one delta, and the functions that it passes through. In the second table
the profiler adds to every call, so only the order counts.
"""

import cProfile
import pstats
import sys
import time
from collections.abc import Callable
from pathlib import Path

from dragoman import RequestContext, get_adapter
from dragoman.adapter import wirejson
from dragoman.adapter.replies.framing import Frame, NdjsonDecoder, SseDecoder
from tests.benchmarks.wires import FRAGMENT, WIRES, MockWire, arguments, words

_DELTAS = 2_000
_SHOWN = 14
_ROUNDS = 40


def _chunk(wire: MockWire, shape: str) -> bytes:
    if shape == "spoken":
        return b"".join(wire.text_stream(words(_DELTAS)))
    return b"".join(wire.call_stream([arguments(_DELTAS * FRAGMENT)]))


def _best(work: Callable[[], object]) -> float:
    """Microseconds of CPU for one delta, in the best of some rounds: the others were disturbed."""
    found = []
    for _ in range(_ROUNDS):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found) / _DELTAS * 1e6


def time_by_floor(wire: MockWire, chunk: bytes) -> dict[str, float]:
    """Microseconds of one delta by layer; each is measured separately, on the output of the one before."""
    adapter = get_adapter(wire.model)

    def frame_body() -> list[Frame]:
        return (SseDecoder() if "event-stream" in wire.kind else NdjsonDecoder()).feed(chunk)

    frames = frame_body()
    data = [frame.data for frame in frames if frame.data != b"[DONE]"]

    def parse_frames() -> None:
        for each in data:
            wirejson.loads(each)

    def read_frames() -> None:
        decoder = adapter.decoder(RequestContext.for_model(wire.model))
        for frame in frames:
            for _ in decoder.read(frame):
                pass

    def decode_body() -> None:
        for _ in adapter.iter_stream([chunk], RequestContext.for_model(wire.model)):
            pass

    framing, parsing, reading, whole = map(_best, (frame_body, parse_frames, read_frames, decode_body))
    return {
        "bytes to frames (`adapter/replies/framing.py`)": framing,
        "the JSON parser (`adapter/wirejson.py`)": parsing,
        "reading, gathering, making the event (`stream.py` of the adapter)": reading - parsing,
        "checking it and passing it on (`adapter/replies/stream_decoder.py`)": whole - framing - reading,
        "all": whole,
    }


def time_by_function(wire: MockWire, chunk: bytes) -> list[tuple[str, float, float]]:
    """How often a delta passes through each function, and the microseconds in it; the most expensive first."""
    adapter, profile = get_adapter(wire.model), cProfile.Profile()
    profile.runcall(lambda: list(adapter.iter_stream([chunk], RequestContext.for_model(wire.model))))
    stats: dict[tuple[str, int, str], tuple[int, int, float]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    found = [
        (f"{Path(path).parent.name}/{Path(path).name}: {name}" if line else name, calls / _DELTAS, own / _DELTAS * 1e6)
        for (path, line, name), (_, calls, own, *_) in stats.items()
    ]
    return sorted(found, key=lambda each: -each[2])[:_SHOWN]


def main(names: list[str]) -> None:
    wire = WIRES[names[0] if names else "messages"]
    chunk = _chunk(wire, names[1] if len(names) > 1 else "spoken")
    print("| floor | microseconds |\n| --- | --- |")
    for floor, taken in time_by_floor(wire, chunk).items():
        print(f"| {floor} | {taken:.2f} |")
    print("\n| function | times | microseconds under the profiler |\n| --- | --- | --- |")
    for name, times, own in time_by_function(wire, chunk):
        print(f"| {name} | {times:.1f} | {own:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
