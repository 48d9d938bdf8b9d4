"""How one reply is read: what a caller receives of it, and when, and which outcome it has."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import MalformedReplyError, RateLimitError, StreamTruncatedError
from dragoman.adapter.wire import AttemptRecord, Headers, WireResponse
from dragoman.attempt.reply_reader import ReplyReader, apply_stages
from dragoman.canonical.events import ErrorEvent, MessageComplete, MessageStart, StreamEvent, TextDelta, UsageUpdate
from dragoman.canonical.message import Message, MessageMetadata, MessageStatus, StopReason
from dragoman.canonical.usage import Usage
from dragoman.effects import Abandoned, Broken, Failed, Perform, Replied, ResponseDetails, drive

MODEL = "anthropic:claude-haiku-4-5"
START = MessageStart("msg_1", MODEL)
USAGE = UsageUpdate("msg_1", Usage(input_tokens=5))
TEXT, MORE = TextDelta("msg_1", 0, "Hel"), TextDelta("msg_1", 0, "lo")
REPLY = Message.assistant("Hello")
PARTIAL = Message.assistant("Hel").model_copy(update={"metadata": MessageMetadata(status=MessageStatus.CANCELLED)})
EMPTY = PARTIAL.model_copy(update={"content": ()})
BEGUN = Message.assistant("x").model_copy(update={"content": (PARTIAL.content[0].model_copy(update={"text": ""}),)})
ERROR = StreamTruncatedError("cut", provider="anthropic")
UNREADABLE = MalformedReplyError("not JSON", provider="anthropic")
RECORD = AttemptRecord(1, 200, None)
RESPONSE = WireResponse(status=200, headers=Headers({"request-id": "req_1"}), body=b"", attempts=(RECORD,))


class FakeDecoder:
    """A decoder that ends in the given events, and notes how it was set up."""

    def __init__(self, message: Message | None = None, ending: Sequence[StreamEvent] = ()) -> None:
        self.message = message
        self.joins = False
        self.failed_with: Exception | None = None
        self._ending = ending

    def join_text(self) -> None:
        self.joins = True

    def fail(self, error: Exception) -> Sequence[StreamEvent]:
        self.failed_with = error
        return self._ending


class Reading:
    """A reader whose clock counts the times that it was asked."""

    def __init__(self, decoder: FakeDecoder | None = None, *, joins_text: bool = False, answered: bool = True) -> None:
        self.decoder = decoder or FakeDecoder()
        adapter: Any = SimpleNamespace(
            provider="anthropic", model="claude-haiku-4-5", reply_decoder=lambda context: self.decoder
        )
        times = iter(range(10, 100))
        context = RequestContext.for_model(MODEL)
        self.reader = ReplyReader(adapter, context, lambda: float(next(times)), joins_text=joins_text)
        if answered:
            self.reader.response = RESPONSE


def details(first: float | None, seconds: float) -> ResponseDetails:
    return ResponseDetails(200, RESPONSE.headers, (RECORD,), first, seconds)


class TestEvents:
    def test_the_opening_is_held_back_until_the_first_content(self) -> None:
        """Nothing was seen before, so that the request can be sent again."""
        reader = Reading().reader
        assert list(reader.feed([START])) == []
        assert list(reader.feed([USAGE])) == []
        assert list(reader.feed([TEXT])) == [START, USAGE, TEXT]
        assert list(reader.feed([MORE, USAGE])) == [MORE, USAGE]
        assert reader.outcome is None

    def test_the_end_is_an_outcome_and_no_event(self) -> None:
        reader = Reading().reader
        reader.feed([START, TEXT])
        assert list(reader.feed([MORE, MessageComplete(REPLY)])) == [MORE]
        assert reader.outcome == Replied(REPLY, details(1.0, 2.0))

    def test_a_reply_without_content_releases_its_opening_once(self) -> None:
        reader = Reading().reader
        assert list(reader.feed([START, USAGE, MessageComplete(REPLY)])) == [START, USAGE]
        assert reader.outcome == Replied(REPLY, details(None, 1.0))
        assert list(reader.feed([MessageComplete(REPLY)])) == []

    def test_no_events_are_none(self) -> None:
        reader = Reading().reader
        assert list(reader.feed([])) == []
        reader.feed([TEXT])
        assert list(reader.feed([])) == []

    def test_an_error_breaks_the_reply(self) -> None:
        reader = Reading().reader
        reader.feed([START, TEXT])
        error = RateLimitError("slow down", provider="anthropic")
        assert list(reader.feed([ErrorEvent(error, PARTIAL)])) == []
        assert reader.outcome == Broken(error, PARTIAL, True, details(1.0, 2.0))
        assert (error.partial, error.request_id) == (PARTIAL, "req_1")

    def test_an_error_before_any_content_was_not_seen(self) -> None:
        reader = Reading().reader
        reader.feed([START, ErrorEvent(ERROR, None)])
        assert reader.outcome == Broken(ERROR, None, False, details(None, 1.0))

    def test_a_stream_that_cannot_be_read_has_an_unknown_cost(self) -> None:
        reader = Reading().reader
        reader.feed([START, ErrorEvent(UNREADABLE, None)])
        assert isinstance(reader.outcome, Broken)
        assert reader.outcome.partial is not None
        assert reader.outcome.partial.metadata.status is MessageStatus.ERROR

    def test_an_error_that_is_not_of_a_provider_keeps_its_facts(self) -> None:
        reader, error = Reading().reader, ValueError("a bug")
        reader.feed([ErrorEvent(error, PARTIAL)])  # type: ignore[arg-type]
        assert reader.outcome == Broken(error, PARTIAL, False, details(None, 1.0))
        assert not hasattr(error, "partial")

    def test_an_error_without_a_response_is_broken_all_the_same(self) -> None:
        reader = Reading(answered=False).reader
        reader.feed([ErrorEvent(RateLimitError("no", provider="anthropic"), None)])
        assert isinstance(reader.outcome, Broken)
        assert reader.outcome.response is None

    @pytest.mark.parametrize("joins", [True, False])
    def test_text_is_joined_on_request(self, joins: bool) -> None:
        reading = Reading(joins_text=joins)
        assert reading.reader.decoder is reading.reader.decoder is reading.decoder  # type: ignore[comparison-overlap]
        assert reading.decoder.joins is joins

    def test_text_is_not_joined_by_itself(self) -> None:
        decoder = FakeDecoder()
        adapter: Any = SimpleNamespace(reply_decoder=lambda context: decoder)
        assert ReplyReader(adapter, RequestContext.for_model(MODEL), lambda: 0.0).decoder is decoder  # type: ignore[comparison-overlap]
        assert not decoder.joins


class TestFailures:
    def test_without_a_response_the_attempt_failed(self) -> None:
        reader = Reading(answered=False).reader
        reader.fail(ERROR)
        assert reader.outcome == Failed(ERROR)

    @pytest.mark.parametrize("before", [[], [TEXT], [TEXT, MORE]])
    def test_what_a_stage_refuses_has_arrived(self, before: list[StreamEvent]) -> None:
        reader = Reading().reader
        reader.receive([*before, MessageComplete(REPLY)])
        reader.receive([TEXT])
        reader.fail(ERROR)
        assert reader.outcome == Broken(ERROR, REPLY, False, details(None, 1.0))

    @pytest.mark.parametrize(("left", "kept"), [(PARTIAL, PARTIAL), (EMPTY, EMPTY), (BEGUN, BEGUN), (None, None)])
    def test_the_part_that_arrived_is_kept(self, left: Message | None, kept: Message | None) -> None:
        """One without content, too: its usage is billed."""
        reading = Reading(FakeDecoder(ending=[TEXT, ErrorEvent(ERROR, left)]))
        reading.reader.decoder  # noqa: B018 - a stream has begun
        reading.reader.fail(ERROR)
        outcome = reading.reader.outcome
        assert isinstance(outcome, Broken)
        assert outcome.partial is kept

    @pytest.mark.parametrize("fail", [ReplyReader.fail, ReplyReader.fail_unreadable])
    def test_a_reply_that_cannot_be_read_has_an_unknown_cost(self, fail: Callable[..., None]) -> None:
        reader = Reading().reader
        fail(reader, UNREADABLE)
        outcome = reader.outcome
        assert isinstance(outcome, Broken)
        assert (outcome.seen, outcome.response) in [(False, details(None, 1.0)), (False, details(None, 2.0))]
        assert outcome.partial is not None
        assert (outcome.partial.content, outcome.partial.usage) == ((), None)
        assert outcome.partial.metadata.status is MessageStatus.ERROR

    def test_the_part_of_an_unreadable_reply_is_kept(self) -> None:
        reader, error = Reading().reader, MalformedReplyError("not JSON", provider="anthropic")
        error.partial = PARTIAL
        reader.fail_unreadable(error)
        assert reader.outcome == Broken(error, PARTIAL, False, details(None, 1.0))


class TestCallersWhoLeave:
    def test_before_a_response_nothing_is_known(self) -> None:
        assert Reading(answered=False).reader.abandon() == Abandoned()

    def test_a_whole_reply_that_had_begun(self) -> None:
        assert Reading().reader.abandon() == Abandoned(response=details(None, 1.0))

    def test_a_reply_that_had_ended_is_kept_as_cancelled(self) -> None:
        reading = Reading(FakeDecoder(REPLY))
        reading.reader.decoder  # noqa: B018
        outcome = reading.reader.abandon()
        assert outcome.partial is not None
        assert (outcome.partial.content, outcome.response) == (REPLY.content, details(None, 1.0))
        metadata = outcome.partial.metadata
        assert (metadata.status, metadata.stop_reason) == (MessageStatus.CANCELLED, StopReason.CANCELLED)

    @pytest.mark.parametrize(
        ("left", "expected"),
        [
            (PARTIAL, Abandoned(PARTIAL, response=details(None, 1.0))),
            (EMPTY, Abandoned(billed=EMPTY, response=details(None, 1.0))),
            (BEGUN, Abandoned(billed=BEGUN, response=details(None, 1.0))),
            (None, Abandoned(response=details(None, 1.0))),
        ],
    )
    def test_the_part_that_arrived_is_kept(self, left: Message | None, expected: Abandoned) -> None:
        reading = Reading(FakeDecoder(ending=[TEXT, ErrorEvent(ERROR, left)]))
        reading.reader.decoder  # noqa: B018
        assert reading.reader.abandon() == expected
        assert getattr(reading.decoder.failed_with, "error_class", None) == "cancelled"


def test_each_stage_gets_what_the_one_before_returned() -> None:
    def double(event: StreamEvent) -> Sequence[StreamEvent]:
        return event, event

    def wait(event: StreamEvent) -> Perform:
        return Perform(lambda: (event, MORE), lambda: None)  # type: ignore[arg-type,return-value]

    assert drive(apply_stages((), TEXT)) == (TEXT,)
    assert list(drive(apply_stages((double, wait), TEXT))) == [TEXT, MORE, TEXT, MORE]
