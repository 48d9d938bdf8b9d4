"""Laws of replies: framing and streams, over each wire that the kit was given."""

import math
from collections.abc import Callable, Iterator

from dragoman.adapter.decoding import decode
from dragoman.adapter.errors import FrameTooLargeError, MalformedReplyError
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import StopReason
from dragoman.testing import stream_laws
from dragoman.testing.conformance.said import SHORT, Said
from dragoman.testing.conformance.subject import Subject, fitted
from dragoman.testing.conformance.wire import Wire
from dragoman.testing.event_bytes import events_of
from dragoman.testing.fault_plans import Rechunk
from dragoman.testing.stream_judging import told_by_message
from dragoman.testing.stream_laws import Trial
from dragoman.testing.stream_subject import StreamSubject

StreamLaw = Callable[[StreamSubject, stream_laws.Effort], Iterator[Trial]]


def stream_of(subject: Subject, wire: Wire, said: Said) -> StreamSubject:
    """A reply as the stream laws see it."""
    body = wire.stream(said)
    return StreamSubject(
        subject.adapter,
        body,
        subject.model,
        ends_at=wire.ends_at(body),
        errors=wire.errors,
        keep_alive=wire.keep_alive,
        whole=wire.whole(said),
    )


def _over_wires(law: StreamLaw, subject: Subject) -> Iterator[Trial]:
    for wire in subject.spoken():
        stream = stream_of(subject, wire, fitted(subject.effort.spoilt, wire))
        if not isinstance(stream.events[-1], MessageComplete):
            yield Trial("the untouched stream", (f"it ends with {stream.events[-1]}",))
            continue
        yield from law(stream, subject.effort.streams)


def says_what_was_said(subject: Subject) -> Iterator[Trial]:
    """Text, thinking and calls of a reply are those that the wire told, streamed and whole, and so is why it ended."""
    for wire in subject.spoken():
        for number, said in enumerate(subject.said(wire)):
            last = subject.streamed(wire, said)[-1]
            if not isinstance(last, MessageComplete):
                yield Trial(f"reply {number}", (f"the stream ends with {last}",))
                continue
            for way, message in (("streamed", last.message), ("whole", subject.reply(wire, said))):
                told, due = told_by_message(message), said.told
                faults = [] if told == due else [f"it says {told}, not {due}"]
                reason = StopReason.TOOL_USE if said.calls else StopReason.MAX_TOKENS if said.cut else None
                if message.stop_reason is not (reason or StopReason.END_TURN):
                    faults.append(f"it stopped by {message.stop_reason}")
                yield Trial(f"reply {number}, {way}", tuple(faults))


def chunks(subject: Subject) -> Iterator[Trial]:
    """Other chunks, line ends, comments, keep-alives and a byte order mark change nothing, down to the ids."""
    yield from _over_wires(stream_laws.chunkings, subject)


def caps(subject: Subject) -> Iterator[Trial]:
    """A frame, or a whole stream, that is larger than its cap is a FrameTooLargeError, however it is cut."""
    for wire in subject.spoken():
        body = wire.stream(fitted(SHORT, wire))
        largest = max(map(len, events_of(body)))
        for name, caps in (("frame_cap", largest // 4), ("body_cap", len(body) // 2)):
            for size in (1, math.ceil(len(body) / 3), len(body)):
                context = subject.context(**{name: caps})
                last = list(decode(Rechunk((size,)).apply(body), subject.adapter.decoder(context)))[-1]
                typed = isinstance(last, ErrorEvent) and isinstance(last.error, FrameTooLargeError)
                yield Trial(f"{name} in chunks of {size}", () if typed else (f"the last event is {last}",))


def broken_characters(subject: Subject) -> Iterator[Trial]:
    """Bytes that are no UTF-8 or no JSON, in a reply or a stream, are a MalformedReplyError, not text."""
    for wire in subject.spoken():
        whole, stream = wire.whole(fitted(SHORT, wire)), wire.stream(fitted(SHORT, wire))
        for name, spoilt in (("no UTF-8", whole.replace("😀".encode(), b"\xf0\x9f")), ("half of it", whole[:-7])):
            yield Trial(f"{name}, whole", tuple(_whole_faults(subject, spoilt)))
        if b"\0" in stream:  # binary messages have checksums, which the mutations try
            continue
        events = list(decode([stream.replace("😀".encode(), b"\xf0\x9f")], subject.adapter.decoder(subject.context())))
        typed = isinstance(events[-1], ErrorEvent) and isinstance(events[-1].error, MalformedReplyError)
        yield Trial("no UTF-8, streamed", () if typed else (f"the last event is {events[-1]}",))


def _whole_faults(subject: Subject, body: bytes) -> Iterator[str]:
    try:
        reply = subject.adapter.from_wire_response(WireResponse(200, body), subject.context())
    except MalformedReplyError:
        return
    except Exception as error:
        yield f"{type(error).__name__}: {error}"
    else:
        yield f"read as {told_by_message(reply)}"


def keeps_to_its_context(subject: Subject) -> Iterator[Trial]:
    """Message ids, call ids, times and the session come from the context, so that a replay is the same."""
    for wire in subject.spoken():
        said = fitted(SHORT, wire)
        one, two = (subject.streamed(wire, said) for _ in range(2))
        yield Trial("streamed", () if one == two else ("other events the second time",))
        first, second = (subject.reply(wire, said, subject.context(session_id="sess_other")) for _ in range(2))
        faults = [] if first == second else ["another message the second time"]
        faults += [] if first.session_id == "sess_other" else [f"it belongs to {first.session_id!r}"]
        faults += [] if first.metadata.provider == subject.provider else [f"its provider is {first.metadata.provider}"]
        yield Trial("whole", tuple(faults))


def _law(law: StreamLaw) -> Callable[[Subject], Iterator[Trial]]:
    """A law of `dragoman.testing.stream_laws` over the wires of the kit."""

    def check(subject: Subject) -> Iterator[Trial]:
        yield from _over_wires(law, subject)

    check.__doc__ = law.__doc__
    return check


STREAM_LAWS = {name: _law(law) for name, law in stream_laws.LAWS.items() if law is not stream_laws.chunkings}
