"""ReplyStream: a turn that streams, as an iterable of events with the reply at its end."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Generator, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self

from dragoman.adapter.errors import RequestError
from dragoman.adapter.losses import Loss
from dragoman.canonical.events import TextDelta
from dragoman.session.effects import SessionEvent
from dragoman.session.reply import OutputT, Reply
from dragoman.session.turn.planner import TurnRun

if TYPE_CHECKING:
    import asyncio


_BETWEEN_REPLIES = "\n\n"


class _StreamState(Generic[OutputT]):
    """What both streams share: the text so far, and the reply at the end."""

    def __init__(self, run: TurnRun) -> None:
        self._run = run

    @property
    def text(self) -> str:
        """The text of the current reply, as far as it has arrived. In a turn with tools, each reply starts with an
        empty text."""
        return "".join(self._run.text)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the requests so far could not carry: those of the first are known before its first event arrives."""
        return tuple(self._run.losses)

    @property
    def reply(self) -> Reply[OutputT]:
        """The result of the whole turn.

        Raises RequestError before the stream has ended or is closed, and if the turn ended without a reply.
        """
        if not self._run.ended:
            raise RequestError("the stream has not ended: iterate to its end, call get_reply(), or close it")
        try:
            return self._run.to_reply()
        except LookupError:
            raise RequestError("the stream ended before a reply had arrived") from None


class ReplyStream(_StreamState[OutputT]):
    """The events of a turn, as they arrive.

        with session.stream("Tell me a story.") as stream:
            for text in stream.text_deltas():
                print(text, end="")
        print(stream.reply.cost)

    Nothing is sent before the first event is read. Leaving the ``with`` block, or `close`, cancels a reply that is
    still arriving.
    """

    def __init__(self, events: Generator[SessionEvent, None, None], run: TurnRun) -> None:
        super().__init__(run)
        self._events = events

    def __iter__(self) -> Iterator[SessionEvent]:
        return self._events  # without a call of Python for each event

    def __next__(self) -> SessionEvent:
        return next(self._events)

    def text_deltas(self) -> Iterator[str]:
        """Yield only the text of the replies, as it arrives. An empty line is between the texts of two rounds of
        tools."""
        last = ""
        for event in self:
            if isinstance(event, TextDelta):
                if last not in ("", event.message_id):
                    yield _BETWEEN_REPLIES
                last = event.message_id
                yield event.text

    def get_reply(self) -> Reply[OutputT]:
        """Read the stream to its end, and return the reply. Raises as iterating does."""
        for _ in self:
            pass
        return self.reply

    def close(self) -> None:
        """End the turn. A reply that is still arriving is cancelled; what had arrived stays in the history."""
        self._events.close()
        self._run.ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncReplyStream(_StreamState[OutputT]):
    """The async twin of `ReplyStream`.

    Use it in ``async with``: when a loop is left, Python closes an async stream some time later, and ``async with``
    closes it at once.
    """

    def __init__(
        self,
        events: AsyncGenerator[SessionEvent, None],
        batches: AsyncGenerator[Sequence[SessionEvent], None],
        run: TurnRun,
    ) -> None:
        super().__init__(run)
        self._events = events
        self._batches = batches

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[SessionEvent]:
        return self._events.__anext__()

    def batches(self) -> AsyncIterator[Sequence[SessionEvent]]:
        """Return an iterator over the events that arrived together, for programs that pass them on: one write to a
        connection costs more than a hundred events. Some are empty.

        Read a stream in one way only. Typed answers are not checked here, and `text` stays empty.
        """
        return self._batches

    async def text_deltas(self) -> AsyncIterator[str]:
        """As `ReplyStream.text_deltas`."""
        last = ""
        async for event in self:
            if isinstance(event, TextDelta):
                if last not in ("", event.message_id):
                    yield _BETWEEN_REPLIES
                last = event.message_id
                yield event.text

    async def get_reply(self) -> Reply[OutputT]:
        """As `ReplyStream.get_reply`."""
        async for _ in self:
            pass
        return self.reply

    async def aclose(self) -> None:
        """As `ReplyStream.close`."""
        await self._events.aclose()
        await self._batches.aclose()
        self._run.ended = True

    def __del__(self) -> None:
        """End a turn whose stream was left without ``async with``, as soon as the event loop comes to it."""
        if not self._run.ended:
            _close_later(self._batches)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


_closing: "set[asyncio.Task[None]]" = set()
"""Tasks that close streams; an event loop itself does not keep its tasks alive."""


def _close_later(events: AsyncGenerator[Sequence[SessionEvent], None]) -> None:
    import asyncio  # sync programs do not need it

    with suppress(RuntimeError):  # no event loop is running here
        task = asyncio.get_running_loop().create_task(events.aclose())
        _closing.add(task)
        task.add_done_callback(_closing.discard)
