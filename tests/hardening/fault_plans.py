"""Fault plans over a stream of every wire, in sessions: each turn ends with the whole reply or with a typed error."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx

from dragoman import Message, Session
from dragoman.errors import DragomanError
from dragoman.testing import faults
from dragoman.testing.faults import Plan, Refusals
from dragoman.testing.sample_reply import SHORT
from tests.laws.streams.subjects import MODELS, create_adapter, handwritten_subject, wires_for

HARMLESS = ("Rechunk", "LineEnds", "Bom", "Comments", "Chain", "Refusals")
"""Plans that change nothing that a reply says."""
SHORTENING = ("Cut", "Stall")
"""Plans after which a reply is whole, or an error: a part of it never counts as complete."""
_MUTATIONS = 200
_WITHOUT_HTTP = ("local", "bedrock", "google-vertex")
"""One is in this process; the others sign their requests, and read wires that are here already, or binary events."""


@dataclass
class Plans:
    """The turns under one kind of plan. ``wrong`` holds those that break a promise."""

    kind: str
    tried: int = 0
    complete: int = 0
    errors: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def enough(self) -> bool:
        return self.tried > 0 and not self.wrong


def plans_for(body: bytes, errors: tuple[bytes, ...], seed: int, stride: int) -> Iterator[Plan | Refusals]:
    """Yield every ``stride``-th plan for a stream."""
    found: list[Plan | Refusals] = [*faults.plans(body, seed)]
    found += [faults.InjectEvent(at, event) for event in errors for at in range(len(faults.split_events(body)))]
    found += [faults.Mutate(number) for number in range(_MUTATIONS)]
    found += [faults.status_then_success(status, {"retry-after": "0"}) for status in (408, 429, 500, 503, 529)]
    return iter(found[random.Random(seed).randrange(stride) :: stride])


def rows(seed: int, stride: int = 1) -> Iterator[Plans]:
    """Run the plans over one stream of each provider."""
    by_kind: dict[str, Plans] = {}
    for provider in MODELS:
        if provider in _WITHOUT_HTTP:
            continue
        adapter = create_adapter(provider)
        subject = handwritten_subject(adapter, wires_for(adapter)[0], SHORT, "plans")
        whole = _run(str(adapter.model_id), subject.body, None)
        for plan in plans_for(subject.body, tuple(event for event, _ in subject.errors), seed, stride):
            row = by_kind.setdefault(type(plan).__name__, Plans(type(plan).__name__))
            _judge(row, f"{provider}, {plan!r:.80}", _run(str(adapter.model_id), subject.body, plan), whole)
    yield from (by_kind[kind] for kind in sorted(by_kind))


def _judge(row: Plans, what: str, ended: Message | Exception, whole: Message | Exception) -> None:
    row.tried += 1
    if isinstance(ended, Message):
        row.complete += 1
        if row.kind in (*HARMLESS, *SHORTENING) and not _is_same(ended, whole):
            row.wrong.append(f"{what}: another reply")
    elif isinstance(ended, DragomanError):
        row.errors += 1
        if row.kind in HARMLESS:
            row.wrong.append(f"{what}: {type(ended).__name__}")
    else:
        row.wrong.append(f"{what}: {type(ended).__name__}: {ended!s:.80}")


def _is_same(one: Message, other: Message | Exception) -> bool:
    """Whether two replies say the same; ids of messages and calls are new in each."""

    def content_of(message: Message) -> object:
        calls = [(call.name, call.input) for call in message.tool_uses]
        return message.text, message.thinking, calls, message.stop_reason

    return isinstance(other, Message) and content_of(one) == content_of(other)


def _run(model: str, body: bytes, plan: Plan | Refusals | None) -> Message | Exception:
    """Stream one turn. Return its last message, or its error: an error leaves no trace in the history."""
    inner = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    transport: httpx.BaseTransport = inner if plan is None else faults.FaultyTransport(inner, plan)
    retries = 1 if isinstance(plan, Refusals) else 0
    with httpx.Client(transport=transport) as client:
        settings = {"client": client, "api_key": "key-of-a-test", "max_retries": retries}
        with Session(model, providers={model.partition(":")[0]: settings}) as session:
            try:
                for _ in session.stream("Hi"):
                    if session.messages[2:]:  # a call of a tool that nobody has would be answered
                        break
            except Exception as error:
                untouched = not session.messages
                return error if untouched or not isinstance(error, DragomanError) else AssertionError("a half turn")
            return session.messages[1]


def lines(tried: Iterator[Plans]) -> Iterator[str]:
    yield f"{'fault plan':<28}{'turns':>8}{'complete':>10}{'typed errors':>14}{'wrong':>7}"
    for row in tried:
        yield f"{row.kind:<28}{row.tried:>8}{row.complete:>10}{row.errors:>14}{len(row.wrong):>7}"
        yield from (f"    {each}" for each in row.wrong[:5])
