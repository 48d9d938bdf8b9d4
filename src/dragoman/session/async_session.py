"""AsyncSession: the async driver of the same turn; see `Session`."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, overload

from typing_extensions import TypeForm

from dragoman.canonical.message import Message
from dragoman.effects.work import drive_async, iterate_async
from dragoman.runtime.session_store import SessionStore
from dragoman.session.compaction.compact import CompactionPlace
from dragoman.session.config import OutputT, SessionSettings, TurnOptions, UserInput
from dragoman.session.events import SessionEvent
from dragoman.session.replies.reply import Reply
from dragoman.session.replies.stream import AsyncReplyStream
from dragoman.session.turn.answers import CallResults
from dragoman.session.turn.run import TurnRun
from dragoman.session.turn_driver import TurnDriver
from dragoman.transport import AsyncTransport
from dragoman.transport.settings import seal_keys

if TYPE_CHECKING:
    from dragoman.policy import Declassification


class AsyncSession(TurnDriver[AsyncTransport]):
    """The async twin of `Session`; tools may be coroutines or plain functions, which then run in threads.

    Use it as an async context manager, or await `close`. It runs one turn at a time: two tasks must not ask at once.
    """

    _asynchronous: ClassVar[bool] = True

    @overload
    async def ask(
        self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[str]: ...

    @overload
    async def ask(
        self,
        prompt: UserInput | None,
        *,
        output: TypeForm[OutputT],
        model: str | None = None,
        **options: Unpack[TurnOptions],
    ) -> Reply[OutputT]: ...

    async def ask(
        self, prompt: UserInput | None, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[Any]:
        """As `Session.ask`."""
        return await drive_async(self._ask(prompt, options, output, model))

    @overload
    def stream(
        self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> AsyncReplyStream[str]: ...

    @overload
    def stream(
        self,
        prompt: UserInput | None,
        *,
        output: TypeForm[OutputT],
        model: str | None = None,
        **options: Unpack[TurnOptions],
    ) -> AsyncReplyStream[OutputT]: ...

    def stream(
        self, prompt: UserInput | None, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> AsyncReplyStream[Any]:
        """As `Session.stream`. Cancelling the task, or leaving ``async with``, cancels the reply; so does the next turn
        of the session."""
        return self._stream(self._start_turn(prompt, options, output, stream=True, model=model))

    async def answer(
        self, results: CallResults, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[Any]:
        """As `Session.answer`."""
        return await drive_async(self._ask(None, options, output, model, results or {}))

    def stream_answer(
        self, results: CallResults, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> AsyncReplyStream[Any]:
        """As `Session.stream_answer`."""
        return self._stream(self._start_turn(None, options, output, stream=True, model=model, results=results or {}))

    async def compact(
        self,
        model: str | None = None,
        *,
        keep_last: int | None = None,
        instructions: str | None = None,
        on: CompactionPlace = "model",
    ) -> Message:
        """As `Session.compact`."""
        return await drive_async(self._compact(model, keep_last, instructions, on))

    @classmethod
    async def resume(
        cls, session_id: str, store: SessionStore, *, model: str | None = None, **settings: Unpack[SessionSettings]
    ) -> Self:
        """As `Session.resume`; the store is read and written in a thread."""
        settings = seal_keys(settings)  # type: ignore[assignment]  # as in __init__
        return await asyncio.to_thread(cls._from_store, session_id, store, model, settings)

    async def declassify(
        self,
        labels: Iterable[str],
        *,
        actor: str,
        reason: str,
        audit: "Callable[[Declassification], Any] | None" = None,
    ) -> "Declassification | None":
        """As `Session.declassify`; with a store it runs in a thread, ``audit`` too."""
        return await drive_async(self._remove_labels(labels, actor, reason, audit))

    async def apply_policy(
        self, hook: str, message: Message, *, require: Callable[[Message], str | None] | None = None, **slots: Any
    ) -> Message:
        """As `Session.apply_policy`."""
        return await drive_async(self._check_fetched(hook, message, require, slots))

    async def close(self) -> None:
        """As `Session.close`."""
        await drive_async(self._close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _stream(self, run: TurnRun) -> AsyncReplyStream[Any]:
        batches = iterate_async(self._run(run))
        run.events = lambda: batches
        return AsyncReplyStream(_events(run, batches), batches, run.record)


async def _events(
    run: TurnRun, batches: AsyncGenerator[Sequence[SessionEvent], None]
) -> AsyncGenerator[SessionEvent, None]:
    """Yield the events of a turn one by one, while its answer is valid."""
    note, follow = run.record.note_event, run.follow_answer()
    async with aclosing(batches):
        async for events in batches:
            for event in events if follow is None else follow(events):
                note(event)
                yield event
