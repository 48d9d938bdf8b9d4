"""Reads one reply for a driver: decides which events the caller receives, and what the outcome is."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dragoman.adapter.contract import Adapter, RequestContext
from dragoman.adapter.errors import MalformedReplyError, ProviderError, RequestCancelledError
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.events import ErrorEvent, MessageComplete, MessageStart, StreamEvent, UsageUpdate
from dragoman.canonical.message import Message, MessageStatus, StopReason
from dragoman.effects import Abandoned, Broken, Failed, Perform, Replied, ResponseDetails, SendOutcome, Stage, Work

if TYPE_CHECKING:
    from dragoman.adapter.replies.stream_decoder import StreamDecoder
    from dragoman.transport import AsyncStreamedReply, StreamedReply


class ReplyReader:
    """Reads the reply to one attempt. ``outcome`` is set at the end.

    The opening events of a stream are held back until its first content, so that an early failure can still be retried.
    """

    def __init__(
        self, adapter: Adapter, context: RequestContext, clock: Callable[[], float], *, joins_text: bool = False
    ) -> None:
        """``clock`` returns seconds. ``joins_text``: text of a stream that arrives together may be one delta."""
        self._adapter = adapter
        self._context = context
        self._joins_text = joins_text
        self._decoder: StreamDecoder | None = None
        self.outcome: SendOutcome | None = None
        self._clock = clock
        self._started_at = clock()
        self.response: WireResponse | StreamedReply | AsyncStreamedReply | None = None
        """Set by the driver as soon as the response has begun."""
        self._first_event_at: float | None = None
        self._opening: list[StreamEvent] = []
        self._seen = False
        self._complete_reply: Message | None = None
        """The whole reply as it arrived, before any stage."""

    @property
    def decoder(self) -> "StreamDecoder":
        """The decoder of a streamed reply."""
        if self._decoder is None:
            self._decoder = self._adapter.reply_decoder(self._context)
            if self._joins_text:
                self._decoder.join_text()
        return self._decoder

    def receive(self, events: Sequence[StreamEvent]) -> None:
        """Note events as they arrived, before any stage: what a stage refuses has arrived all the same."""
        if isinstance(events[-1], MessageComplete):
            self._complete_reply = events[-1].message

    def feed(self, events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """Return the events that the caller may receive now. ``events`` are those that the stages returned.

        The final event is not among them: the caller receives message_complete when the message is kept.
        """
        if self._seen and events and not isinstance(events[-1], (MessageComplete, ErrorEvent)):
            return events
        released: list[StreamEvent] = []
        for event in events:
            match event:
                case MessageComplete():
                    released += self._opening
                    self._opening = []
                    self.outcome = Replied(event.message, self._timed_response())
                case ErrorEvent():
                    if isinstance(event.error, ProviderError):
                        event.error.partial = event.partial
                        if self.response is not None:
                            # Imported late: few replies break off.
                            from dragoman.adapter.replies.error_context import add_response_facts

                            add_response_facts(event.error, self._adapter.provider, self.response.headers)
                    partial = event.partial or self._unknown_reply(event.error)
                    self.outcome = Broken(event.error, partial, self._seen, self._timed_response())
                case MessageStart() | UsageUpdate() if not self._seen:
                    self._opening.append(event)
                case _:
                    if not self._seen:
                        self._seen, self._first_event_at = True, self._clock()
                        released += self._opening
                        self._opening = []
                    released.append(event)
        return released

    def fail(self, error: Exception) -> None:
        """Set the outcome after an exception: of the request, or of a stage."""
        if self.response is None:
            self.outcome = Failed(error)
            return
        partial = self._complete_reply
        if partial is None:
            abandoned = self.abandon()
            partial = abandoned.partial or abandoned.billed or self._unknown_reply(error)
        self.outcome = Broken(error, partial, self._seen, self._timed_response())

    def fail_unreadable(self, error: ProviderError) -> None:
        """Set the outcome after a whole reply that cannot be decoded."""
        partial = error.partial or self._unknown_reply(error)
        self.outcome = Broken(error, partial, False, self._timed_response())

    def _unknown_reply(self, error: Exception) -> Message | None:
        """Return a reply without content for one that cannot be read: its cost is unknown."""
        if not isinstance(error, MalformedReplyError):
            return None
        from dragoman.adapter.replies.reply_builder import ReplyBuilder  # imported late, as above

        reply, model = ReplyBuilder(self._context, self._adapter.provider), self._adapter.model
        return reply.build((), model=model, stop_reason=None, usage=None, raw={}, status=MessageStatus.ERROR)

    def abandon(self) -> Abandoned:
        """Return the outcome for a caller who left: what had arrived, with status cancelled and a lower bound of the
        cost.

        If the end arrived after the event at which the caller left, it contains the whole reply.
        """
        response = self._timed_response()
        if self._decoder is None:
            return Abandoned(response=response)
        if self._decoder.message is not None:
            reply = self._decoder.message
            changed = {"status": MessageStatus.CANCELLED, "stop_reason": StopReason.CANCELLED}
            metadata = reply.metadata.model_copy(update=changed)
            return Abandoned(reply.model_copy(update={"metadata": metadata}), response=response)
        for event in self._decoder.fail(RequestCancelledError("the caller left the stream")):
            if isinstance(event, ErrorEvent) and event.partial is not None:
                # A block that has only begun is an empty text.
                if any(getattr(block, "text", block) for block in event.partial.content):
                    return Abandoned(event.partial, response=response)
                return Abandoned(billed=event.partial, response=response)
        return Abandoned(response=response)

    def _timed_response(self) -> ResponseDetails | None:
        response = self.response
        if response is None:
            return None
        first = None if self._first_event_at is None else self._first_event_at - self._started_at
        return ResponseDetails(
            response.status, response.headers, tuple(response.attempts), first, self._clock() - self._started_at
        )


def apply_stages(stages: Sequence[Stage], event: StreamEvent) -> Work[Sequence[StreamEvent]]:
    """Return the events that the stages make of one event."""
    events: Sequence[StreamEvent] = (event,)
    for stage in stages:
        results: list[StreamEvent] = []
        for each in events:
            result = stage(each)
            results += (yield result) if isinstance(result, Perform) else result
        events = results
    return events
