"""AsyncSession: the async driver of the same turn; see `Session`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

from dragoman.adapter.contract import Adapter
from dragoman.adapter.decoding import decode_async
from dragoman.adapter.errors import ProviderError, RequestCancelledError
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message
from dragoman.session import toolbox
from dragoman.session.conversation import Conversation, Said
from dragoman.session.events import SessionEvent, ToolAnswered
from dragoman.session.turn import Ask, Effect, Gate, InStreamError, Keep, RunTools, Wait, run_turn
from dragoman.transport import transport_for
from dragoman.transport.contract import AsyncTransport


class AsyncSession(Conversation):
    """The async twin of `Session`; tools may be coroutines or plain functions, which then run in threads."""

    def __init__(self, model: str, **settings: Any) -> None:
        super().__init__(model, **settings)
        self._transports: dict[str, AsyncTransport] = {}
        self._sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def ask(self, said: Said | None, **options: Any) -> Message:
        """As `Session.ask`."""
        plan = self._plan(said, self._options(options, stream=False))
        drive = _Drive(self, run_turn(plan))
        async with aclosing(drive.events()) as events:
            async for _ in events:
                pass
        return drive.reply

    async def stream(self, said: Said | None, **options: Any) -> AsyncIterator[SessionEvent]:
        """As `Session.stream`. Cancelling the task, or leaving the loop, cancels the reply."""
        plan = self._plan(said, self._options(options, stream=True))
        async with aclosing(_Drive(self, run_turn(plan)).events()) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """As `Session.close`."""
        for transport in self._transports.values():
            await transport.close()
        self._transports.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _send(self, ask: Ask) -> Message:
        transport = self._transport(ask.adapter)
        response = await transport.send(ask.adapter, ask.request, timeout=self._timeout(ask.adapter))
        return ask.adapter.from_wire_response(response, ask.context)

    async def _run_tools(self, effect: RunTools) -> list[ToolResultBlock]:
        prepared = [self.toolbox.prepare(call) for call in effect.calls]
        return list(await asyncio.gather(*(toolbox.run_async(item, asyncio.to_thread) for item in prepared)))

    def _transport(self, adapter: Adapter) -> AsyncTransport:
        if adapter.provider not in self._transports:
            settings = self._settings(adapter.provider)
            self._transports[adapter.provider] = transport_for(adapter, asynchronous=True, **settings)
        return self._transports[adapter.provider]


class _Drive:
    """One turn under way. An async generator returns no value, so the reply is kept here."""

    def __init__(self, session: AsyncSession, turn: Generator[Effect, Any, Message]) -> None:
        self._session = session
        self._turn = turn
        self._result: Any = None
        self._pending: list[SessionEvent] = []
        self.reply: Message

    async def events(self) -> AsyncGenerator[SessionEvent, None]:
        """Carries out what the turn asks for; the sync twin is `Session._drive`."""
        session = self._session
        failure: Exception | None = None
        while True:
            try:
                effect = self._turn.throw(failure) if failure is not None else self._turn.send(self._result)
            except StopIteration as finished:
                self.reply = finished.value
                return
            self._result = failure = None
            try:
                match effect:
                    case Ask() if effect.request.stream:
                        async with aclosing(self._stream(effect)) as events:
                            async for event in events:
                                yield event
                    case Ask():
                        self._result = await session._send(effect)
                    case RunTools():
                        self._result = await session._run_tools(effect)
                        names = (call.name for call in effect.calls)
                        self._pending += map(ToolAnswered, names, self._result)
                    case Keep():
                        session._messages += effect.messages
                        pending, self._pending = self._pending, []
                        for event in pending:
                            yield event
                    case Wait():
                        await session._sleep(effect.seconds)
            except (ProviderError, InStreamError) as error:
                failure = error

    async def _stream(self, ask: Ask) -> AsyncGenerator[SessionEvent, None]:
        session = self._session
        gate, decoder = Gate(), ask.adapter.decoder(ask.context)
        transport = session._transport(ask.adapter)
        try:
            async with (
                transport.stream(ask.adapter, ask.request, timeout=session._timeout(ask.adapter)) as reply,
                aclosing(decode_async(reply.chunks, decoder)) as events,
            ):
                async for event in events:
                    if isinstance(event, ErrorEvent):
                        raise session._broken(event, gate)
                    if isinstance(event, MessageComplete):
                        self._result = event.message
                        self._pending += gate.pass_on(event)
                        return
                    for shown in gate.pass_on(event):
                        yield shown
        except (GeneratorExit, asyncio.CancelledError):
            session._keep_cancelled(ask, decoder.fail(RequestCancelledError("the caller left the stream")))
            raise
