"""Session: a conversation that asks, streams, runs tools and changes its model, synchronously."""

import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from dragoman.adapter.contract import Adapter
from dragoman.adapter.decoding import decode
from dragoman.adapter.errors import ConfigurationError, ProviderError, RequestCancelledError
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message
from dragoman.session import toolbox
from dragoman.session.conversation import Conversation, Said
from dragoman.session.events import SessionEvent, ToolAnswered
from dragoman.session.turn import Ask, Effect, Gate, InStreamError, Keep, RunTools, Wait, run_turn
from dragoman.transport import transport_for
from dragoman.transport.contract import Transport

MAX_PARALLEL_TOOLS = 8


class Session(Conversation):
    """One conversation with one model at a time, and any other from the next turn on.

    Use it as a context manager, or call `close`, to release its connections. Not to be shared between threads.
    """

    def __init__(self, model: str, **settings: Any) -> None:
        super().__init__(model, **settings)
        if names := self.toolbox.async_names:
            raise ConfigurationError(f"{', '.join(names)}: async tools need an AsyncSession")
        self._transports: dict[str, Transport] = {}
        self._sleep: Callable[[float], None] = time.sleep

    def ask(self, said: Said | None, **options: Any) -> Message:
        """The assistant's answer, after all the tools it called. ``options`` are those of AdapterOptions.

        None goes on without saying anything, e.g. after a TurnLimitError. Raises ProviderError; if nothing of the
        turn was answered, the history is as before.
        """
        plan = self._plan(said, self._options(options, stream=False))
        driven = self._drive(run_turn(plan))
        while True:
            try:
                next(driven)
            except StopIteration as finished:
                answer: Message = finished.value
                return answer

    def stream(self, said: Said | None, **options: Any) -> Iterator[SessionEvent]:
        """The same turn as it happens: stream events of each reply, and ToolAnswered for each tool.

        Raises ProviderError where the adapters' own streams end with an error event. Leaving the loop cancels the
        reply: what had arrived stays in the history with status cancelled.
        """
        plan = self._plan(said, self._options(options, stream=True))
        yield from self._drive(run_turn(plan))

    def close(self) -> None:
        """Releases the connections. The conversation stays readable, and asking again opens new ones."""
        for transport in self._transports.values():
            transport.close()
        self._transports.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drive(self, turn: Generator[Effect, Any, Message]) -> Generator[SessionEvent, None, Message]:
        """Carries out what the turn asks for; the async twin differs in its awaits alone."""
        result: Any = None
        failure: Exception | None = None
        # Events that tell of what the history is about to hold; a caller who leaves at one of them finds it there.
        pending: list[SessionEvent] = []
        while True:
            try:
                effect = turn.throw(failure) if failure is not None else turn.send(result)
            except StopIteration as finished:
                reply: Message = finished.value
                return reply
            result = failure = None
            try:
                match effect:
                    case Ask() if effect.request.stream:
                        result = yield from self._stream(effect, pending)
                    case Ask():
                        result = self._send(effect)
                    case RunTools():
                        result = self._run_tools(effect)
                        pending += map(ToolAnswered, (call.name for call in effect.calls), result)
                    case Keep():
                        self._messages += effect.messages
                        yield from pending
                        pending = []
                    case Wait():
                        self._sleep(effect.seconds)
            except (ProviderError, InStreamError) as error:
                failure = error

    def _send(self, ask: Ask) -> Message:
        response = self._transport(ask.adapter).send(ask.adapter, ask.request, timeout=self._timeout(ask.adapter))
        return ask.adapter.from_wire_response(response, ask.context)

    def _stream(self, ask: Ask, pending: list[SessionEvent]) -> Generator[SessionEvent, None, Message]:
        gate, decoder = Gate(), ask.adapter.decoder(ask.context)
        transport = self._transport(ask.adapter)
        try:
            with transport.stream(ask.adapter, ask.request, timeout=self._timeout(ask.adapter)) as reply:
                for event in decode(reply.chunks, decoder):
                    if isinstance(event, ErrorEvent):
                        raise self._broken(event, gate)
                    if isinstance(event, MessageComplete):
                        pending += gate.pass_on(event)
                        return event.message
                    yield from gate.pass_on(event)
        except (GeneratorExit, KeyboardInterrupt):
            self._keep_cancelled(ask, decoder.fail(RequestCancelledError("the caller left the stream")))
            raise
        raise AssertionError("a decoder ends with message_complete or error")

    def _run_tools(self, effect: RunTools) -> list[ToolResultBlock]:
        prepared = [self.toolbox.prepare(call) for call in effect.calls]
        if len(prepared) == 1:
            return [toolbox.run(prepared[0])]
        with ThreadPoolExecutor(max_workers=min(MAX_PARALLEL_TOOLS, len(prepared))) as pool:
            return list(pool.map(toolbox.run, prepared))

    def _transport(self, adapter: Adapter) -> Transport:
        if adapter.provider not in self._transports:
            settings = self._settings(adapter.provider)
            self._transports[adapter.provider] = transport_for(adapter, asynchronous=False, **settings)
        return self._transports[adapter.provider]


def ask(model: str, said: Said, **settings: Any) -> Message:
    """One question, one answer: a session that is closed again. ``settings`` are those of `Session`."""
    with Session(model, **settings) as session:
        return session.ask(said)
