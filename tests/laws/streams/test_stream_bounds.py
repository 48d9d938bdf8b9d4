"""However large or odd a stream is, reading it takes bounded work and memory; nothing here looks at a clock."""

import gc
import logging
import random
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from dragoman.adapter.errors import FrameTooLargeError
from dragoman.adapter.replies.framing import LineSplitter
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.canonical.events import ErrorEvent
from dragoman.testing.event_bytes import Framing, detect_framing, replace_payload, split_events
from dragoman.testing.faults.plan import Mutate
from dragoman.testing.sample_reply import SampleReply
from tests.laws.streams.call_counts import bytes_touched, calls_of
from tests.laws.streams.subjects import MODELS, SEED, create_adapter, missing_adapters, stream_subjects, wires_for

MIB = 1024 * 1024
FRAME_CAP, BODY_CAP = 16 * MIB, 64 * MIB


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL, "dragoman"):
        yield


@pytest.fixture(params=sorted(MODELS))
def provider(request: pytest.FixtureRequest) -> str:
    """A provider with an adapter of its own; its decoder is also that of all rows of tables."""
    name: str = request.param
    known = missing_adapters()
    if name not in known or known[name]:
        pytest.skip(known.get(name) or f"no adapter {name} is registered")
    return name


def framing_and_decoder(provider: str) -> tuple[Framing, StreamDecoder]:
    subject = stream_subjects(provider)[0]
    return detect_framing(subject.body), subject.decoder()


def last_error(decoder: StreamDecoder, chunks: Iterator[bytes]) -> Exception | None:
    """The last event, once the stream has ended; the rest of the chunks is not fed."""
    for chunk in chunks:
        for event in decoder.feed(chunk):
            if isinstance(event, ErrorEvent):
                return event.error
    return None


@pytest.mark.exhaustive
def test_twice_the_line_is_twice_the_work(provider: str, exhaustive: bool) -> None:
    """A text of twice the size in pieces of one KiB touches about twice the bytes."""

    def work(size: int) -> tuple[int, int]:
        sample = SampleReply((), ("x" * size,), (), False, 1, 0, 1)
        body = wires_for(create_adapter(provider))[0].stream(sample)
        chunks = [body[start : start + 1024] for start in range(0, len(body), 1024)]
        first, second = framing_and_decoder(provider)[1], framing_and_decoder(provider)[1]
        touched = bytes_touched(lambda: [first.feed(chunk) for chunk in chunks])
        return touched, calls_of(lambda: [second.feed(chunk) for chunk in chunks])

    full = (8 if exhaustive else 4) * MIB  # below a MiB, the values of a frame need not be counted
    (small, few), (large, many) = work(full // 2), work(full)
    assert large < 2.1 * small
    assert many < 2.1 * few
    assert small < 60 * full // 2


class CountingBuffer(bytearray):
    """Counts the bytes that are copied into it, or with it into something else."""

    copied = 0

    def __iadd__(self, other: object) -> "CountingBuffer":
        assert isinstance(other, bytes)
        self.copied += len(other)
        self.extend(other)
        return self

    def __add__(self, other: object) -> bytes:  # type: ignore[override]
        assert isinstance(other, bytes)
        self.copied += len(self) + len(other)
        return bytes(self) + other


def test_a_line_is_copied_twice_for_any_pieces() -> None:
    """Once into the buffer and once out of it: eight MiB in pieces of one KiB are sixteen."""
    splitter, buffer = LineSplitter(FRAME_CAP), CountingBuffer()
    splitter._line = buffer
    pieces = 8 * 1024
    for _ in range(pieces):
        assert not list(splitter.feed(b"x" * 1024))
    (line,) = splitter.feed(b"\n")
    assert len(line) == pieces * 1024
    assert buffer.copied <= 2 * len(line) + 1024


def test_a_frame_over_sixteen_mebibytes_ends_the_stream(provider: str) -> None:
    """Its end is not waited for, and it is not kept."""
    framing, decoder = framing_and_decoder(provider)
    start = {Framing.SSE: b"data: ", Framing.LINES: b'{"text": "', Framing.AWS: _prelude(FRAME_CAP + 1)}[framing]
    error = last_error(decoder, chain([start], repeat(b"x" * MIB, 17)))
    assert isinstance(error, FrameTooLargeError)


@pytest.mark.exhaustive
def test_a_body_over_sixty_four_mebibytes_ends_the_stream(provider: str) -> None:
    """Also one of keep-alives only, of which no frame is too large."""
    framing, decoder = framing_and_decoder(provider)
    silence = {
        Framing.SSE: b":" + b"x" * (MIB - 2) + b"\n",
        Framing.LINES: b" " * (MIB - 1) + b"\n",
        Framing.AWS: replace_payload(
            split_events(stream_subjects(provider)[0].body)[0], b'{"p": "' + b"x" * MIB + b'"}'
        ),
    }[framing]
    opening = split_events(stream_subjects(provider)[0].body)[:1] if framing is Framing.AWS else []
    fed = 0

    def chunks() -> Iterator[bytes]:
        nonlocal fed
        for chunk in chain(opening, repeat(silence if framing is not Framing.AWS else _unknown(silence), 70)):
            fed += len(chunk)
            yield chunk

    error = last_error(decoder, chunks())
    assert isinstance(error, FrameTooLargeError)
    assert BODY_CAP < fed <= BODY_CAP + 2 * MIB


def _prelude(total: int) -> bytes:
    lengths = struct.pack(">II", total, 0)
    return lengths + struct.pack(">I", zlib.crc32(lengths))


def _unknown(message: bytes) -> bytes:
    """The binary message under the name of an unknown event."""
    renamed = message.replace(b"messageStart", b"messageOther", 1)
    headers_end = 12 + int.from_bytes(message[4:8])
    return replace_payload(renamed, renamed[headers_end:-4])


def test_corrupt_streams_cost_work_linear_in_their_bytes(provider: str, exhaustive: bool) -> None:
    """Whatever a stream declares, there are only a few calls for each of its bytes."""
    subject = stream_subjects(provider)[0]
    picker = random.Random(SEED)
    calls_of(lambda: subject.play([subject.body]))  # caches that are made once
    for _ in range(200 if exhaustive else 15):
        plan = Mutate(picker.randrange(2**48))
        body = b"".join(plan.apply(subject.body))
        calls = calls_of(lambda body=body: subject.play([body]))  # type: ignore[misc]
        assert calls < 3000 + 10 * len(body), plan


@pytest.mark.usefixtures("quick_gc")
def test_corrupt_streams_leave_nothing_in_memory(provider: str, exhaustive: bool) -> None:
    """Three hundred of them take less than 16 MiB at their peak, and are gone afterwards."""
    subject = stream_subjects(provider)[0]
    picker = random.Random(SEED)
    plans = [Mutate(picker.randrange(2**48)) for _ in range(300 if exhaustive else 8)]
    for plan in plans[:100]:
        subject.play(plan.apply(subject.body))
    gc.collect()
    tracemalloc.start()
    try:
        for plan in plans:
            subject.play(plan.apply(subject.body))
        gc.collect()
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB
    assert left < MIB
