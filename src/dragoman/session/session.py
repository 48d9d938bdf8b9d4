"""Session: one conversation, with replies, streams, tools and swaps of models. The synchronous driver of a turn."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, overload
from weakref import ref

from typing_extensions import TypeForm

from dragoman.adapter.errors import ConfigurationError, ProviderError
from dragoman.adapter.replies.stream_decoder import decode_batches
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
from dragoman.session.replies.stream import ReplyStream
from dragoman.session.turn.answers import CallResults, prepare_calls
from dragoman.session.turn.reply_reader import ReplyReader
from dragoman.session.turn.run import TurnRun, encode, keep, tool_run
from dragoman.tools.call_runner import Report, ignore, start_thread
from dragoman.tools.calls import PreparedCall, apply_decision
from dragoman.transport import Transport
from dragoman.transport.settings import seal_keys

if TYPE_CHECKING:
    from dragoman.policy import Declassification
    from dragoman.session.replies.answer import AnswerValidator


class Session(Conversation[Transport]):
    """One conversation with one model at a time; any turn may swap to another.

        with Session("anthropic:claude-opus-5-5", tools=[read_file]) as session:
            reply = session.ask("Summarize README.md")

    ask, stream       run a turn: the model answers, and the tools that it calls run
    pending, pending_reasons            the calls that wait for results from elsewhere
    unfinished        the turn that a killed program has left; ask(None) goes on with it
    answer, stream_answer               give them their results, and go on with the turn
    swap, preview     change the model; what that would lose and cost
    compact           put a summary in place of the older part of the history
    messages, model   the history, and the model that answers next
    usage, cost, cost_on, attempts      what all turns used and cost
    dump, load, resume                  store and continue a session
    labels, declassify, apply_policy    the policy's view of the data
    identify, close

    Use it as a context manager, or call `close`, to release its connections. It runs one turn at a time: the next turn
    ends a stream that was left open. Do not share it between threads. Several tool calls in one reply run in threads.
    """

    _asynchronous: ClassVar[bool] = False
    _running: TurnRun | None = None

    @overload
    def ask(
        self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[str]: ...

    @overload
    def ask(
        self,
        prompt: UserInput | None,
        *,
        output: TypeForm[OutputT],
        model: str | None = None,
        **options: Unpack[TurnOptions],
    ) -> Reply[OutputT]: ...

    def ask(
        self, prompt: UserInput | None, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[Any]:
        """Return the assistant's answer, after all tool calls.

        ``model`` overrides the router for this turn; it needs a router. A forced ``tool_choice`` applies to the first
        reply of the turn. A prompt of None continues after a TurnLimitError or a paused reply, and goes on with an
        `unfinished` turn. Raises ProviderError, and RequestError if the prompt cannot be sent; with a router
        NoModelError, and UnknownProviderError if the prompt mentions an unknown model. If the turn gets no reply, the
        history is as before.

        ``output`` is the type of the answer, which is then ``reply.output``: a pydantic model, a dataclass, a union or
        any other type with a JSON Schema. An answer that is not valid stays in the history, and the model is asked
        again, with the problems, at most ``output_retries`` times. Then OutputError is raised. ``output_schema`` is a
        JSON Schema for the text of the answer, checked in the same way. Raises OutputTypeError for a type without a
        schema.

        With a `MessageBodySchema` as ``output_schema`` the answer is a message body: the schema's `read` parses it. An
        answer that violates the schema raises MessageBodyError with every violation, and stays in the history.
        """
        run = self._start_turn(prompt, options, output, stream=False, model=model)
        self._run(run)
        return run.record.to_reply()

    @overload
    def stream(
        self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> ReplyStream[str]: ...

    @overload
    def stream(
        self,
        prompt: UserInput | None,
        *,
        output: TypeForm[OutputT],
        model: str | None = None,
        **options: Unpack[TurnOptions],
    ) -> ReplyStream[OutputT]: ...

    def stream(
        self, prompt: UserInput | None, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> ReplyStream[Any]:
        """Return the same turn as a stream: the events of each reply, and ToolAnswered for each tool.

        Iterating raises ProviderError when an adapter's stream ends with an error event; ``error.partial`` is what had
        arrived. Closing the stream before its end cancels the reply: what had arrived stays in the history with status
        cancelled. Closing it at message_complete or tool_answered keeps the message of that event. If the answer has to
        be a message body, the first event that makes a violation certain cancels the reply and raises MessageBodyError;
        in a session with tools, the check is made at the end of the turn.

        With ``output``, the stream yields OutputPartial with what has arrived and is valid, OutputComplete with the
        answer, and OutputRetry if the model is asked again. A string is part of a value when it has ended, or as it
        arrives with ``partial_strings``.
        """
        run = self._start_turn(prompt, options, output, stream=True, model=model)
        events = self._stream(run)
        run.events = ref(events)  # so that dropping the stream ends the turn at once
        return ReplyStream(events, run.record)

    def answer(
        self, results: CallResults, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[Any]:
        """Give pending calls their results, and go on with the turn; in any process that loads the session.

        ``results`` has a result by the id of each call: what a tool may return, or an exception, which the model
        receives as an error. While other calls of the same reply wait, the results are kept, nothing is sent, and the
        returned reply is the one that waits. The other arguments are those of `ask`. With a store, the results are
        saved before anything is sent: of two programs that answer the same call, the second gets ConflictError.

        Raises CallNotPendingError if a call has its result already, or does not wait; then nothing changes.
        """
        run = self._start_turn(None, options, output, stream=False, model=model, results=results or {})
        self._run(run)
        return run.record.to_reply()

    def stream_answer(
        self, results: CallResults, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> ReplyStream[Any]:
        """Return the same turn as a stream."""
        run = self._start_turn(None, options, output, stream=True, model=model, results=results or {})
        events = self._stream(run)
        run.events = ref(events)  # as in `stream`
        return ReplyStream(events, run.record)

    def compact(
        self, model: str | None = None, *, keep_last: int | None = None, instructions: str | None = None
    ) -> Message:
        """Have the current model summarize the older part of the history. Requests then contain the summary in its
        place.

        Returns the summary: a user message with its model, usage and cost, and the ids of the messages that it
        replaces in ``metadata.summary_of``. ``messages`` keeps everything.

        ``model`` is the one whose window the history has to fit: by default the current one, else one to `swap` to.
        ``keep_last`` is the number of newest messages that are not summarized; by default the newer half, at most half
        of the window. The system prompt, messages marked critical, and the call of every kept result are not summarized
        either. ``instructions`` tell the model that writes the summary what matters, e.g. the next topic of the
        conversation.

        Raises CompactionError, which says what to do, if the rest would not fit, the reply is not a summary, or there
        is nothing to compact. Raises ProviderError as `ask` does; the history is then as before.
        """
        self._run(self._start(self._compaction_turn(model, keep_last, instructions)))
        return self.messages[-1]

    @classmethod
    def resume(
        cls, session_id: str, store: SessionStore, *, model: str | None = None, **settings: Unpack[SessionSettings]
    ) -> Self:
        """Return a stored session, to continue on its model or on another; ``settings`` are as for a new one. The
        session saves its next turns to the store. If its program was killed in a turn, ``unfinished`` is that turn.

        Raises SessionNotFoundError, UnreadableError, ConfigurationError for a URL, and SwapRefusedError as `swap` does.
        """
        settings = seal_keys(settings)  # type: ignore[assignment]  # as in __init__
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
        no record, and None is returned. Checking the same history again does not restore the label; new data does.

        Raises DeclassificationError without the grant, or without an actor and a reason; ConfigurationError in the
        middle of a turn. If ``audit`` or the store raises, the labels stay.
        """
        if self._running is not None:
            raise ConfigurationError(TURN_IN_PROGRESS)
        return self._declassify(labels, actor, reason, audit)

    def apply_policy(
        self, hook: str, message: Message, *, require: Callable[[Message], str | None] | None = None, **slots: Any
    ) -> Message:
        """Run the session's policy on a message, at a hook such as ``resource_post_fetch``. Return the message as
        changed.

        ``slots`` are extensions of this message alone. ``require`` gets the message as the plugins left it and returns
        the code of a refusal, ``left_out`` or ``redirected``, or None. A message without a session id gets that of this
        session. Without a policy the message is not changed, and ``require`` is not called. Raises PolicyDeniedError.
        """
        checked = self._policy.fetch_check(hook, self._factory.adopt(message), require, **slots)
        result: Message = checked.work() if isinstance(checked, Perform) else checked
        return result

    def close(self) -> None:
        """Release the connections. The conversation stays readable; the next turn opens new ones."""
        self._end_turn()
        self._save_rest()
        if self.config.own_providers:
            for transport in self._transports.take_all():
                transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end_turn(self) -> None:
        """Close a stream that is still open. Raises ConfigurationError if called from inside a turn."""
        running = self._running
        if running is None:
            return
        events = None if running.events is None else running.events()
        if running.events is None or getattr(events, "gi_running", False):
            raise ConfigurationError(TURN_IN_PROGRESS)
        self._running = None
        if events is not None:
            events.close()

    def _run(self, run: TurnRun) -> None:
        """Run a turn whose events nobody reads, while its answer is valid. The async twin differs only in its
        awaits."""
        self._end_turn()
        self._running = run
        try:
            with closing(run.turn):
                run.begin()
                while run.effect is not None:
                    if isinstance(run.effect, Send):
                        self._attempt_whole(run, run.effect)
                        continue
                    outcome, events = self._carry_out(run)
                    if run.validator is not None:
                        self._validate(run, run.validator, events)
                    run.advance(outcome)
            run.finish()
        finally:
            self._running = None

    def _stream(self, run: TurnRun) -> Generator[SessionEvent, None, None]:
        """Run a turn, and yield its events while its answer is valid."""
        self._end_turn()
        self._running, note, follow = run, run.record.note_event, run.follow_answer()
        try:
            with closing(run.turn):
                run.begin()
                while run.effect is not None:
                    with closing(
                        self._attempt(run, run.effect) if isinstance(run.effect, Send) else self._deliver(run)
                    ) as batches:
                        for events in batches:
                            for event in events if follow is None else follow(events):
                                note(event)
                                yield event
            run.finish()
        finally:
            run.record.ended = True
            if self._running is run:
                self._running = None

    def _validate(self, run: TurnRun, validator: "AnswerValidator", events: Sequence[SessionEvent]) -> None:
        """Check the events of an effect. The turn ends at the first one that violates the schema."""
        try:
            for event in events:
                validator.check_event(event)
        except Exception:
            self._abandon(run, AbandonedTurnError())
            raise

    def _carry_out(self, run: TurnRun) -> tuple[Any, Sequence[SessionEvent]]:
        """Carry out one effect, other than a `Send`. Return its outcome, and events for the caller."""
        outcome: Any = None
        events: Sequence[SessionEvent] = ()
        try:
            match run.effect:
                case Admit():
                    outcome = run.effect.prompt
                case Choose():
                    outcome = run.effect.choose()
                case Read():
                    outcome = self._read_files(run.effect.adapter, run.effect.history)
                case RunTools():
                    outcome = self._run_tools(run, run.effect, self._approve_calls(run.effect))
                case Keep():
                    outcome, events = run.effect.messages, keep(run.effect, self._history)
                case Wait():
                    run.effect.timing.sleep(run.effect.seconds)
                    events = run.effect.events
                case Perform():
                    outcome = run.effect.work()
        except KeyboardInterrupt:
            self._abandon(run, AbandonedTurnError())
            raise
        except Exception as error:  # the turn handles what it can, and raises the rest
            outcome = error
        return outcome, events

    def _deliver(self, run: TurnRun) -> Generator[Sequence[SessionEvent], None, None]:
        """Carry out one effect, yield its events, and send the turn its outcome."""
        outcome: Any
        events: Sequence[SessionEvent]
        if isinstance(run.effect, RunTools) and self._may_report(run.effect):
            outcome, events = (yield from self._report_tools(run, run.effect)), ()
        else:
            outcome, events = self._carry_out(run)
        try:
            yield events
        except (GeneratorExit, KeyboardInterrupt):
            self._abandon(run, AbandonedTurnError())
            raise
        run.advance(outcome)

    def _abandon(self, run: TurnRun, outcome: Any) -> None:
        """Send the turn the outcome for a caller who left, and carry out its last effects without events."""
        if run.calls is not None:
            run.calls.leave()
        run.advance(outcome)
        while run.effect is not None:
            outcome, _ = self._carry_out(run)
            run.advance(outcome)
        if run.error is not None:
            if not isinstance(run.error, AbandonedTurnError):
                raise run.error
            run.error.__traceback__ = run.error.__context__ = None  # their frames refer to the run and the error

    def _attempt(self, run: TurnRun, send: Send) -> Generator[Sequence[SessionEvent], None, None]:
        """Make one attempt of a request, and yield what the caller may see of the reply, as it arrives."""
        reader = ReplyReader(send)
        try:
            request, transport = encode(send, run.record), self._transports.get(send.adapter)
            arguments = self._transports.arguments(send.adapter, send.retries)
            if request.stream:
                with transport.stream(send.adapter, request, **arguments) as response:
                    reader.begin(response)
                    self._observe(send, response.headers)
                    for batch in decode_batches(response.chunks, reader.decoder, idle_timeout=response.idle_timeout):
                        reader.receive(batch)
                        if not send.stages:
                            yield reader.feed(batch)
                            continue
                        for event in batch:
                            yield reader.feed(self._apply_stages(send.stages, event))
                    # Kept before the connection is released, which may take a while.
                    run.finish_attempt(reader)
                    while isinstance(run.effect, (Keep, Perform)):
                        yield from self._deliver(run)
            else:
                self._read_whole(send, reader, transport, request, arguments)
        except (GeneratorExit, KeyboardInterrupt):
            if run.effect is send:
                self._abandon(run, reader.abandon())
            raise
        except Exception as error:
            if run.effect is not send:
                raise
            reader.fail(error)
        if run.effect is send:
            run.finish_attempt(reader)

    def _attempt_whole(self, run: TurnRun, send: Send) -> None:
        """Make one attempt of a request whose events nobody reads."""
        if send.options.stream:  # a middleware asks for a stream
            for _ in self._attempt(run, send):
                pass
            return
        reader = ReplyReader(send)
        try:
            request, transport = encode(send, run.record), self._transports.get(send.adapter)
            self._read_whole(send, reader, transport, request, self._transports.arguments(send.adapter, send.retries))
        except KeyboardInterrupt:
            self._abandon(run, reader.abandon())
            raise
        except Exception as error:
            reader.fail(error)
        run.finish_attempt(reader)

    def _read_whole(
        self, send: Send, reader: ReplyReader, transport: Transport, request: WireRequest, arguments: dict[str, Any]
    ) -> None:
        response = transport.send(send.adapter, request, **arguments)
        reader.begin(response)
        self._observe(send, response.headers)
        try:
            reply = send.adapter.from_wire_response(response, send.context)
        except ProviderError as error:
            reader.fail_unreadable(error)
        else:
            event = MessageComplete(reply)
            reader.receive((event,))
            reader.feed(self._apply_stages(send.stages, event))

    def _observe(self, send: Send, headers: Any) -> None:
        for observe in send.observers:
            observe(headers).work()

    def _apply_stages(self, stages: Sequence[Stage], event: StreamEvent) -> Sequence[StreamEvent]:
        """Return the events that the stages make of one event."""
        events: Sequence[StreamEvent] = (event,)
        for stage in stages:
            results: list[StreamEvent] = []
            for each in events:
                result = stage(each)
                results += result.work() if isinstance(result, Perform) else result
            events = results
        return events

    def _approve_calls(self, effect: RunTools) -> list[PreparedCall]:
        return [self._approve_call(call) for call in prepare_calls(effect, self.toolbox)]

    def _run_tools(
        self, run: TurnRun, effect: RunTools, prepared: Sequence[PreparedCall], report: Report = ignore
    ) -> list[ToolRun]:
        return [
            tool_run(call, result, seconds, self._files, effect.adapter, self._factory.tool_message)
            for call, (result, seconds) in zip(prepared, self._call_runner(run).run(prepared, report), strict=True)
            if isinstance(result, ToolResultBlock)
        ]

    def _report_tools(self, run: TurnRun, effect: RunTools) -> Generator[Sequence[SessionEvent], None, Any]:
        """Run tools in a thread, and yield their progress. Return the outcome."""
        reports: SimpleQueue[ToolProgress | None] = SimpleQueue()

        def work() -> list[ToolRun]:
            try:
                return self._run_tools(run, effect, prepared, reports.put)
            finally:
                reports.put(None)

        try:
            prepared = self._approve_calls(effect)
            running = start_thread(work)
            while (progress := reports.get()) is not None:
                yield (progress,)
            return running.result()
        except (GeneratorExit, KeyboardInterrupt):
            self._abandon(run, AbandonedTurnError())
            raise
        except Exception as error:
            return error

    def _approve_call(self, prepared: PreparedCall) -> PreparedCall:
        if self.config.approve is None or prepared.tool is None:
            return prepared
        return apply_decision(prepared, self.config.approve(prepared.call, prepared.tool.definition))
