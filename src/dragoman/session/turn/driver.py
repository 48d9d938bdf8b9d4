"""Carries out the effects of a turn: what `Session` and `AsyncSession` share.

Everything here is work (`dragoman.effects`): it yields each step that may wait, and one of two drivers waits.
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import aclosing, closing
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, ProviderError, RequestError
from dragoman.adapter.losses import log_losses
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.attempt.reply_reader import ReplyReader, apply_stages
from dragoman.canonical.blocks import ToolResultBlock, has_only_texts
from dragoman.canonical.events import MessageComplete, ToolProgress
from dragoman.canonical.message import Message, Role
from dragoman.configuration.transports import TransportT
from dragoman.effects import Perform, Work, call, in_thread, next_of, within
from dragoman.session.config import TurnOptions, UserInput
from dragoman.session.effects import (
    AbandonedTurnError,
    Admit,
    Choose,
    Keep,
    Read,
    RunTools,
    Send,
    SessionEvent,
    ToolAnswered,
    ToolRun,
    Wait,
)
from dragoman.session.reply import Reply
from dragoman.session.stored import StoredConversation
from dragoman.session.turn.planner import TurnRun

if TYPE_CHECKING:
    from dragoman.policy import Declassification
    from dragoman.session.turn.answers import CallResults
    from dragoman.session.turn.compaction import CompactionPlace
    from dragoman.tools.call_runner import CallRunner, TimedResult
    from dragoman.tools.calls import PreparedCall

TURN_IN_PROGRESS = "the session is in the middle of a turn and runs one at a time: use another session for a second one"

_LONG_HISTORY = 2_000
"""Messages. Encoding so many takes longer than a change of the thread, and than other tasks should wait."""

_ENDS = (GeneratorExit, SystemExit)
"""Nothing can be yielded any more, or the program ends: a later one goes on with the turn as it is in the store."""

Steps = Generator[Any, Any, None]
"""Work that also yields the events of a turn, as they arrive together."""


class TurnDriver(StoredConversation[TransportT], Generic[TransportT]):
    """A conversation that runs its turns."""

    def _ask(
        self,
        prompt: UserInput | None,
        options: TurnOptions,
        output: Any,
        model: str | None,
        results: "CallResults | None" = None,
    ) -> Work[Reply[Any]]:
        run = self._start_turn(prompt, options, output, stream=False, model=model, results=results)
        yield from self._run(run)
        return run.to_reply()

    def _compact(
        self, model: str | None, keep_last: int | None, instructions: str | None, on: "CompactionPlace"
    ) -> Work[Message]:
        yield from self._run(self._start(self._compaction_turn(model, keep_last, instructions, on)))
        return self.messages[-1]

    def _remove_labels(
        self, labels: Iterable[str], actor: str, reason: str, audit: Any
    ) -> Work["Declassification | None"]:
        if self._running is not None:
            raise ConfigurationError(TURN_IN_PROGRESS)
        arguments = labels, actor, reason, audit
        if self.config.store is None:
            return self._declassify(*arguments)
        removed: Declassification | None = yield in_thread(self._declassify, *arguments)
        return removed

    def _check_fetched(self, hook: str, message: Message, require: Any, slots: dict[str, Any]) -> Work[Message]:
        checked = self._policy.fetch_check(hook, self._factory.adopt(message), require, **slots)
        result: Message = (yield checked) if isinstance(checked, Perform) else checked
        return result

    def _close(self) -> Work[None]:
        if self._running is not None:
            yield from self._end_turn(self._running)
        if self.config.store is not None:
            yield in_thread(self._save_rest)
        if self.config.own_providers:
            yield from self._transports.close()

    def _end_turn(self, running: TurnRun) -> Work[None]:
        """Close a stream that is still open. Raises ConfigurationError if called from inside a turn."""
        events: Any = None if running.events is None else running.events()
        is_inside = getattr(events, "gi_running", False) or getattr(events, "ag_running", False)
        if running.events is None or is_inside:
            raise ConfigurationError(TURN_IN_PROGRESS)
        self._running = None
        if events is not None:
            yield Perform(lambda: events.close(), lambda: events.aclose())

    def _run(self, run: TurnRun) -> Steps:
        """Run a turn to its end. Of a stream, yield the events that arrive together, too."""
        if self._running is not None:
            yield from self._end_turn(self._running)
        self._running = run
        try:
            with closing(run.turn):
                run.begin()
                while run.effect is not None:
                    yield from self._attempt(run, run.effect) if isinstance(run.effect, Send) else self._step(run)
            if run.error is not None:
                raise run.error
        finally:
            run.ended = True
            if self._running is run:
                self._running = None

    def _step(self, run: TurnRun) -> Steps:
        """Carry out one effect, other than a `Send`, yield its events if anybody reads them, and send the turn its
        outcome."""
        try:
            outcome, events = yield from self._carry_out(run)
            if events and run.events is not None and not run.is_left:
                yield events
        except _ENDS:
            raise
        except BaseException:  # an interrupt, a caller who left, or an answer that violates its schema
            yield from self._abandon(run, AbandonedTurnError())
            raise
        run.advance(outcome)

    def _carry_out(self, run: TurnRun) -> Generator[Any, Any, tuple[Any, Sequence[SessionEvent]]]:
        """Return the outcome of an effect, and events for the caller."""
        outcome: Any = None
        events: Sequence[SessionEvent] = ()
        try:
            match effect := run.effect:
                case Admit():
                    outcome = effect.prompt
                case Choose():
                    outcome = effect.choose()
                case Read():
                    read = partial(self._request_history.read, effect.history, effect.adapter)
                    outcome = (yield in_thread(read)) if self._request_history.can_fetch else read()
                case RunTools():
                    outcome = yield from self._run_tools(run, effect)
                case Keep():
                    outcome, events = effect.messages, self._keep(effect)
                case Wait():
                    timing, seconds = effect.timing, effect.seconds
                    yield Perform(partial(timing.sleep, seconds), partial(timing.sleep_async, seconds))
                    events = effect.events
                case Perform():
                    outcome = yield effect
        except Exception as error:  # the turn handles what it can, and raises the rest
            outcome = error
        return outcome, events

    def _abandon(self, run: TurnRun, outcome: Any) -> Steps:
        """Send the turn the outcome for a caller who left, and carry out its last effects without events."""
        run.is_left = True
        if run.calls is not None:
            run.calls.leave()
        run.advance(outcome)
        while run.effect is not None:
            yield from self._step(run)
        if run.error is not None:
            if not isinstance(run.error, AbandonedTurnError):
                raise run.error
            run.error.__traceback__ = run.error.__context__ = None  # their frames refer to the run and the error

    def _attempt(self, run: TurnRun, send: Send) -> Steps:
        """Make one attempt of a request. Of a stream, yield what the caller may see of the reply, as it arrives."""
        joins_text = send.joins_text and not send.stages
        reader = ReplyReader(send.adapter, send.context, send.retries.timing.clock, joins_text=joins_text)
        try:
            is_long = len(send.messages) >= _LONG_HISTORY or getattr(send.messages, "is_large", False)
            request = (yield in_thread(_encode, send, run)) if is_long else _encode(send, run)
            transport: Any = self._transports.get(send.adapter)
            if request.stream:
                exchange = transport.stream(send.adapter, request, retries=send.retries)
                yield from within(exchange, partial(self._read_stream, run, send, reader))
            else:
                response = yield call(transport.send, send.adapter, request, retries=send.retries)
                yield from self._read_whole(send, reader, response)
        except _ENDS:
            raise
        except Exception as error:
            if run.effect is not send:
                raise
            reader.fail(error)
        except BaseException:
            if run.effect is send:
                yield from self._abandon(run, reader.abandon())
            raise
        if run.effect is send:
            run.finish_attempt(reader)

    def _read_whole(self, send: Send, reader: ReplyReader, response: WireResponse) -> Work[None]:
        reader.response = response
        for observe in send.observers:
            yield observe(response.headers)
        try:
            event = MessageComplete(send.adapter.from_wire_response(response, send.context))
        except ProviderError as error:
            reader.fail_unreadable(error)
            return
        if send.stages:
            reader.receive((event,))
            reader.feed((yield from apply_stages(send.stages, event)))
        else:
            reader.feed((event,))

    def _read_stream(self, run: TurnRun, send: Send, reader: ReplyReader, response: Any) -> Steps:
        reader.response = response
        for observe in send.observers:
            yield observe(response.headers)
        # Imported late: a whole reply needs nothing of it.
        from dragoman.adapter.replies.stream_decoder import decode_batches, decode_batches_async

        decode: Any = decode_batches_async if self._asynchronous else decode_batches
        batches = decode(response.chunks, reader.decoder, idle_timeout=response.idle_timeout)
        closed: Any = aclosing(batches) if self._asynchronous else closing(batches)
        yield from within(closed, partial(self._release_batches, run, send, reader))
        # Kept before the connection is released: that may take a while, and other tasks run meanwhile.
        run.finish_attempt(reader)
        while isinstance(run.effect, (Keep, Perform)):
            yield from self._step(run)

    def _release_batches(self, run: TurnRun, send: Send, reader: ReplyReader, batches: Any) -> Steps:
        """Yield what the caller may see of each batch of events, if anybody reads them."""
        following, stages = next_of(batches), send.stages
        while (batch := (yield following)) is not None:
            reader.receive(batch)
            for arrived in ((event,) for event in batch) if stages else (batch,):
                events = reader.feed((yield from apply_stages(stages, arrived[0])) if stages else arrived)
                if events and run.events is not None:
                    yield events

    def _run_tools(self, run: TurnRun, effect: RunTools) -> Generator[Any, Any, list[ToolRun]]:
        """Return the runs of the calls that have a result. Yield their progress, if the caller may see it."""
        from dragoman.session.turn.answers import prepare_calls  # imported late: many turns call no tool

        prepared = list(prepare_calls(effect, self.toolbox, is_judged=self.config.policy is not None))
        for index, each in enumerate(prepared):
            prepared[index] = yield from self._approve_call(each)
        runner = self._call_runner(run)
        # With a policy nobody sees progress: no plugin judges it.
        if run.events is None or self.config.policy is not None or not self.toolbox.may_report(effect.calls):
            timed = yield Perform(partial(runner.run, prepared), partial(runner.run_async, prepared))
        else:
            reported: Any = (
                aclosing(runner.report_async(prepared)) if self._asynchronous else closing(runner.report(prepared))
            )
            timed = yield from within(reported, _yield_progress)
        runs = []
        for ready, (result, seconds) in zip(prepared, timed, strict=True):
            if isinstance(result, ToolResultBlock):
                end = partial(self._end_call, effect.adapter, ready, result, seconds)
                runs.append((yield in_thread(end)) if self._request_history.can_fetch else end())
        return runs

    def _call_runner(self, run: TurnRun) -> "CallRunner":
        if run.calls is None:
            from dragoman.tools.call_runner import CallRunner  # as above

            reasons, most = self._history.reasons_to_wait, self.config.max_parallel_tools
            run.calls = CallRunner(self._new_call_context, most, later=reasons, log=self._steps)
        return run.calls

    def _approve_call(self, prepared: "PreparedCall") -> Work["PreparedCall"]:
        if self.config.approve is None or prepared.tool is None:
            return prepared
        from dragoman.tools.calls import apply_decision  # as above

        return apply_decision(prepared, (yield call(self.config.approve, prepared.call, prepared.tool.definition)))

    def _end_call(self, adapter: Adapter, prepared: "PreparedCall", result: ToolResultBlock, seconds: float) -> ToolRun:
        """Return the call with its result as a message, which carries the labels of what the tool returned.

        A result that names a file which cannot be read becomes an error: it would make every later request fail.
        """
        if not has_only_texts(result.content):
            files = self._request_history.files
            try:
                files.inline_blocks(result.content, files.inlined_kinds(adapter.capabilities))
            except RequestError as error:
                from dragoman.tools.calls import error_result  # as above

                result = error_result(result.tool_use_id, str(error))
        latency_ms = None if prepared.tool is None else max(round(seconds * 1000), 0)
        message = self._factory.tool_message(result)
        if prepared.labels:
            from dragoman.canonical.extensions.message_labels import with_message_labels  # as above

            message = with_message_labels(message, frozenset(prepared.labels))
        return ToolRun(prepared.call, message, latency_ms, prepared.fault, prepared.refusal)

    def _keep(self, effect: Keep) -> list[SessionEvent]:
        """Add the messages to the history. Return the events of the replies and of the tool results among them."""
        self._history.add(effect.messages)
        names = {call.id: call.name for call in effect.calls}
        events: list[SessionEvent] = []
        for message in effect.messages:
            if message.role is Role.ASSISTANT:
                events.append(MessageComplete(message))
            if names:
                events += [ToolAnswered(names[each.tool_use_id], each) for each in message.tool_results]
        return events


def _yield_progress(reports: Any) -> "Generator[Any, Any, list[TimedResult]]":
    """Yield the progress of calls, and return their results, which come last."""
    following = next_of(reports)
    while isinstance(report := (yield following), ToolProgress):
        yield (report,)
    results: list[TimedResult] = report
    return results


def _encode(send: Send, run: TurnRun) -> WireRequest:
    """Encode the request of an attempt. Each loss is logged once per turn."""
    send.context.started_at = send.context.clock()
    request = send.adapter.to_wire(send.messages, send.tools, send.options.with_context(send.context))
    new = tuple(loss for loss in request.losses if loss not in run.losses)
    if new:
        model = str(send.adapter.model_id)
        log_losses(new, session_id=send.context.session_id, adapter=send.adapter.provider, model=model)
        run.losses.update(dict.fromkeys(new))
    return request
