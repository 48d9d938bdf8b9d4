"""Laws of tool ids, as the wire shows them: legal, distinct, paired, and never changing."""

from collections.abc import Iterator

from dragoman.canonical.message import Message
from dragoman.testing.conformance.generate import History
from dragoman.testing.conformance.subject import ParsedRequest, Subject, fit_to_wire, over_histories
from dragoman.testing.sample_reply import SHORT
from dragoman.testing.stream_laws import Trial


@over_histories
def results_match_calls(subject: Subject, history: History) -> Iterator[str]:
    """On the wire every call is followed by exactly one answer, and every answer belongs to a call."""
    subject.require_tools()
    calls: list[str] = []
    answered: list[str] = []
    for message in subject.read(subject.write(history, subject.tools)).messages:
        for result in message.tool_results:
            if result.tool_use_id not in calls:
                yield f"an answer to {result.tool_use_id}, which no earlier message called"
            answered.append(result.tool_use_id)
        calls += [use.id for use in message.tool_uses]
    if sorted(calls) != sorted(answered):
        yield f"{len(calls)} calls, and answers to {len(set(answered))} of them, {len(answered)} in all"


@over_histories
def ids_are_legal(subject: Subject, history: History) -> Iterator[str]:
    """Each id on the wire follows the declared rule, or was issued by the provider itself."""
    subject.require_tools()
    rule = subject.adapter.capabilities.tool_id_rule
    notes = [message.metadata.provider_raw or {} for message in history]
    own = [raw.get("tool_ids", {}) for raw in notes if raw.get("by") == subject.provider]
    issued = {native for ids in own for native in ids.values()}
    ids = _native_call_ids(subject, subject.read(subject.write(history, subject.tools)))
    yield from (f"the id {each!r} is not legal" for each in ids if not rule.accepts(each) and each not in issued)
    if len(set(ids)) != len(ids):
        yield f"two calls share an id: {ids}"


@over_histories
def ids_never_change(subject: Subject, history: History) -> Iterator[str]:
    """A call keeps its id in all later requests; the map survives a restart."""
    subject.require_tools()
    context = subject.context()
    before: dict[str, str] = {}
    for end in range(1, len(history) + 1):
        subject.write(history[:end], subject.tools, context=context)
        sent = dict(context.tool_ids.dump()["sent"].get(subject.provider, {}))
        yield from (
            f"{one} was {before[one]}, and is {sent.get(one)}" for one in before if sent.get(one) != before[one]
        )
        before = sent
    restored = type(context.tool_ids).load(context.tool_ids.dump())
    rule = subject.adapter.capabilities.tool_id_rule
    changed = [one for one, wire in before.items() if restored.id_for(one, subject.provider, rule) != wire]
    yield from (f"{one} is another id after a restart" for one in changed)


def issuer_ids_round_trip(subject: Subject) -> Iterator[Trial]:
    """A provider gets each call back under its own id; the same id in two replies is two calls."""
    subject.require_tools()
    for wire in subject.require_wires():
        context = subject.context()
        replies = [subject.reply(wire, fit_to_wire(SHORT, wire), context) for _ in range(2)]
        uses = [use for reply in replies for use in reply.tool_uses]
        faults = [] if len({use.id for use in uses}) == len(uses) else ["two calls got one id of ours"]
        native = [context.tool_ids.native_id(use.id, subject.provider) for use in uses]
        issued = [call.id for _ in replies for call in SHORT.calls if f'{call.id}"'.encode() in wire.whole(SHORT)]
        if issued and not all(one in (each or "") for one, each in zip(issued, native, strict=False)):
            faults.append(f"the wire has the ids {issued}, and the adapter knows {native}")
        history = [Message.user("Look.")]
        for reply in replies:
            history += [reply, *(Message.tool(use.id, f"Answer to {use.id}") for use in reply.tool_uses)]
        read = subject.read(subject.write(history, subject.tools, context=context))
        sent = _native_call_ids(subject, read)
        first = [each for each in native[: len(replies[0].tool_uses)] if each]
        faults += [] if sent[: len(first)] == first else [f"{first} went back as {sent[: len(first)]}"]
        faults += [] if len(set(sent)) == len(sent) else [f"two calls share an id: {sent}"]
        results = [result.tool_use_id for message in read.messages for result in message.tool_results]
        pairs = zip(results, _call_ids(read), strict=False)
        faults += ["an answer names another call than its own"] if any(one != two for one, two in pairs) else []
        yield Trial("two replies with the same ids", tuple(faults))


def _call_ids(read: ParsedRequest) -> list[str]:
    return [use.id for message in read.messages for use in message.tool_uses]


def _native_call_ids(subject: Subject, read: ParsedRequest) -> list[str]:
    """The ids of the calls on the wire; none if the wire has no field for them."""
    return [native for use in _call_ids(read) if (native := read.ids.native_id(use, subject.provider))]
