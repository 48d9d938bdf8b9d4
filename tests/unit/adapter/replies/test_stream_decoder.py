"""The decoder that all streams share: every stream ends with a message or an error."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import (
    DragomanError,
    FrameTooLargeError,
    MalformedReplyError,
    NetworkError,
    RateLimitError,
    RequestCancelledError,
    StreamTruncatedError,
)
from dragoman.adapter.replies.error_context import malformed_reply, malformed_request
from dragoman.adapter.replies.stream_decoder import replay
from dragoman.canonical.events import ErrorEvent, MessageComplete, StreamEvent
from dragoman.canonical.message import MessageStatus
from tests.unit.adapter.toy_adapter import ToyAdapter, ToyDecoder, lines, pieces

HELLO = lines('{"text": "Hel"}', '{"text": "lo"}', '{"done": true}')


def context() -> RequestContext:
    return RequestContext(model="toy:m")


def failure(events: list[StreamEvent]) -> ErrorEvent:
    last = events[-1]
    assert isinstance(last, ErrorEvent)
    return last


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_stream_becomes_its_message(size: int) -> None:
    """However it is cut; nothing follows the last event."""
    events = replay(ToyDecoder(context()), [*pieces(HELLO, size), lines('{"text": "more"}')])
    assert [event.type for event in events] == ["message_start", "text_delta", "text_delta", "message_complete"]
    assert isinstance(events[-1], MessageComplete)
    assert events[-1].message.text == "Hello"


def test_a_stream_cut_anywhere_is_reported_as_truncated() -> None:
    """At every byte before the end of the terminal event, the result is an error with the partial message."""
    whole = HELLO.rstrip(b"\n")
    for length in range(len(whole)):
        cut = failure(replay(ToyDecoder(context()), [whole[:length]]))
        assert isinstance(cut.error, StreamTruncatedError)
        assert cut.error.provider == "toy"
        assert cut.partial is None or "Hello".startswith(cut.partial.text)
    assert isinstance(replay(ToyDecoder(context()), [whole])[-1], MessageComplete)


@pytest.mark.parametrize(
    ("line", "kind", "pattern"),
    [
        ('{"error": "slow down"}', RateLimitError, "slow down"),
        ('{"text": 1', MalformedReplyError, "not valid JSON"),
        ("[1]", MalformedReplyError, "a JSON list, not an object"),
        ('{"typ": 1}', MalformedReplyError, "KeyError"),
        ('{"text": 7}', MalformedReplyError, "ValidationError|TypeError"),
        ('{"text": "\\ud800"}', MalformedReplyError, "not valid JSON"),
        *((f'{{"crash": "{name}"}}', MalformedReplyError, f"{name}: crashed") for name in (
            "IndexError", "TypeError", "ValueError", "AttributeError", "RecursionError", "OverflowError",
            "ZeroDivisionError",
        )),
    ],
)  # fmt: skip
def test_every_failure_is_a_typed_error_with_the_partial_message(
    line: str, kind: type[DragomanError], pattern: str
) -> None:
    """The provider's own error, broken JSON, a wrong shape, a number out of range: feed raises nothing."""
    event = failure(replay(ToyDecoder(context()), [lines('{"text": "Hel"}', line, '{"done": true}')]))
    assert type(event.error) is kind
    assert str(event.error).startswith("toy: ")
    assert event.partial is None or event.partial.metadata.status is MessageStatus.ERROR
    with pytest.raises(kind, match=pattern):
        raise event.error


def test_an_oversized_frame_ends_the_stream_after_its_predecessors() -> None:
    """The texts before it are events, and in the partial message."""
    small = RequestContext(model="toy:m", frame_cap=20)
    events = replay(ToyDecoder(small), [lines('{"text": "Hel"}', '{"text": "' + "x" * 20 + '"}')])
    assert [event.type for event in events] == ["message_start", "text_delta", "error"]
    assert isinstance(failure(events).error, FrameTooLargeError)
    partial = failure(events).partial
    assert partial is not None
    assert partial.text == "Hel"


def test_a_cancelled_stream_has_that_status() -> None:
    """The partial message has the status of its error; a second failure changes nothing."""
    decoder = ToyDecoder(context())
    decoder.feed(lines('{"text": "Hel"}'))
    event = failure(decoder.fail(RequestCancelledError("enough")))
    assert event.partial is not None
    assert event.partial.metadata.status is MessageStatus.CANCELLED
    assert decoder.fail(RequestCancelledError("again")) == decoder.feed(HELLO) == decoder.finish() == []


def test_an_unreadable_partial_message_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised although the partial data is unreadable."""

    def broken(self: ToyDecoder, status: MessageStatus) -> None:
        raise MalformedReplyError("half a block")

    monkeypatch.setattr(ToyDecoder, "partial", broken)
    event = failure(replay(ToyDecoder(context()), [HELLO[:20]]))
    assert event.partial is None
    assert isinstance(event.error, StreamTruncatedError)


def test_unknown_events_are_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """One warning for each stream and kind, however many events there are."""
    with caplog.at_level(logging.WARNING, "dragoman.adapter"):
        events = replay(ToyDecoder(context()), [lines('{"type": "mood"}', '{"type": "mood"}') + HELLO])
    assert isinstance(events[-1], MessageComplete)
    assert [record.getMessage() for record in caplog.records] == [
        "toy: the stream event 'mood' is unknown to this version and is ignored"
    ]


def breaking() -> Iterator[bytes]:
    yield HELLO[:20]
    raise ConnectionResetError("reset by peer")


async def asynchronous(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize("chunks", [lambda: pieces(HELLO, 5), breaking, lambda: iter([HELLO, HELLO])])
def test_sync_and_async_streams_agree(chunks: Callable[[], Iterator[bytes]]) -> None:
    """Sync and async run one decoder; a broken connection is a NetworkError in both."""

    async def collect() -> list[StreamEvent]:
        return [event async for event in ToyAdapter("m").stream_response(asynchronous(iter(chunks())), context())]

    sync, other = list(ToyAdapter("m").iter_stream(chunks(), context())), asyncio.run(collect())
    assert [event.type for event in sync] == [event.type for event in other]
    if chunks is breaking:
        error = failure(sync).error
        assert isinstance(error, NetworkError)
        assert str(error) == "toy: the connection broke: ConnectionResetError: reset by peer"
        assert isinstance(error.__cause__, ConnectionResetError)
        assert str(failure(other).error) == str(error)


def test_nothing_is_read_after_the_last_event() -> None:
    """The connection may stay open: both iterators end at once."""
    read_on: list[str] = []

    def endless() -> Iterator[bytes]:
        yield HELLO
        read_on.append("more")

    async def collect() -> list[StreamEvent]:
        return [event async for event in ToyAdapter("m").stream_response(asynchronous(endless()), context())]

    assert len(list(ToyAdapter("m").iter_stream(endless(), context()))) == len(asyncio.run(collect())) == 4
    assert read_on == []


def test_a_malformed_reply_and_a_malformed_request_differ() -> None:
    """An invalid reply is the provider's fault, an invalid request the caller's."""
    missing = KeyError("a")
    assert str(malformed_reply("toy", missing)) == "toy: the reply does not follow the protocol: KeyError: 'a'"
    expected = "this is not a request in the format of toy: the field 'a' is missing"
    assert str(malformed_request("toy", missing)) == expected
