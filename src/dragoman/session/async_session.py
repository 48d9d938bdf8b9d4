"""AsyncSession: the async driver of the same turn; see `Session`."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, Unpack, overload

from typing_extensions import TypeForm

from dragoman.adapter.errors import ConfigurationError, ProviderError
from dragoman.adapter.replies.stream_decoder import decode_batches_async
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.events import MessageComplete, StreamEvent, ToolProgress
from dragoman.canonical.message import Message
from dragoman.runtime.session_store import SessionStore
from dragoman.session.config import (
    OutputT,
    SessionSettings,
    TurnOptions,
    UserInput,
)
from dragoman.session.conversation import TURN_IN_PROGRESS, Conversation
from dragoman.session.effects import (
    AbandonedTurnError,
    Admit,
    Choose,
    Keep,
    Perform,
    Read,
    RunTools,
    Send,
    Stage,
    ToolRun,
    Wait,
)
from dragoman.session.events import SessionEvent
from dragoman.session.replies.reply import Reply
from dragoman.session.replies.stream import AsyncReplyStream
from dragoman.session.turn.answers import CallResults, prepare_calls
from dragoman.session.turn.reply_reader import ReplyReader
from dragoman.session.turn.run import TurnRun, encode, keep, tool_run
from dragoman.tools.call_runner import Report, ignore
from dragoman.tools.calls import PreparedCall, apply_decision
from dragoman.transport import AsyncTransport
from dragoman.transport.settings import seal_keys

if TYPE_CHECKING:
    from dragoman.policy import Declassification
    from dragoman.session.replies.answer import AnswerValidator

ResultT = TypeVar("ResultT")


class AsyncSession(Conversation[AsyncTransport]):
    """The async twin of `Session`; tools may be coroutines or plain functions, which then run in threads.

    Use it as an async context manager, or await `close`. It runs one turn at a time: two tasks must not ask at once.
    """

    _asynchronous: ClassVar[bool] = True
    _running: TurnRun | None = None

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
        run = self._start_turn(prompt, options, output, stream=False, model=model)
        await self._run(run)
        return run.record.to_reply()

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
        run = self._start_turn(prompt, options, output, stream=True, model=model)
        return self._open_stream(run)

    async def answer(
        self, results: CallResults, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[Any]:
        """As `Session.answer`."""
        run = self._start_turn(None, options, output, stream=False, model=model, results=results or {})
        await self._run(run)
        return run.record.to_reply()

    def stream_answer(
        self, results: CallResults, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> AsyncReplyStream[Any]:
        """As `Session.stream_answer`."""
        run = self._start_turn(None, options, output, stream=True, model=model, results=results or {})
        return self._open_stream(run)

    async def compact(
        self, model: str | None = None, *, keep_last: int | None = None, instructions: str | None = None
    ) -> Message:
        """As `Session.compact`."""
        await self._run(self._start(self._compaction_turn(model, keep_last, instructions)))
        return self.messages[-1]

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
        if self._running is not None:
            raise ConfigurationError(TURN_IN_PROGRESS)
        if self.config.store is None:
            return self._declassify(labels, actor, reason, audit)
        return await asyncio.to_thread(self._declassify, labels, actor, reason, audit)

    async def apply_policy(
        self, hook: str, message: Message, *, require: Callable[[Message], str | None] | None = None, **slots: Any
    ) -> Message:
        """As `Session.apply_policy`."""
        checked = self._policy.fetch_check(hook, self._factory.adopt(message), require, **slots)
        result: Message = (await checked.work_async()) if isinstance(checked, Perform) else checked
        return result

    async def close(self) -> None:
        """As `Session.close`."""
        await self._end_turn()
        if self.config.store is not None:
            await asyncio.to_thread(self._save_rest)
        if self.config.own_providers:
            for transport in self._transports.take_all():
                await transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _end_turn(self) -> None:
        running = self._running
        if running is None:
            return
        events = None if running.events is None else running.events()
        if running.events is None or getattr(events, "ag_running", False):
            raise ConfigurationError(TURN_IN_PROGRESS)
        self._running = None
        if events is not None:
            await events.aclose()

    async def _run(self, run: TurnRun) -> None:
        await self._end_turn()
        self._running = run
        try:
            with closing(run.turn):
                run.begin()
                while run.effect is not None:
                    if isinstance(run.effect, Send):
                        await self._attempt_whole(run, run.effect)
                        continue
                    outcome, events = await self._carry_out(run)
                    if run.validator is not None:
                        await self._validate(run, run.validator, events)
                    run.advance(outcome)
            run.finish()
        finally:
            self._running = None

    def _open_stream(self, run: TurnRun) -> AsyncReplyStream[Any]:
        batches = self._batches(run)
        run.events = lambda: batches
        return AsyncReplyStream(_events(run, batches), batches, run.record)

    async def _batches(self, run: TurnRun) -> AsyncGenerator[Sequence[SessionEvent], None]:
        """Yield the events of a turn as they arrive together."""
        await self._end_turn()
        self._running = run
        try:
            with closing(run.turn):
                run.begin()
                while run.effect is not None:
                    async with aclosing(
                        self._attempt(run, run.effect) if isinstance(run.effect, Send) else self._deliver(run)
                    ) as batches:
                        async for events in batches:
                            yield events
            run.finish()
        finally:
            run.record.ended = True
            if self._running is run:
                self._running = None

    async def _validate(self, run: TurnRun, validator: "AnswerValidator", events: Sequence[SessionEvent]) -> None:
        try:
            for event in events:
                validator.check_event(event)
        except Exception:
            await self._abandon(run, AbandonedTurnError())
            raise

    async def _carry_out(self, run: TurnRun) -> tuple[Any, Sequence[SessionEvent]]:
        outcome: Any = None
        events: Sequence[SessionEvent] = ()
        try:
            match run.effect:
                case Admit():
                    outcome = run.effect.prompt
                case Choose():
                    outcome = run.effect.choose()
                case Read():
                    outcome = await self._in_thread(self._read_files, run.effect.adapter, run.effect.history)
                case RunTools():
                    outcome = await self._run_tools(run, run.effect, await self._approve_calls(run.effect))
                case Keep():
                    outcome, events = run.effect.messages, keep(run.effect, self._history)
                case Wait():
                    await run.effect.timing.sleep_async(run.effect.seconds)
                    events = run.effect.events
                case Perform():
                    outcome = await run.effect.work_async()
        except asyncio.CancelledError:
            await self._abandon(run, AbandonedTurnError())
            raise
        except Exception as error:  # the turn handles what it can, and raises the rest
            outcome = error
        return outcome, events

    async def _deliver(self, run: TurnRun) -> AsyncGenerator[Sequence[SessionEvent], None]:
        outcome: Any
        events: Sequence[SessionEvent] = ()
        if isinstance(run.effect, RunTools) and self._may_report(run.effect):
            outcomes: list[Any] = []
            async with aclosing(self._report_tools(run, run.effect, outcomes)) as batches:
                async for batch in batches:
                    yield batch
            (outcome,) = outcomes
        else:
            outcome, events = await self._carry_out(run)
        try:
            yield events
        except (GeneratorExit, asyncio.CancelledError):
            await self._abandon(run, AbandonedTurnError())
            raise
        run.advance(outcome)

    async def _abandon(self, run: TurnRun, outcome: Any) -> None:
        if run.calls is not None:
            run.calls.leave()
        run.advance(outcome)
        while run.effect is not None:
            outcome, _ = await self._carry_out(run)
            run.advance(outcome)
        if run.error is not None:
            if not isinstance(run.error, AbandonedTurnError):
                raise run.error
            run.error.__traceback__ = run.error.__context__ = None  # their frames refer to the run and the error

    async def _attempt(self, run: TurnRun, send: Send) -> AsyncGenerator[Sequence[SessionEvent], None]:
        reader = ReplyReader(send)
        try:
            request, transport = encode(send, run.record), self._transports.get(send.adapter)
            arguments = self._transports.arguments(send.adapter, send.retries)
            if request.stream:
                async with transport.stream(send.adapter, request, **arguments) as response:
                    reader.begin(response)
                    await self._observe(send, response.headers)
                    async with aclosing(
                        decode_batches_async(response.chunks, reader.decoder, idle_timeout=response.idle_timeout)
                    ) as batches:
                        async for batch in batches:
                            reader.receive(batch)
                            if not send.stages:
                                yield reader.feed(batch)
                                continue
                            for event in batch:
                                yield reader.feed(await self._apply_stages(send.stages, event))
                    # Kept before the connection is released: that may take a while, and other tasks run meanwhile.
                    run.finish_attempt(reader)
                    while isinstance(run.effect, (Keep, Perform)):
                        async with aclosing(self._deliver(run)) as kept:
                            async for events in kept:
                                yield events
            else:
                await self._read_whole(send, reader, transport, request, arguments)
        except (GeneratorExit, asyncio.CancelledError):
            if run.effect is send:
                await self._abandon(run, reader.abandon())
            raise
        except Exception as error:
            if run.effect is not send:
                raise
            reader.fail(error)
        if run.effect is send:
            run.finish_attempt(reader)

    async def _attempt_whole(self, run: TurnRun, send: Send) -> None:
        if send.options.stream:  # a middleware asks for a stream
            async with aclosing(self._attempt(run, send)) as batches:
                async for _ in batches:
                    pass
            return
        reader = ReplyReader(send)
        try:
            request, transport = encode(send, run.record), self._transports.get(send.adapter)
            await self._read_whole(
                send, reader, transport, request, self._transports.arguments(send.adapter, send.retries)
            )
        except asyncio.CancelledError:
            await self._abandon(run, reader.abandon())
            raise
        except Exception as error:
            reader.fail(error)
        run.finish_attempt(reader)

    async def _read_whole(
        self,
        send: Send,
        reader: ReplyReader,
        transport: AsyncTransport,
        request: WireRequest,
        arguments: dict[str, Any],
    ) -> None:
        response = await transport.send(send.adapter, request, **arguments)
        reader.begin(response)
        await self._observe(send, response.headers)
        try:
            reply = send.adapter.from_wire_response(response, send.context)
        except ProviderError as error:
            reader.fail_unreadable(error)
        else:
            event = MessageComplete(reply)
            reader.receive((event,))
            reader.feed(await self._apply_stages(send.stages, event))

    async def _observe(self, send: Send, headers: Any) -> None:
        for observe in send.observers:
            await observe(headers).work_async()

    async def _apply_stages(self, stages: Sequence[Stage], event: StreamEvent) -> Sequence[StreamEvent]:
        events: Sequence[StreamEvent] = (event,)
        for stage in stages:
            results: list[StreamEvent] = []
            for each in events:
                result = stage(each)
                results += (await result.work_async()) if isinstance(result, Perform) else result
            events = results
        return events

    async def _approve_calls(self, effect: RunTools) -> list[PreparedCall]:
        return [await self._approve_call(call) for call in prepare_calls(effect, self.toolbox)]

    async def _run_tools(
        self, run: TurnRun, effect: RunTools, prepared: Sequence[PreparedCall], report: Report = ignore
    ) -> list[ToolRun]:
        timed = await self._call_runner(run).run_async(prepared, report)
        return [
            await self._in_thread(
                tool_run, call, result, seconds, self._files, effect.adapter, self._factory.tool_message
            )
            for call, (result, seconds) in zip(prepared, timed, strict=True)
            if isinstance(result, ToolResultBlock)
        ]

    async def _report_tools(
        self, run: TurnRun, effect: RunTools, outcomes: list[Any]
    ) -> AsyncGenerator[Sequence[SessionEvent], None]:
        """Run tools in a task, and yield their progress. The outcome is added to ``outcomes``."""
        reports: asyncio.Queue[ToolProgress | None] = asyncio.Queue()
        loop, running = asyncio.get_running_loop(), None
        try:
            prepared = await self._approve_calls(effect)

            def report(progress: ToolProgress) -> None:
                loop.call_soon_threadsafe(reports.put_nowait, progress)

            running = asyncio.ensure_future(self._run_tools(run, effect, prepared, report))
            running.add_done_callback(lambda _: reports.put_nowait(None))
            while (progress := await reports.get()) is not None:
                yield (progress,)
            outcomes.append(await running)
        except (GeneratorExit, asyncio.CancelledError):
            if running is not None:
                running.cancel()
            await self._abandon(run, AbandonedTurnError())
            raise
        except Exception as error:
            outcomes.append(error)

    async def _in_thread(self, function: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Read files in place; run in a thread if something may be fetched."""
        return await asyncio.to_thread(function, *arguments) if self._files.can_fetch else function(*arguments)

    async def _approve_call(self, prepared: PreparedCall) -> PreparedCall:
        if self.config.approve is None or prepared.tool is None:
            return prepared
        allowed = self.config.approve(prepared.call, prepared.tool.definition)
        return apply_decision(prepared, await allowed if inspect.isawaitable(allowed) else allowed)


async def _events(
    run: TurnRun, batches: AsyncGenerator[Sequence[SessionEvent], None]
) -> AsyncGenerator[SessionEvent, None]:
    """Yield the events of a turn one by one."""
    note, follow = run.record.note_event, run.follow_answer()
    async with aclosing(batches):
        async for events in batches:
            for event in events if follow is None else follow(events):
                note(event)
                yield event
