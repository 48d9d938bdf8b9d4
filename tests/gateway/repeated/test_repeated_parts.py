"""What is kept, for whom, how long, and within which memory."""

import gc
import json
import tracemalloc
from typing import Any

import pytest

from dragoman import AdapterOptions, RequestContext, get_adapter
from dragoman.answers import ClientToolIds
from dragoman_gateway.bodies import repeated
from dragoman_gateway.bodies.repeated import LARGEST, SMALLEST, KeptBody, RepeatedParts
from tests.benchmarks.agents.requests import RESULT, body, growing, tools, wire_messages

SECONDS = 60.0
MEGABYTE = 1024 * 1024
CLIENT, TARGET = "anthropic:claude-sonnet-4-6", "openai-chat:gpt-5.2"


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def parts(clock: _Clock) -> RepeatedParts:
    return RepeatedParts(64 * MEGABYTE, SECONDS, clock)


def _read(parts: RepeatedParts, sent: bytes, owner: str = "one") -> KeptBody:
    found = parts.read(owner, sent)
    assert found is not None
    assert found[0] == json.loads(sent)
    return found[1]


def _parts(kept: KeptBody) -> list[Any]:
    return [*kept.items, *(each.part for each in kept.fields.values())]


def _shared(one: KeptBody, other: KeptBody) -> int:
    """The number of parts that two bodies share."""
    known = set(map(id, _parts(one)))
    return sum(id(each) in known for each in _parts(other))


def test_the_next_request_shares_what_it_repeats(parts: RepeatedParts) -> None:
    first, second = (_read(parts, sent) for sent in growing(100, 30, 2))
    assert _shared(first, second) == len(first.items) + 2  # and the tools, and the system prompt
    assert len(second.items) == len(first.items) + 2


def test_nobody_meets_what_another_caller_sent(parts: RepeatedParts) -> None:
    sent = growing(100, 30, 1)[0]
    one, two = _read(parts, sent, "one"), _read(parts, sent, "two")
    assert _shared(one, two) == 0
    assert one.decoded is not two.decoded
    assert one.encodings is not two.encodings


def test_what_was_decoded_goes_on_with_one_conversation(parts: RepeatedParts) -> None:
    """Two requests that go on with the same one at once share the items that it had, and nothing that is made of them:
    what one of them keeps would outlive it with the other."""
    first, second = growing(100, 30, 2)
    before = _read(parts, first)
    one, two = (repeated._read(second.decode(), [before])[1] for _ in range(2))
    parts._put("one", one)
    parts._put("one", two)
    assert one.decoded is before.decoded
    assert one.encodings is before.encodings
    assert _shared(one, two) == len(before.items) + 2
    assert two.decoded is not one.decoded
    assert two.encodings is not one.encodings


def test_a_part_is_kept_for_a_while_after_it_was_last_sent(parts: RepeatedParts, clock: _Clock) -> None:
    sent = growing(100, 30, 1)[0]
    first = _read(parts, sent)
    clock.now += SECONDS - 1
    second = _read(parts, sent)
    assert _shared(first, second)
    clock.now += SECONDS - 1
    assert _shared(first, _read(parts, sent))
    clock.now += SECONDS
    assert not _shared(first, _read(parts, sent))


def test_what_is_forgotten_is_gone(parts: RepeatedParts) -> None:
    sent = growing(100, 30, 1)[0]
    first = _read(parts, sent)
    parts.forget("two")
    assert _shared(first, _read(parts, sent))
    parts.forget("one")
    assert parts.size == 0
    assert not _shared(first, _read(parts, sent))


