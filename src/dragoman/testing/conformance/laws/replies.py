"""Laws of replies: framing and streams, for each wire of the suite."""

import math
from collections.abc import Callable, Iterator

from dragoman.adapter.errors import DragomanError, FrameTooLargeError, MalformedReplyError
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import ProviderBlock
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message, StopReason
from dragoman.testing import stream_laws
from dragoman.testing.conformance.subject import (
    NotTriedError,
    Subject,
    collect_texts,
    fit_to_wire,
    last_event,
    losses_of_message,
    parse_body,
)
from dragoman.testing.conformance.wire import UNKNOWN, Wire
from dragoman.testing.event_bytes import split_events
from dragoman.testing.faults.plan import Rechunk
from dragoman.testing.sample_reply import SHORT
from dragoman.testing.stream_checks import message_content
from dragoman.testing.stream_laws import StreamLaw, StreamSubject, Trial


def _over_wires(law: StreamLaw) -> Callable[[Subject], Iterator[Trial]]:
    """A law of `dragoman.testing.stream_laws` over the wires of the kit."""

    def check(subject: Subject) -> Iterator[Trial]:
        for wire in subject.require_wires():
            sample = fit_to_wire(subject.effort.mutated, wire)
            body = wire.stream(sample)
            stream = StreamSubject(
                subject.adapter,
                body,
                subject.model,
                ends_at=wire.ends_at(body),
                errors=wire.errors,
                keep_alive=wire.keep_alive,
                whole=wire.whole(sample),
            )
            if isinstance(stream.events[-1], MessageComplete):
                yield from law(stream, subject.effort.streams)
            else:
                yield Trial("the untouched stream", (f"it ends with {stream.events[-1]}",))

    check.__doc__ = law.__doc__
    return check


chunks = _over_wires(stream_laws.chunkings)
STREAM_LAWS = {name: _over_wires(law) for name, law in stream_laws.LAWS.items() if law is not stream_laws.chunkings}


def decodes_what_was_sent(subject: Subject) -> Iterator[Trial]:
    """A decoded reply has the text, thinking, calls, stop reason and model of the wire, streamed and whole."""
    for wire in subject.require_wires():
        for number, sample in enumerate(subject.sample_replies(wire)):
            streamed, whole = (subject.context(model=f"{subject.provider}:the-one-asked-for") for _ in range(2))
            last = subject.stream_events(wire, sample, streamed)[-1]
            if not isinstance(last, MessageComplete):
                yield Trial(f"reply {number}", (f"the stream ends with {last}",))
                continue
            for mode, message in (("streamed", last.message), ("whole", subject.reply(wire, sample, whole))):
                content, expected = message_content(message), sample.content
                faults = [] if content == expected else [f"it says {content}, not {expected}"]
                reason = StopReason.TOOL_USE if sample.calls else StopReason.MAX_TOKENS if sample.truncated else None
                if message.stop_reason is not (reason or StopReason.END_TURN):
                    faults.append(f"it stopped by {message.stop_reason}")
                if wire.model and message.metadata.model != f"{subject.provider}:{wire.model}":
                    faults.append(f"its model is {message.metadata.model}, and the wire says {wire.model}")
                yield Trial(f"reply {number}, {mode}", tuple(faults))


