"""Reads one streamed reply: which events the caller gets, and what is kept if the caller leaves."""

from dragoman.adapter.errors import ProviderError, RequestCancelledError
from dragoman.canonical.events import ErrorEvent, MessageComplete, MessageStart, StreamEvent, UsageUpdate
from dragoman.canonical.message import Message, MessageStatus, StopReason
from dragoman.session.cost import with_lower_bound
from dragoman.session.turn import BrokenReplyError, Send


class ReplyReader:
    """Buffers the opening events of a stream until its first content, so that an early failure can still be retried."""

    def __init__(self, send: Send) -> None:
        self.decoder = send.adapter.reply_decoder(send.context)
        self._seen = False
        self._complete = False
        self.billed_only: Message | None = None
        """The billed usage of a reply that the caller left before any content arrived."""
        self._buffer: list[StreamEvent] = []

    def feed(self, event: StreamEvent) -> list[StreamEvent]:
        """Return the events that the caller may receive now.

        Raises the error of an error event, with the partial message; a ProviderError is raised as BrokenReplyError,
        because it may be retried.
        """
        if isinstance(event, ErrorEvent):
            if not isinstance(event.error, ProviderError):
                raise event.error
            event.error.partial = event.partial
            raise BrokenReplyError(event.error, seen=self._seen)
        if not self._seen and isinstance(event, (MessageStart, UsageUpdate)):
            self._buffer.append(event)
            return []
        self._seen = True
        self._complete = isinstance(event, MessageComplete)
        released = [*self._buffer, event]
        self._buffer = []
        return released

    def partial_reply(self) -> Message | None:
        """Return what had arrived when the caller left, with status cancelled; None if nothing had, or if the reply was
        complete.

        If the end arrived after the event at which the caller left, this is the whole reply.
        """
        if self._complete:
            return None
        if self.decoder.message is not None:
            return _mark_cancelled(self.decoder.message)
        for event in self.decoder.fail(RequestCancelledError("the caller left the stream")):
            if isinstance(event, ErrorEvent) and event.partial is not None:
                if _has_content(event.partial):
                    return with_lower_bound(event.partial)
                self.billed_only = event.partial
        return None


def _has_content(partial: Message) -> bool:
    """Whether there is more than the start of an empty block."""
    return any(getattr(block, "text", block) for block in partial.content)


def _mark_cancelled(reply: Message) -> Message:
    changed = {"status": MessageStatus.CANCELLED, "stop_reason": StopReason.CANCELLED}
    return reply.model_copy(update={"metadata": reply.metadata.model_copy(update=changed)})
