"""The laws of streams, for any adapter and any recorded stream that it decodes.

::

    from dragoman.testing.stream_laws import stream_laws

    for verdict in stream_laws(MyAdapter("model"), recorded_bytes):
        assert not verdict.faults, verdict

Each law replays the stream many times, truncated, re-chunked or mutated, and checks the result: the whole reply, or a
typed error with the part that arrived. Nothing waits, and the same seed replays the same bytes.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate, chain, count
from typing import Any

from dragoman.adapter.contract import Adapter, RequestContext
from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.adapter.replies.stream_decoder import StreamDecoder, decode_stream
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.events import ErrorEvent, MessageComplete, StreamEvent
from dragoman.canonical.ids import format_ulid
from dragoman.canonical.message import StopReason
from dragoman.testing.event_bytes import detect_framing, split_events
from dragoman.testing.faults.plan import (
    Bom,
    Comments,
    Cut,
    DropEvent,
    DuplicateEvent,
    InjectEvent,
    LineEnds,
    Mutate,
    Plan,
    Rechunk,
    SwapEvents,
)
from dragoman.testing.stream_checks import (
    call_input_faults,
    events_content,
    matches_expected,
    message_content,
    partial_stream_faults,
    protocol_faults,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StreamSubject:
    """A whole recorded stream, and facts about its wire that do not come from the adapter.

    ``ends_at``: the number of bytes after which the reply is complete, or None if unknown. ``errors``: events that
    report a failure, with their error classes. ``keep_alive``: an event without content. ``whole``: the same reply as
    one JSON object, if the wire has that form.
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
        """The events of the unchanged stream."""
        if not self._events:
            self._events.append(tuple(self.play([self.body])))
        return self._events[0]

    def decoder(self) -> StreamDecoder:
        return self.adapter.decoder(self.context())

    def context(self) -> RequestContext:
        """Return a context with counted ids and a fixed time, so that the same bytes give equal events."""
        return RequestContext.for_model(str(self.adapter.model_id), **fixed_fields("sess_laws"))

    def play(self, chunks: Iterable[bytes]) -> list[StreamEvent]:
        """Return the events of chunks that end cleanly."""
        decoder = self.decoder()
        events: list[StreamEvent] = []
        for chunk in chunks:
            events += decoder.feed(chunk)
        return events + decoder.finish()


def fixed_fields(session_id: str) -> dict[str, Any]:
    """Return the fields of a context with counted ids and a fixed time."""
    return {
        "session_id": session_id,
        "request_id": "request",
        "tool_ids": ToolIdMap(mint=counted_ids("tu_")),
        "new_id": counted_ids(""),
        "clock": lambda: NOW,
    }


def counted_ids(prefix: str) -> Callable[[], str]:
    numbers = count(1)
    return lambda: prefix + format_ulid(next(numbers))


@dataclass(frozen=True, slots=True)
class Trial:
    """One replay: its description, its outcome and its faults."""

    what: str
    faults: tuple[str, ...] = ()
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Effort:
    """The number of replays of one stream. ``replays``: re-chunked ones, or None for all, about six per byte.

    ``mutations``: mutated copies. ``stride``: the bytes between two resets; ``cuts``: those between two clean ends."""

    replays: int | None = None
    mutations: int = 1000
    stride: int = 1
    cuts: int = 1
    seed: int = 20261121
    """The seed of the mutations: the same one replays the same bytes."""