def caps(subject: Subject) -> Iterator[Trial]:
    """A frame or a stream that is larger than its cap raises FrameTooLargeError, in any chunks."""
    for wire in subject.require_wires():
        body = wire.stream(fit_to_wire(SHORT, wire))
        largest = max(map(len, split_events(body)))
        for name, caps in (("frame_cap", largest // 4), ("body_cap", len(body) // 2)):
            for size in (1, math.ceil(len(body) / 3), len(body)):
                last = last_event(subject, Rechunk((size,)).apply(body), **{name: caps})
                typed = isinstance(last, ErrorEvent) and isinstance(last.error, FrameTooLargeError)
                yield Trial(f"{name} in chunks of {size}", () if typed else (f"the last event is {last}",))


def broken_characters(subject: Subject) -> Iterator[Trial]:
    """Bytes that are not UTF-8 or not JSON, in a reply or a stream, raise MalformedReplyError, and are not text; JSON
    that is not a reply is an error as well."""
    for wire in subject.require_wires():
        whole, stream = wire.whole(fit_to_wire(SHORT, wire)), wire.stream(fit_to_wire(SHORT, wire))
        for body in (b"{}", b"[]", b"null", b'"So"'):
            yield Trial(f"{body.decode()} for a reply", tuple(_whole_faults(subject, body, DragomanError)))
        for name, corrupted in (("no UTF-8", whole.replace("😀".encode(), b"\xf0\x9f")), ("half of it", whole[:-7])):
            yield Trial(f"{name}, whole", tuple(_whole_faults(subject, corrupted)))
        if b"\0" in stream:  # binary messages have checksums, which the mutations try
            continue
        last = last_event(subject, [stream.replace("😀".encode(), b"\xf0\x9f")])
        typed = isinstance(last, ErrorEvent) and isinstance(last.error, MalformedReplyError)
        yield Trial("no UTF-8, streamed", () if typed else (f"the last event is {last}",))


def _whole_faults(subject: Subject, body: bytes, due: type[DragomanError] = MalformedReplyError) -> Iterator[str]:
    try:
        reply = subject.adapter.from_wire_response(WireResponse(200, body), subject.context())
    except due:
        return
    except Exception as error:
        yield f"{type(error).__name__}: {error}"
    else:
        yield f"read as {message_content(reply)}"


def keeps_what_is_unknown(subject: Subject) -> Iterator[Trial]:
    """An unknown block of a reply is kept for its provider, who gets it back; an unknown event changes no message."""
    wires = [wire for wire in subject.require_wires() if wire.unknown_block or wire.unknown_event]
    if not wires:
        raise NotTriedError("the wire's `unknown_block` and `unknown_event` are empty")
    for wire in wires:
        if wire.unknown_block:
            yield Trial("a block", tuple(_unknown_block_faults(subject, wire)))
        if wire.unknown_event:
            body = wire.stream(fit_to_wire(SHORT, wire))
            events = split_events(body)
            due = _streamed_content(subject, body)
            for at in range(1, len(events)):
                changed = b"".join([*events[:at], wire.unknown_event, *events[at:]])
                found = _streamed_content(subject, changed)
                yield Trial(f"an event before event {at}", () if found == due else (f"{found}, not {due}",))


def _streamed_content(subject: Subject, body: bytes) -> object:
    """Return what a stream says, or its last event if that is an error."""
    last = last_event(subject, [body])
    return message_content(last.message) if isinstance(last, MessageComplete) else last


def _unknown_block_faults(subject: Subject, wire: Wire) -> Iterator[str]:
    response = WireResponse(200, wire.unknown_block, {"content-type": "application/json"})
    reply = subject.adapter.from_wire_response(response, subject.context())
    kept = [
        block for block in reply.content if isinstance(block, ProviderBlock) and UNKNOWN in collect_texts(block.data)
    ]
    if not kept:
        yield f"it is none of the blocks {[block.type for block in reply.content]}"
    elif kept[0].provider != subject.provider:
        yield f"it belongs to {kept[0].provider}"
    request = subject.write([Message.user("Look."), reply, Message.user("And?")])
    if UNKNOWN not in collect_texts(parse_body(request.body)) and not losses_of_message(request.losses, reply):
        yield "it does not go back, and no loss says so"


def uses_its_context(subject: Subject) -> Iterator[Trial]:
    """Message ids, call ids, times and the session come from the context, so a replay gives the same result."""
    for wire in subject.require_wires():
        sample = fit_to_wire(SHORT, wire)
        one, two = (subject.stream_events(wire, sample) for _ in range(2))
        yield Trial("streamed", () if one == two else ("other events the second time",))
        first, second = (subject.reply(wire, sample, subject.context(session_id="sess_other")) for _ in range(2))
        faults = [] if first == second else ["another message the second time"]
        faults += [] if first.session_id == "sess_other" else [f"it belongs to {first.session_id!r}"]
        faults += [] if first.metadata.provider == subject.provider else [f"its provider is {first.metadata.provider}"]
        yield Trial("whole", tuple(faults))
