"""AsyncSession: the async driver of the same turn; see `Session`."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import aclosing, closing
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, Unpack

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, ProviderError
from dragoman.adapter.replies.stream_decoder import decode_stream_async
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.events import MessageComplete, StreamEvent
from dragoman.canonical.message import Message
from dragoman.session.conversation import TURN_IN_PROGRESS, Conversation
from dragoman.session.events import SessionEvent
from dragoman.session.reply_reader import ReplyReader
from dragoman.session.settings import SessionSettings, TurnOptions, UserInput
from dragoman.session.snapshot import SessionStore
from dragoman.session.turn import BrokenReplyError, Keep, Read, RunPolicy, RunTools, Send, Turn, Wait, advance
from dragoman.tools import calls
from dragoman.tools.calls import PreparedCall
from dragoman.transport import AsyncTransport

if TYPE_CHECKING:
    from dragoman.policy import Declassification
    from dragoman.session.answer import AnswerValidator
    from dragoman.session.middleware.stream_filter import StreamFilter

ResultT = TypeVar("ResultT")


class AsyncSession(Conversation[AsyncTransport]):
    """The async twin of `Session`; tools may be coroutines or plain functions, which then run in threads.

    Use it as an async context manager, or await `close`. It runs one turn at a time: two tasks must not ask at once.
    """

    _asynchronous: ClassVar[bool] = True
    _running: AsyncGenerator[SessionEvent, None] | None = None

    async def ask(
        self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Message:
        """As `Session.ask`."""
        async with aclosing(
            self._turn_events(
                self._new_turn(prompt, options, stream=False, model=model), self._new_answer_validator(options)
            )
        ) as events:
            async for event in events:
                if isinstance(event, MessageComplete):
                    reply = event.message
            return reply

    def stream(
        self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> AsyncGenerator[SessionEvent, None]:
        """As `Session.stream`. Cancelling the task, or leaving the loop, cancels the reply.

        Python closes an async generator some time after its loop was left; `contextlib.aclosing` closes it at once,
        and so does the next turn of the session.
        """
        return self._turn_events(
            self._new_turn(prompt, options, stream=True, model=model), self._new_answer_validator(options)
        )

    async def compact(
        self, model: str | None = None, *, keep_last: int | None = None, instructions: str | None = None
    ) -> Message:
        """As `Session.compact`."""
        async with aclosing(
            self._turn_events(self._with_telemetry(self._compaction_turn(model, keep_last, instructions)))
        ) as events:
            async for _ in events:
                pass
        return self._messages[-1]

    @classmethod
    async def resume(
        cls, session_id: str, store: SessionStore, *, model: str | None = None, **settings: Unpack[SessionSettings]
    ) -> Self:
        """As `Session.resume`; the store is read and written in a thread."""
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
        if self._persistence is None:
            return self._declassify(labels, actor, reason, audit)
        return await asyncio.to_thread(self._declassify, labels, actor, reason, audit)

    async def close(self) -> None:
        """As `Session.close`."""
        await self._end_turn()
        await self._save_turn_in_thread()
        for transport in self._transports.values():
            await transport.close()
        self._transports.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _turn_events(
        self, turn: Turn, validator: "AnswerValidator | None" = None
    ) -> AsyncGenerator[SessionEvent, None]:
        await self._end_turn()
        self._running = running = self._drive(turn)
        try:
            async for event in running:
                if validator is not None:
                    validator.check_event(event)
                yield event
            if validator is not None:
                validator.finish()
        finally:
            if self._running is running:
                await self._end_turn()
            await self._save_turn_in_thread()

    async def _save_turn_in_thread(self) -> None:
        if self._persistence is not None:
            await asyncio.to_thread(self._save_turn)

    async def _end_turn(self) -> None:
        running = self._running
        if running is None:
            return
        if inspect.isasyncgen(running) and running.ag_running:
            raise ConfigurationError(TURN_IN_PROGRESS)
        self._running = None
        await running.aclose()

    async def _drive(self, turn: Turn) -> AsyncGenerator[SessionEvent, None]:
        with closing(turn):  # releases the budget reservation immediately
            outcome: Any = None
            while (effect := advance(turn, outcome)) is not None:
                outcome = None
                try:
                    match effect:
                        case Read():
                            outcome = await self._in_thread(self._read_files, effect.adapter, effect.history)
                        case Send():
                            async with aclosing(
                                self._stream(effect) if effect.request.stream else self._send(effect)
                            ) as events:
                                async for event in events:
                                    if isinstance(event, MessageComplete):
                                        outcome = event.message
                                    yield event
                        case RunTools():
                            outcome = await self._run_tools(effect.adapter, effect.calls)
                        case Keep():
                            self._messages += effect.messages
                            for tool_event in effect.events:
                                yield tool_event
                        case Wait():
                            await self._timing(effect.provider).sleep_async(effect.seconds)
                        case RunPolicy():
                            outcome = await self._run_policy(effect.steps)
                except Exception as error:  # the turn handles what it can, and raises the rest
                    outcome = error

    async def _send(self, send: Send) -> AsyncGenerator[StreamEvent, None]:
        transport = self._transport(send.adapter)
        response = await transport.send(send.adapter, send.request, timeout=self._timeout(send.adapter))
        try:
            reply = send.adapter.from_wire_response(response, send.context)
        except ProviderError as error:
            raise BrokenReplyError(error) from None
        if self._policy_hooks is not None:
            reply = await self._run_policy(
                self._policy_hooks.check_reply(send.adapter, reply, partial(self._settle_unkept, send))
            )
        self._keep_reply(send, reply)
        yield MessageComplete(reply)

    async def _stream(self, send: Send) -> AsyncGenerator[StreamEvent, None]:
        reader, transport = ReplyReader(send), self._transport(send.adapter)
        stream_filter = self._new_stream_filter(send, reader)
        async with (
            transport.stream(send.adapter, send.request, timeout=self._timeout(send.adapter)) as reply,
            aclosing(decode_stream_async(reply.chunks, reader.decoder, idle_timeout=reply.idle_timeout)) as events,
        ):
            # Kept before the connection is closed: closing may take a while, and other tasks run meanwhile.
            try:
                async for event in events:
                    for visible in (
                        (event,) if stream_filter is None else await self._filter_event(stream_filter, event)
                    ):
                        if isinstance(visible, MessageComplete):
                            self._keep_reply(send, visible.message)
                        for event_now in reader.feed(visible):
                            yield event_now
            except (GeneratorExit, asyncio.CancelledError):
                received = kept = reader.partial_reply()
                if self._policy_hooks is not None:
                    kept = await self._run_policy(self._policy_hooks.check_partial(send.adapter, received))
                self._keep_partial(send, reader, received, kept)
                raise

    async def apply_policy(
        self, hook: str, message: Message, *, require: Callable[[Message], str | None] | None = None, **slots: Any
    ) -> Message:
        """Return the message as the session's policy leaves it at that hook, such as ``resource_post_fetch``.

        ``slots`` are extensions of this message alone. ``require`` gets the message as the plugins left it and returns
        the code of a refusal, ``left_out`` or ``redirected``, or None. A message without a session id becomes one of
        this session. Without a policy it is not changed, and ``require`` is not called. Raises PolicyDeniedError.
        """
        message = self._adopt(message)
        if self._policy_hooks is None:
            return message
        checked: Message = await self._run_policy(self._policy_hooks.check_fetch(hook, message, require, **slots))
        return checked

    async def _filter_event(self, stream_filter: "StreamFilter", event: StreamEvent) -> Sequence[StreamEvent]:
        events_now = stream_filter.try_fast(event)
        return (await self._run_policy(stream_filter.apply(event))) if events_now is None else events_now

    async def _run_policy(self, steps: Generator[Any, Any, Any]) -> Any:
        from dragoman.policy.runner import run_async  # a session with steps has loaded it already

        return await run_async(steps)

    async def _run_tools(self, adapter: Adapter, requested_calls: Sequence[ToolUseBlock]) -> list[ToolResultBlock]:
        prepared = [await self._approve_call(self.toolbox.prepare(call)) for call in requested_calls]
        results = await asyncio.gather(*(calls.run_async(item, asyncio.to_thread) for item in prepared))
        checked = [await self._in_thread(self._check_files, adapter, result) for result in results]
        self._on_tool_results(prepared, checked)
        return checked

    async def _in_thread(self, function: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Read files in place; run in a thread if something may be fetched."""
        return await asyncio.to_thread(function, *arguments) if self._files.can_fetch else function(*arguments)

    async def _approve_call(self, prepared: PreparedCall) -> PreparedCall:
        if self._approve is None or prepared.tool is None:
            return prepared
        allowed = self._approve(prepared.call, prepared.tool.definition)
        return self._apply_decision(prepared, await allowed if inspect.isawaitable(allowed) else allowed)