@dataclass(slots=True)
class Verdict:
    """A law's result for one stream: the number of replays, their outcomes and the first faults."""

    law: str
    """The name of the law."""
    tried: int = 0
    """The number of replays."""
    failed: int = 0
    """The number of replays with a fault."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """How the replays ended, each with how often."""
    faults: list[str] = field(default_factory=list)
    """The first faults, each with its replay."""

    def count(self, trial: Trial) -> None:
        """Add one replay."""
        self.tried += 1
        if trial.outcome:
            self.outcomes[trial.outcome] = self.outcomes.get(trial.outcome, 0) + 1
        if trial.faults:
            self.failed += 1
            if len(self.faults) < _MAX_FAULTS_KEPT:
                self.faults.append(f"{trial.what}: {'; '.join(trial.faults)}")


_MAX_FAULTS_KEPT = 10
_MAX_CHUNK_SIZE, _MAX_CHUNK_SIZE_OF_VARIANTS = 64, 8
"""The largest size of equal chunks: for the stream itself, and for its variants."""
_RANDOM_CHUNKINGS = 4


def stream_laws(adapter: Adapter, body: bytes, effort: Effort | None = None, **facts: Any) -> Iterator[Verdict]:
    """Run all laws over one stream. ``facts`` are the other fields of `StreamSubject`.

    If the adapter cannot decode the unchanged stream, that is one fault, and no law is tried.
    """
    subject, effort = StreamSubject(adapter, body, **facts), effort or Effort()
    if not isinstance(subject.events[-1], MessageComplete):
        yield Verdict("untouched", 1, 1, faults=[f"the untouched stream ends with {subject.events[-1]}"])
        return
    for name in LAWS:
        yield run_law(name, subject, effort)


def run_law(law: str, subject: StreamSubject, effort: Effort) -> Verdict:
    """Run one law over one stream."""
    found = Verdict(law)
    for trial in LAWS[law](subject, effort):
        found.count(trial)
    return found


def clean_cuts(subject: StreamSubject, effort: Effort) -> Iterator[Trial]:
    """Cut before any byte with a clean end: a typed error, or the same message if its last event had arrived."""
    for at in range(0, len(subject.body), effort.cuts):
        events = subject.play([subject.body[:at]])
        yield _cut_trial(subject, f"cut at {at}", at, events)


def resets(subject: StreamSubject, effort: Effort) -> Iterator[Trial]:
    """The same with a connection that breaks."""
    for at in (*range(0, len(subject.body), effort.stride), len(subject.body)):
        events = list(decode_stream(Cut(at, reset=True).apply(subject.body), subject.decoder()))
        yield _cut_trial(subject, f"reset at {at}", at, events)


def _cut_trial(subject: StreamSubject, what: str, at: int, events: list[StreamEvent]) -> Trial:
    early = subject.ends_at is not None and at < subject.ends_at
    faults = tuple(partial_stream_faults(events, subject.events, early=early, network=True))
    return Trial(what, faults, events[-1].type if events else "nothing")


def chunkings(subject: StreamSubject, effort: Effort) -> Iterator[Trial]:
    """Other chunks, line ends, comments, keep-alives and a byte order mark change nothing, down to the ids."""
    whole = list(subject.events)
    bodies = {"as it is": subject.body}  # in every spelling that means the same
    if subject.keep_alive:
        bodies["pings"] = b"".join(subject.keep_alive + event for event in split_events(subject.body))
    if detect_framing(subject.body).is_text:
        for spelling in (LineEnds("\n"), LineEnds("\r\n"), LineEnds("\r"), Bom(), Comments()):
            bodies[str(spelling)] = b"".join(spelling.apply(subject.body))
    for name, body in bodies.items():
        yield _same_events(subject, name, [body], whole)
    for name, plan in _chunking_plans(bodies, effort):
        yield _same_events(subject, f"{name}, {plan}", plan.apply(bodies[name]), whole)


def _same_events(subject: StreamSubject, what: str, chunks: Any, whole: list[StreamEvent]) -> Trial:
    return Trial(what) if subject.play(chunks) == whole else Trial(what, ("other events",))


def _chunking_plans(bodies: dict[str, bytes], effort: Effort) -> Iterator[tuple[str, Plan]]:
    """Ways to cut each spelling: what every effort tries first, then the two-way splits, drawn by the seed."""
    rng = random.Random(effort.seed)
    always: list[tuple[str, Plan]] = []
    splits: list[tuple[str, Plan]] = []
    for number, (name, body) in enumerate(bodies.items()):
        always += [
            (name, Rechunk((size,)))
            for size in range(1, (_MAX_CHUNK_SIZE_OF_VARIANTS if number else _MAX_CHUNK_SIZE) + 1)
        ]
        always += [(name, Rechunk(seed=rng.randrange(2**32))) for _ in range(_RANDOM_CHUNKINGS)]
        splits += [(name, Rechunk((at, len(body) - at))) for at in range(1, len(body))]
    if effort.replays is not None and len(always) + len(splits) > effort.replays:
        if len(always) > effort.replays:
            always = rng.sample(always, effort.replays)
        splits = rng.sample(splits, effort.replays - len(always))
    yield from always
    yield from splits


def foldings(subject: StreamSubject, effort: Effort) -> Iterator[Trial]:
    """The deltas add up to the message, in the order that consumers rely on."""
    faults = [*protocol_faults(subject.events), *call_input_faults(subject.events)]
    last = subject.events[-1]
    if isinstance(last, MessageComplete):
        from_deltas, from_message = events_content(subject.events), message_content(last.message)
        if not matches_expected(from_message, from_deltas):
            faults.append(f"the deltas say {from_deltas}, the message {from_message}")
    yield Trial("the deltas", tuple(faults))


def twins(subject: StreamSubject, effort: Effort) -> Iterator[Trial]:
    """The same reply unstreamed is the same message: content, reason to stop, model, usage and cost."""
    if subject.whole is None:
        return
    last = subject.events[-1]
    assert isinstance(last, MessageComplete)
    streamed = last.message
    try:
        reply = subject.adapter.from_wire_response(WireResponse(200, subject.whole), subject.context())
    except DragomanError as error:
        yield Trial("unstreamed", (f"the whole reply is refused: {error}",))
        return
    faults: list[str] = []
    if (one := message_content(streamed)) != (other := message_content(reply)):
        faults.append(f"streamed {one}, unstreamed {other}")
    if [type(block) for block in streamed.content] != [type(block) for block in reply.content]:
        faults.append("other blocks")
    pairs: list[tuple[str, Any, Any]] = [
        (name, getattr(streamed.metadata, name), getattr(reply.metadata, name))
        for name in ("model", "stop_reason", "status")
    ]
    ours, theirs = streamed.usage, reply.usage
    if ours is not None and theirs is not None:
        names = [name for name in type(ours).model_fields if name != "raw"]
        pairs += [(f"usage.{name}", getattr(ours, name), getattr(theirs, name)) for name in names]
    else:
        pairs.append(("usage", ours, theirs))
    faults += [f"{name}: streamed {ours}, unstreamed {theirs}" for name, ours, theirs in pairs if ours != theirs]
    yield Trial("unstreamed", tuple(faults))


def edits(subject: StreamSubject, effort: Effort) -> Iterator[Trial]:
    """An event lost, doubled or moved: a typed error, the same message, or what the remaining events say."""
    # What each event of the body, and then its end, makes the untouched stream say.
    decoder = subject.decoder()
    events_by_frame, end = [decoder.feed(event) for event in split_events(subject.body)], decoder.finish()
    numbers = range(len(events_by_frame))
    for n in numbers:
        yield _try_edit(subject, DropEvent(n), [*events_by_frame[:n], *events_by_frame[n + 1 :], end])
        yield _try_edit(subject, DuplicateEvent(n), [*events_by_frame[: n + 1], *events_by_frame[n:], end])
    for n in numbers[:-1]:
        yield _try_edit(
            subject,
            SwapEvents(n),
            [*events_by_frame[:n], events_by_frame[n + 1], events_by_frame[n], *events_by_frame[n + 2 :], end],
        )


def _try_edit(subject: StreamSubject, plan: Plan, events_by_frame: list[list[StreamEvent]]) -> Trial:
    events = subject.play(plan.apply(subject.body))
    faults = list(protocol_faults(events))
    last, due = events[-1], subject.events[-1]
    assert isinstance(due, MessageComplete)
    if isinstance(last, ErrorEvent):
        return Trial(str(plan), tuple(faults), "a typed error")
    if not isinstance(last, MessageComplete):
        return Trial(str(plan), tuple(faults))
    if last == due:
        return Trial(str(plan), tuple(faults), "the same message")
    # A lost or moved event may make these fields unknown, but must not change them. On some wires silence means an
    # ordinary stop.
    reason, usage, whole = last.message.stop_reason, last.message.usage, due.message.usage
    if reason not in (None, due.message.stop_reason, StopReason.TOOL_USE, StopReason.END_TURN):
        faults.append(f"the reason to stop became {reason}")
    if usage is not None and whole is not None and usage.total_tokens != whole.total_tokens:
        faults.append(f"the usage became {usage.total_tokens} tokens, from {whole.total_tokens}")
    result = message_content(last.message)
    remaining: list[StreamEvent] = []
    for event in chain.from_iterable(events_by_frame):
        remaining.append(event)
        if isinstance(event, MessageComplete):
            break
    allowed = [message_content(due.message), *(events_content(remaining, by_id=by_id) for by_id in (True, False))]
    if not any(matches_expected(result, each) for each in allowed):
        faults.append(f"says {result}, which the remaining events do not")
    return Trial(str(plan), tuple(faults), "what its events say")


def error_events(subject: StreamSubject, effort: Effort) -> Iterator[Trial]:
    """An error between any two events is the last event, and of the class that it means."""
    ends = [0, *accumulate(map(len, split_events(subject.body)[:-1]))]  # the number of bytes before each event
    places = [at for at, end in enumerate(ends) if subject.ends_at is None or end < subject.ends_at]
    for event, kind in subject.errors:
        for at in places:
            plan = InjectEvent(at, event)
            events = subject.play(plan.apply(subject.body))
            faults = list(partial_stream_faults(events, subject.events, early=True, network=False))
            last = events[-1]
            if not (isinstance(last, ErrorEvent) and isinstance(last.error, kind)):
                faults.append(f"{kind.__name__} was expected, not {last}")
            yield Trial(f"{kind.__name__} before event {at}", tuple(faults))


def mutations(subject: StreamSubject, effort: Effort) -> Iterator[Trial]:
    """Spoilt in any way: a message or a typed error, in the order that consumers rely on."""
    rng = random.Random(f"{effort.seed}/{subject.name}")
    for _ in range(effort.mutations):
        plan = Mutate(rng.randrange(2**48))
        try:
            events = subject.play(plan.apply(subject.body))
        except Exception as error:
            yield Trial(str(plan), (f"{type(error).__name__}: {error}",), "an untyped error")
            continue
        outcome = events[-1].type if events else "nothing"
        yield Trial(str(plan), tuple(protocol_faults(events)), outcome)


def mutated_replies(subject: StreamSubject, effort: Effort) -> Iterator[Trial]:
    """The same for the whole reply."""
    if subject.whole is None:
        return
    rng = random.Random(f"{effort.seed}/{subject.name}/whole")
    for _ in range(effort.mutations // 4):
        plan = Mutate(rng.randrange(2**48))
        body = b"".join(plan.apply(subject.whole))
        try:
            subject.adapter.from_wire_response(WireResponse(200, body), subject.context())
        except DragomanError:
            yield Trial(str(plan), (), "error")
        except Exception as error:
            yield Trial(str(plan), (f"{type(error).__name__}: {error}",), "an untyped error")
        else:
            yield Trial(str(plan), (), "message_complete")


StreamLaw = Callable[[StreamSubject, Effort], Iterator[Trial]]

_LAWS: tuple[StreamLaw, ...] = (
    clean_cuts, resets, chunkings, foldings, twins, edits, error_events, mutations, mutated_replies,
)  # fmt: skip
LAWS = {law.__name__.replace("_", " "): law for law in _LAWS}
