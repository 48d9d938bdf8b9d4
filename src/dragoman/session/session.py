"""Session: a conversation that asks, streams, runs tools and changes its model, synchronously."""

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
    """One conversation with one model at a time, and any other from the next turn on.

    Use it as a context manager, or call `close`, to release its connections. It takes one turn at a time: the next one
    ends a stream that was left open. Not to be shared between threads. Several calls in one reply run in threads.
    """

    _asynchronous: ClassVar[bool] = False
    _running: Generator[SessionEvent, None, None] | None = None

    def ask(self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]) -> Message:
        """The assistant's answer, after all the tools it called.

        ``model`` is for this turn alone, before what a router would choose; it needs one. A forced ``tool_choice``
        holds for the turn's first reply. None goes on without saying anything, after a TurnLimitError or a reply that
        paused. Raises ProviderError, and RequestError where what was said cannot be sent; with a router NoModelError,
        and UnknownProviderError for a mention of no model. If nothing of the turn was answered, the history is as
        before.

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
        """The same turn as it happens: stream events of each reply, and ToolAnswered for each tool.

        Raises ProviderError where the adapters' own streams end with an error event; ``error.partial`` is what had
        arrived. Leaving the loop cancels the reply: what had arrived stays in the history with status cancelled.
        Leaving at message_complete or tool_answered keeps what the event tells of. An answer that has to be a message
        body is left at the first event that makes a violation certain, and MessageBodyError raised in its place; in a
        session with tools, at its end.
        """
        return self._turn_events(
            self._new_turn(prompt, options, stream=True, model=model), self._new_answer_validator(options)
        )

    def compact(
        self, model: str | None = None, *, keep_last: int | None = None, instructions: str | None = None
    ) -> Message:
        """Lets the present model write a summary of the older part of the history, which is sent in its place from
        then on. Gives the summary: a message of the user's, which also tells its model, usage and cost, and in
        ``metadata.summary_of`` what it stands for. ``messages`` keeps everything.

        ``model`` is the one whose window the history is to fit: the present one, or one to `swap` to. ``keep_last`` is
        how many of the newest messages stay whole; without it the newer half does, or what takes half of the window.
        What stays besides: the system prompt, messages marked critical, and the call to every result that stays.
        ``instructions`` tell the writer what to heed, e.g. what the conversation is about to turn to.

        Raises CompactionError, saying what to do, where the rest would not fit, the reply is no summary, or there is
        nothing to compact; ProviderError as `ask` does, and the history is as before.
        """
        for _ in self._turn_events(self._with_telemetry(self._compaction_turn(model, keep_last, instructions))):
            pass
        return self._messages[-1]

    @classmethod
    def resume(
        cls, session_id: str, store: SessionStore, *, model: str | None = None, **settings: Unpack[SessionSettings]
    ) -> Self:
        """A session of a store, to go on with on its model or on another one; ``settings`` as for a new one. Its next
        turns are kept there.

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
        """Takes labels away from the conversation: the only way to lose any. The policy has to grant it, as in
        ``Pipeline(..., grants=["declassify_labels"])``; no plugin can.

        There is exactly one record of it: ``audit`` is given it, it is kept with the session (in `dump` and in the
        store), the bus is told ``policy.declassified``, and it is the result. None of the labels there: None, and no
        record. What is in the history now does not bring the label back when it is judged again; new data does. A
        record is kept beside a message: a session that is dumped without any has the labels of its extensions again.

        Raises DeclassificationError without the grant, or without an actor and a reason; ConfigurationError in the
        middle of a turn. Where ``audit`` or the store raises, the labels stay.
        """
        if self._running is not None:
            raise ConfigurationError(TURN_IN_PROGRESS)
        return self._declassify(labels, actor, reason, audit)

    def close(self) -> None:
        """Releases the connections. The conversation stays readable, and asking again opens new ones."""
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
        """The turn's events, as long as its answer is right; only one turn is under way at a time."""
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
        """Leaves a stream that is still open. Raises ConfigurationError where it is called from inside a turn."""
        running = self._running
        if running is None:
            return
        if inspect.isgenerator(running) and running.gi_running:
            raise ConfigurationError(TURN_IN_PROGRESS)
        self._running = None
        running.close()

    def _drive(self, turn: Turn) -> Generator[SessionEvent, None, None]:
        """Carries out what the turn asks for; the async twin differs in its awaits alone."""
        with closing(turn):  # what it holds back of a budget is given back at once
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
                except Exception as error:  # the turn knows which it can do something about, and raises the others
                    outcome = error

    def _send(self, send: Send) -> Generator[StreamEvent, None, None]:
        """A whole reply, as the one event that tells of it."""
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
        from dragoman.policy.runner import run  # loaded by now: there are steps

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
    """One question, one answer: a session that is closed again. ``settings`` are those of `Session`."""
    with Session(model, system=system, **settings) as session:
        return session.ask(prompt)
