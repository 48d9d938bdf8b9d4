"""AsyncSession: the async driver of the same turn; see `Session`."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import aclosing, closing
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, Unpack

from dragoman.adapter.contract import Adapter
from dragoman.adapter.decoding import decode_async
from dragoman.adapter.errors import ConfigurationError, ProviderError
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.events import MessageComplete, StreamEvent
from dragoman.canonical.message import Message
from dragoman.session import calls
from dragoman.session.calls import Prepared
from dragoman.session.conversation import IN_A_TURN, Conversation
from dragoman.session.events import SessionEvent
from dragoman.session.keeping import SessionStore
from dragoman.session.reading import Reading
from dragoman.session.settings import Options, Said, Settings
from dragoman.session.turn import Ask, BrokenReplyError, Fill, Judge, Keep, RunTools, Turn, Wait, advance
from dragoman.transport import AsyncTransport

if TYPE_CHECKING:
    from dragoman.policy import Declassification
    from dragoman.session.answer import Answer
    from dragoman.session.gate import Gate

ResultT = TypeVar("ResultT")


class AsyncSession(Conversation[AsyncTransport]):
    """The async twin of `Session`; tools may be coroutines or plain functions, which then run in threads.

    Use it as an async context manager, or await `close`. It takes one turn at a time, so not two tasks may ask at once.
    """

    _asynchronous: ClassVar[bool] = True
    _under_way: AsyncGenerator[SessionEvent, None] | None = None

    async def ask(self, said: Said | None, *, model: str | None = None, **options: Unpack[Options]) -> Message:
        """As `Session.ask`."""
        async with aclosing(
            self._events(self._turn(said, options, stream=False, model=model), self._answer(options))
        ) as events:
            async for event in events:
                if isinstance(event, MessageComplete):
                    reply = event.message
            return reply

    def stream(
        self, said: Said | None, *, model: str | None = None, **options: Unpack[Options]
    ) -> AsyncGenerator[SessionEvent, None]:
        """As `Session.stream`. Cancelling the task, or leaving the loop, cancels the reply.

        Python closes an async generator some time after its loop was left; `contextlib.aclosing` makes that at once,
        and so does the session's next turn.
        """
        return self._events(self._turn(said, options, stream=True, model=model), self._answer(options))

    async def compact(
        self, model: str | None = None, *, keep_last: int | None = None, instructions: str | None = None
    ) -> Message:
        """As `Session.compact`."""
        async with aclosing(self._events(self._told(self._compaction(model, keep_last, instructions)))) as events:
            async for _ in events:
                pass
        return self._messages[-1]

    @classmethod
    async def resume(
        cls, session_id: str, store: SessionStore, *, model: str | None = None, **settings: Unpack[Settings]
    ) -> Self:
        """As `Session.resume`; the store is read, and written each turn, in a thread."""
        return await asyncio.to_thread(cls._from_store, session_id, store, model, settings)

    async def declassify(
        self,
        labels: Iterable[str],
        *,
        actor: str,
        reason: str,
        audit: "Callable[[Declassification], Any] | None" = None,
    ) -> "Declassification | None":
        """As `Session.declassify`; with a store it happens in a thread, ``audit`` too."""
        if self._under_way is not None:
            raise ConfigurationError(IN_A_TURN)
        if self._keeper is None:
            return self._declassify(labels, actor, reason, audit)
        return await asyncio.to_thread(self._declassify, labels, actor, reason, audit)

    async def close(self) -> None:
        """As `Session.close`."""
        await self._end_turn()
        await self._keep_turn_aside()
        for transport in self._transports.values():
            await transport.close()
        self._transports.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _events(self, turn: Turn, answer: "Answer | None" = None) -> AsyncGenerator[SessionEvent, None]:
        await self._end_turn()
        self._under_way = driven = self._drive(turn)
        try:
            async for event in driven:
                if answer is not None:
                    answer.see(event)
                yield event
            if answer is not None:
                answer.end()
        finally:
            if self._under_way is driven:
                await self._end_turn()
            await self._keep_turn_aside()

    async def _keep_turn_aside(self) -> None:
        if self._keeper is not None:
            await asyncio.to_thread(self._keep_turn)

    async def _end_turn(self) -> None:
        driven = self._under_way
        if driven is None:
            return
        if inspect.isasyncgen(driven) and driven.ag_running:
            raise ConfigurationError(IN_A_TURN)
        self._under_way = None
        await driven.aclose()

    async def _drive(self, turn: Turn) -> AsyncGenerator[SessionEvent, None]:
        with closing(turn):  # what it holds back of a budget is given back at once
            outcome: Any = None
            while (effect := advance(turn, outcome)) is not None:
                outcome = None
                try:
                    match effect:
                        case Fill():
                            outcome = await self._aside(self._filled, effect.adapter, effect.history)
                        case Ask():
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
                            for answered in effect.events:
                                yield answered
                        case Wait():
                            await self._timing(effect.provider).sleep_async(effect.seconds)
                        case Judge():
                            outcome = await self._judged(effect.steps)
                except Exception as error:  # the turn knows which it can do something about, and raises the others
                    outcome = error

    async def _send(self, ask: Ask) -> AsyncGenerator[StreamEvent, None]:
        transport = self._transport(ask.adapter)
        response = await transport.send(ask.adapter, ask.request, timeout=self._timeout(ask.adapter))
        try:
            reply = ask.adapter.from_wire_response(response, ask.context)
        except ProviderError as error:
            raise BrokenReplyError(error) from None
        if self._policing is not None:
            reply = await self._judged(self._policing.reply(ask.adapter, reply, partial(self._settle, ask)))
        self._keep(ask, reply)
        yield MessageComplete(reply)

    async def _stream(self, ask: Ask) -> AsyncGenerator[StreamEvent, None]:
        reading, transport = Reading(ask), self._transport(ask.adapter)
        gate = self._gate(ask, reading)
        async with (
            transport.stream(ask.adapter, ask.request, timeout=self._timeout(ask.adapter)) as reply,
            aclosing(decode_async(reply.chunks, reading.decoder, silence=reply.silence)) as events,
        ):
            # Kept before the connection is closed, which may take a while and lets other tasks go on.
            try:
                async for event in events:
                    for passed in (event,) if gate is None else await self._passed(gate, event):
                        if isinstance(passed, MessageComplete):
                            self._keep(ask, passed.message)
                        for shown in reading.pass_on(passed):
                            yield shown
            except (GeneratorExit, asyncio.CancelledError):
                left = kept = reading.left()
                if self._policing is not None:
                    kept = await self._judged(self._policing.remains(ask.adapter, left))
                self._leave(ask, reading, left, kept)
                raise

    async def judge(self, hook: str, message: Message, **slots: Any) -> Message:
        """What the session's policy lets through of a message that is on its way past that hook, such as
        ``resource_post_fetch``; ``slots`` are those extensions that are about this message alone.

        Without a policy it passes as it is. Raises PolicyDeniedError.
        """
        if self._policing is None:
            return message
        judged: Message = await self._judged(self._policing.fetching(hook, message, **slots))
        return judged

    async def _passed(self, gate: "Gate", event: StreamEvent) -> Sequence[StreamEvent]:
        shown = gate.quick(event)
        return (await self._judged(gate.ask(event))) if shown is None else shown

    async def _judged(self, steps: Generator[Any, Any, Any]) -> Any:
        from dragoman.policy.running import run_async  # loaded by now: there are steps

        return await run_async(steps)

    async def _run_tools(self, adapter: Adapter, asked: Sequence[ToolUseBlock]) -> list[ToolResultBlock]:
        prepared = [await self._approved(self.toolbox.prepare(call)) for call in asked]
        results = await asyncio.gather(*(calls.run_async(item, asyncio.to_thread) for item in prepared))
        checked = [await self._aside(self._checked, adapter, result) for result in results]
        self._note_answers(prepared, checked)
        return checked

    async def _aside(self, read: Callable[..., ResultT], *said: Any) -> ResultT:
        """Files are read where we are; where something may be fetched, a thread waits for it."""
        return await asyncio.to_thread(read, *said) if self._files.may_fetch else read(*said)

    async def _approved(self, prepared: Prepared) -> Prepared:
        if self._approve is None or prepared.tool is None:
            return prepared
        allowed = self._approve(prepared.call, prepared.tool.definition)
        return self._decided(prepared, await allowed if inspect.isawaitable(allowed) else allowed)