def test_two_conversations_of_a_caller_stay_apart(parts: RepeatedParts) -> None:
    """Agents have others work for them, under the same key and with the same first message."""
    messages = wire_messages(101)
    other = [messages[0], *({**each, "content": f"{number}: {RESULT}"} for number, each in enumerate(messages[1:]))]
    one, two = _read(parts, body(messages, tools(9))), _read(parts, body([*other, *other], tools(9)))
    assert _shared(one, _read(parts, body([*messages, *messages[1:3]], tools(9)))) == len(one.items) + 2
    assert _shared(two, _read(parts, body([*other, *other, *other], tools(9)))) == len(two.items) + 2


@pytest.mark.parametrize(
    "changes",
    [
        lambda text: text.replace('"max_tokens"', '"model": "x", "max_tokens"'),
        lambda text: text + " 1",
        lambda text: text[:-1],
        lambda text: text.replace('"max_tokens": 1000', '"max_tokens": NaN'),
        lambda text: text.replace('"max_tokens": 1000', f'"max_tokens": {2**70}'),
        lambda text: text.replace('"messages": [', '"messages": [,'),
        lambda text: text.replace('"messages": [', '"messages": ["a", '),
        lambda text: text.replace('"Step 3."', "[" * 300 + "]" * 300),
        lambda text: "[]" + " " * SMALLEST,
        lambda text: text + "," * LARGEST,
    ],
    ids=["twice", "more", "cut", "nan", "large number", "comma", "text", "deep", "list", "large"],
)
def test_anything_unusual_is_read_as_a_whole(parts: RepeatedParts, changes: Any) -> None:
    """Errors are those of the whole body, whatever was known of it."""
    sent = growing(100, 30, 1)[0]
    _read(parts, sent)
    assert parts.read("one", changes(sent.decode()).encode()) is None


def test_a_number_that_goes_on_is_another_number(parts: RepeatedParts) -> None:
    long = "1" * 300
    sent = [json.dumps({"model": "m", "note": 1, "text": "x" * SMALLEST, "messages": [{}]}) for _ in range(2)]
    texts = [sent[0].replace('"note": 1', f'"note": 0.{long}'), sent[1].replace('"note": 1', f'"note": 0.{long}5')]
    for text in texts:
        _read(parts, text.encode())


def _use(kept: KeptBody, sent: bytes) -> None:
    """Decode and encode the request as the gateway does."""
    context = RequestContext(model=TARGET, tool_ids=ClientToolIds())
    fields = json.loads(sent)
    fields[kept.history] = kept.items
    fields["tools"] = kept.fields["tools"].part.value
    context.kept_history, context.kept_tools = kept.decoded, kept.field("tools")
    messages, offered, _ = get_adapter(CLIENT).from_wire_request(fields, context)
    sending = RequestContext(model=TARGET, tool_ids=context.tool_ids, encode_cache=kept.encodings)
    get_adapter(TARGET).to_wire(messages, offered, AdapterOptions(context=sending))


def test_all_that_is_kept_fits_into_its_memory() -> None:
    """Many callers send more than there is room for: parsed, decoded and encoded parts stay within the bound."""
    most = 8 * MEGABYTE
    parts = RepeatedParts(most, SECONDS)
    _use(_read(parts, growing(20, 30, 1)[0], "first"), growing(20, 30, 1)[0])  # what is loaded and cached once
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(16):
            for sent in growing(100 + number, 12 + number, 2):
                sent = sent.replace(b"The most lines", b"Lines %d" % number)
                _use(_read(parts, sent, f"caller {number}"), sent)
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most / 2 < parts.size <= most
    assert used <= most


def test_one_caller_gets_half_of_the_memory_at_most() -> None:
    most = 6 * MEGABYTE
    parts = RepeatedParts(most, SECONDS)
    for number in range(12):
        messages = [{"role": "user", "content": f"Task {number}"}, *wire_messages(201)[1:]]
        _read(parts, body(messages, tools(5)))
    assert most / 4 < parts.size <= most / 2


def test_nothing_is_kept_without_memory() -> None:
    assert RepeatedParts(0, SECONDS).read("one", growing(100, 30, 1)[0]) is None
