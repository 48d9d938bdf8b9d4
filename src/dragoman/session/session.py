"""Session: a conversation that asks, streams, runs tools and swaps models, synchronously."""

import inspect
import operator
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, ProviderError
from dragoman.adapter.replies.stream_decoder import decode_stream
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
from dragoman.transport import Transport

if TYPE_CHECKING:
    from dragoman.policy import Declassification
    from dragoman.session.answer import AnswerValidator
    from dragoman.session.middleware.stream_filter import StreamFilter

MAX_PARALLEL_TOOLS = 8


class Session(Conversation[Transport]):
    """One conversation with one model at a time; any turn may swap to another.

    Use it as a context manager, or call `close`, to release its connections. It runs one turn at a time: the next turn
    ends a stream that was left open. Do not share it between threads. Several tool calls in one reply run in threads.
    """

    _asynchronous: ClassVar[bool] = False
    _running: Generator[SessionEvent, None, None] | None = None

    def ask(self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]) -> Message:
        """Return the assistant's answer, after all tool calls.

        ``model`` overrides the router for this turn; it needs a router. A forced ``tool_choice`` applies to the first
        reply of the turn. A prompt of None continues after a TurnLimitError or a paused reply. Raises ProviderError,
        and RequestError if the prompt cannot be sent; with a router NoModelError, and UnknownProviderError if the
        prompt mentions an unknown model. If the turn gets no reply, the history is as before.

        With a `MessageBodySchema` as ``output_schema`` the answer is a message body, which the schema's `read` gives;
        MessageBodyError is raised with every violation, and the answer stays in the history.
        """
        for event in self._turn_events(
            self._new_turn(prompt, options, stream=False, model=model), self._new_answer_validator(options)
        ):
            if isinstance(event, MessageComplete):
                reply = event.message
        return reply

    def stream(
        self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Generator[SessionEvent, None, None]:
        """Yield the events of the same turn: stream events of each reply, and ToolAnswered for each tool.

        Raises ProviderError when an adapter's stream ends with an error event; ``error.partial`` is what had arrived.
        Leaving the loop cancels the reply: what had arrived stays in the history with status cancelled. Leaving at
        message_complete or tool_answered keeps the message of that event. If the answer has to be a message body, the
        first event that makes a violation certain cancels it and raises MessageBodyError; in a session with tools,
        this happens at its end.
        """
        return self._turn_events(
            self._new_turn(prompt, options, stream=True, model=model), self._new_answer_validator(options)
        )

    def compact(
        self, model: str | None = None, *, keep_last: int | None = None, instructions: str | None = None
    ) -> Message:
        """Have the present model summarize the older part of the history; requests contain the summary instead of it.

        Returns the summary: a user message with its model, usage and cost, and the ids of the messages that it
        replaces in ``metadata.summary_of``. ``messages`` keeps everything.

        ``model`` is the one whose window the history has to fit: the present one, or one to `swap` to. ``keep_last`` is
        how many of the newest messages stay whole; without it the newer half does, or what takes half of the window.
        The system prompt, messages marked critical, and the call of every result that stays are kept as well.
        ``instructions`` tell the writer what matters, e.g. the next topic of the conversation.

        Raises CompactionError, which says what to do, if the rest would not fit, the reply is not a summary, or there
        is nothing to compact. Raises ProviderError as `ask` does; the history is then as before.
        """
        for _ in self._turn_events(self._with_telemetry(self._compaction_turn(model, keep_last, instructions))):
            pass
        return self._messages[-1]

    @classmethod
    def resume(
        cls, session_id: str, store: SessionStore, *, model: str | None = None, **settings: Unpack[SessionSettings]
    ) -> Self:
        """Return a stored session, to continue on its model or on another; ``settings`` are as for a new one. Its next
        turns are saved to the store.

        Raises SessionNotFoundError, UnreadableError, and SwapRefusedError as `swap` does.
        """
        return cls._from_store(session_id, store, model, settings)

    def declassify(
        self,
        labels: Iterable[str],
        *,
        actor: str,
        reason: str,
        audit: "Callable[[Declassification], Any] | None" = None,
    ) -> "Declassification | None":
        """Remove labels from the conversation: the only way to remove any. The policy has to grant it, as in
        ``Pipeline(..., grants=["declassify_labels"])``; a plugin cannot.

        There is exactly one record: ``audit`` receives it, it is saved with the session (in `dump` and in the store),
        the bus emits ``policy.declassified``, and it is returned. If the conversation has none of the labels, there is
        no record, and None is returned. Checking the present history again does not restore the label; new data does.
        A record is stored with a message: a session that is dumped without messages loses it, and has the labels of
        its extensions again.

        Raises DeclassificationError without the grant, or without an actor and a reason; ConfigurationError in the
        middle of a turn. If ``audit`` or the store raises, the labels stay.
        """
        if self._running is not None:
            raise ConfigurationError(TURN_IN_PROGRESS)
        return self._declassify(labels, actor, reason, audit)

    def close(self) -> None:
        """Release the connections. The conversation stays readable; the next turn opens new ones."""
        self._end_turn()
        self._save_turn()
        for transport in self._transports.values():
            transport.close()
        self._transports.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _turn_events(
        self, turn: Turn, validator: "AnswerValidator | None" = None
    ) -> Generator[SessionEvent, None, None]:
        """Yield the turn's events while its answer is valid. Only one turn runs at a time."""
        self._end_turn()
        self._running = running = self._drive(turn)
        try:
            if validator is None:
                yield from running
                return
            for event in running:
                validator.check_event(event)
                yield event
            validator.finish()
        finally:
            if self._running is running:
                self._end_turn()
            self._save_turn()

    def _end_turn(self) -> None:
        """Close a stream that is still open. Raises ConfigurationError if called from inside a turn."""
        running = self._running
        if running is None:
            return
        if inspect.isgenerator(running) and running.gi_running:
            raise ConfigurationError(TURN_IN_PROGRESS)
        self._running = None
        running.close()

    def _drive(self, turn: Turn) -> Generator[SessionEvent, None, None]:
        """Carry out the turn's effects. The async twin differs only in its awaits."""
        with closing(turn):  # releases the budget reservation immediately
            outcome: Any = None
            while (effect := advance(turn, outcome)) is not None:
                outcome = None
                try:
                    match effect:
                        case Read():
                            outcome = self._read_files(effect.adapter, effect.history)
                        case Send():
                            with closing(
                                self._stream(effect) if effect.request.stream else self._send(effect)
                            ) as events:
                                for event in events:
                                    if isinstance(event, MessageComplete):
                                        outcome = event.message
                                    yield event
                        case RunTools():
                            outcome = self._run_tools(effect.adapter, effect.calls)
                        case Keep():
                            self._messages += effect.messages
                            yield from effect.events
                        case Wait():
                            self._timing(effect.provider).sleep(effect.seconds)
                        case RunPolicy():
                            outcome = self._run_policy(effect.steps)
                except Exception as error:  # the turn handles what it can, and raises the rest
                    outcome = error

    def _send(self, send: Send) -> Generator[StreamEvent, None, None]:
        """Yield a whole reply as one event."""
        transport = self._transport(send.adapter)
        response = transport.send(send.adapter, send.request, timeout=self._timeout(send.adapter))
        try:
            reply = send.adapter.from_wire_response(response, send.context)
        except ProviderError as error:
            raise BrokenReplyError(error) from None
        if self._policy_hooks is not None:
            reply = self._run_policy(
                self._policy_hooks.check_reply(send.adapter, reply, partial(self._settle_unkept, send))
            )
        self._keep_reply(send, reply)
        yield MessageComplete(reply)

    def _stream(self, send: Send) -> Generator[StreamEvent, None, None]:
        reader, transport = ReplyReader(send), self._transport(send.adapter)
        stream_filter = self._new_stream_filter(send, reader)
        with transport.stream(send.adapter, send.request, timeout=self._timeout(send.adapter)) as reply:
            try:
                for event in decode_stream(reply.chunks, reader.decoder, idle_timeout=reply.idle_timeout):
                    for visible in (event,) if stream_filter is None else self._filter_event(stream_filter, event):
                        if isinstance(visible, MessageComplete):
                            self._keep_reply(send, visible.message)
                        yield from reader.feed(visible)
            except (GeneratorExit, KeyboardInterrupt):
                received = kept = reader.partial_reply()
                if self._policy_hooks is not None:
                    kept = self._run_policy(self._policy_hooks.check_partial(send.adapter, received))
                self._keep_partial(send, reader, received, kept)
                raise

    def apply_policy(
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
        checked: Message = self._run_policy(self._policy_hooks.check_fetch(hook, message, require, **slots))
        return checked

    def _filter_event(self, stream_filter: "StreamFilter", event: StreamEvent) -> Sequence[StreamEvent]:
        events_now = stream_filter.try_fast(event)
        return self._run_policy(stream_filter.apply(event)) if events_now is None else events_now

    def _run_policy(self, steps: Generator[Any, Any, Any]) -> Any:
        from dragoman.policy.runner import run  # a session with steps has loaded it already

        return run(steps)

    def _run_tools(self, adapter: Adapter, requested_calls: Sequence[ToolUseBlock]) -> list[ToolResultBlock]:
        prepared = [self._approve_call(self.toolbox.prepare(call)) for call in requested_calls]
        results = [self._check_files(adapter, result) for result in self._run(prepared)]
        self._on_tool_results(prepared, results)
        return results

    def _run(self, prepared: Sequence[PreparedCall]) -> list[ToolResultBlock]:
        if len(prepared) == 1:
            return [calls.run(prepared[0])]
        with ThreadPoolExecutor(max_workers=min(MAX_PARALLEL_TOOLS, len(prepared))) as pool:
            runs = [partial(copy_context().run, calls.run, item) for item in prepared]
            return list(pool.map(operator.call, runs))

    def _approve_call(self, prepared: PreparedCall) -> PreparedCall:
        if self._approve is None or prepared.tool is None:
            return prepared
        return self._apply_decision(prepared, self._approve(prepared.call, prepared.tool.definition))


def ask(model: str, prompt: UserInput, *, system: str | None = None, **settings: Unpack[SessionSettings]) -> Message:
    """Ask one question in a session of its own and return the answer. ``settings`` are those of `Session`."""
    with Session(model, system=system, **settings) as session:
        return session.ask(prompt)
