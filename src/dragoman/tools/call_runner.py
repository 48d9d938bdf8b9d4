"""Runs the tool calls of a reply: concurrently, each within its time, with progress reports."""

import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Protocol

from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.events import ToolProgress
from dragoman.effects import Perform, Work, drive, drive_async, in_thread
from dragoman.tools import calls
from dragoman.tools.calls import CallOutcome, PreparedCall, Tell
from dragoman.tools.context import Context, Deferred, ModelRetry, Progress

Report = Callable[[ToolProgress], object]
"""Receives the progress of a call, in any thread."""

TimedResult = tuple[ToolResultBlock | Deferred, float]
"""A result, or the reason why it comes later, and the seconds that the call took."""

TimedOutcome = tuple[CallOutcome, float]
"""The same, or the request of the tool for another call."""


class CallLog(Protocol):
    """Notes which calls start and how they end. The async runner calls it in threads."""

    def start(self, calls: Sequence[PreparedCall]) -> None:
        """Note that these calls start. If it raises, none of them is run."""
        ...

    def finish(self, call: PreparedCall, outcome: CallOutcome) -> None:
        """Note how a call has ended, while others of the same reply still run."""
        ...


def ignore(progress: ToolProgress) -> None:
    """Do nothing: nobody receives reports."""


@dataclass(slots=True)
class CallRunner:
    """The calls of one turn.

    A call that takes longer than its tool's timeout becomes an error for the model, and so does a tool that has no
    retries left. A coroutine is then cancelled. A plain function continues in its thread, and its result is dropped: it
    can look at ``cancelled`` of its context.
    """

    new_context: Callable[[ToolUseBlock], Context[Any]]
    max_parallel: int
    retries: Counter[str] = field(default_factory=Counter)
    """How often each tool has asked for another call in this turn."""
    later: dict[str, str] = field(default_factory=dict)
    """Why calls wait for their results, by call id."""
    log: CallLog | None = None
    _contexts: list[Context[Any]] = field(default_factory=list)

    def run(self, prepared: Sequence[PreparedCall], report: Report = ignore) -> list[TimedResult]:
        """Return the results, in the order of the calls."""
        round_log = self._new_round(prepared)
        if round_log is not None:
            round_log.start_first()
        if len(prepared) == 1:
            return self._count_retries(prepared, [drive(self._run_one(prepared[0], report, round_log))])
        with ThreadPoolExecutor(max_workers=min(self.max_parallel, len(prepared))) as pool:
            works = [self._run_one(call, report, round_log) for call in prepared]
            started = [pool.submit(copy_context().run, drive, work) for work in works]
            return self._count_retries(prepared, [each.result() for each in started])

    async def run_async(self, prepared: Sequence[PreparedCall], report: Report = ignore) -> list[TimedResult]:
        """The async twin of `run`; plain functions run in threads."""
        import asyncio  # sync programs do not need it

        free, round_log = asyncio.Semaphore(self.max_parallel), self._new_round(prepared)
        if round_log is not None:
            await asyncio.to_thread(round_log.start_first)

        async def run_one(call: PreparedCall) -> TimedOutcome:
            async with free:
                return await drive_async(self._run_one(call, report, round_log))

        outcomes: list[TimedOutcome] = []
        # An error of the log is raised when the other calls have ended, as in `run`.
        for outcome in await asyncio.gather(*map(run_one, prepared), return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            outcomes.append(outcome)
        return self._count_retries(prepared, outcomes)

    def report(self, prepared: Sequence[PreparedCall]) -> Iterator[ToolProgress | list[TimedResult]]:
        """Run the calls in a thread. Yield their progress, as it is reported, and then their results."""
        reports: SimpleQueue[ToolProgress | None] = SimpleQueue()

        def work() -> list[TimedResult]:
            try:
                return self.run(prepared, reports.put)
            finally:
                reports.put(None)

        running = start_thread(work)
        while (progress := reports.get()) is not None:
            yield progress
        yield running.result()

    async def report_async(self, prepared: Sequence[PreparedCall]) -> AsyncIterator[ToolProgress | list[TimedResult]]:
        """The async twin of `report`: the calls run in a task, which is cancelled if the caller leaves."""
        import asyncio

        reports: asyncio.Queue[ToolProgress | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def put(progress: ToolProgress) -> None:
            loop.call_soon_threadsafe(reports.put_nowait, progress)

        running = asyncio.ensure_future(self.run_async(prepared, put))
        running.add_done_callback(lambda _: reports.put_nowait(None))
        try:
            while (progress := await reports.get()) is not None:
                yield progress
            yield await running
        finally:
            running.cancel()

    def leave(self) -> None:
        """Mark the contexts of all calls as cancelled: nobody waits for their results."""
        for context in self._contexts:
            context._ended.set()

    def _new_round(self, prepared: Sequence[PreparedCall]) -> "_RoundLog | None":
        running = [call for call in prepared if call.tool is not None and call.outcome is None]
        return None if self.log is None or not running else _RoundLog(self.log, running, self.max_parallel)

    def _run_one(self, prepared: PreparedCall, report: Report, round_log: "_RoundLog | None") -> Work[TimedOutcome]:
        if round_log is not None and round_log.has_to_start(prepared):
            yield in_thread(round_log.start, prepared)
        started_at = perf_counter()
        call, context = self._bind(prepared)
        timeout = None if prepared.tool is None else prepared.tool.timeout
        name, call_id = prepared.call.name, prepared.call.id

        def tell(progress: Progress) -> object:
            return report(ToolProgress(name, call_id, progress.message, progress.fraction, progress.data))

        if timeout is None:
            result = yield from calls.work_of(call, tell)
        else:
            try:  # in a thread or task of its own, which can be left when the time is over
                result = yield Perform(
                    lambda: start_thread(partial(calls.run, call, tell)).result(timeout),
                    partial(_run_in_time_async, call, tell, timeout),
                )
            except TimeoutError:
                if context is not None:
                    context._ended.set()
                result = calls.timeout_result(prepared.call, timeout)
        seconds = perf_counter() - started_at
        if round_log is not None and round_log.has_to_finish(prepared):
            yield in_thread(round_log.finish, prepared, result)
        return result, seconds

    def _bind(self, prepared: PreparedCall) -> tuple[PreparedCall, Context[Any] | None]:
        """Return the call with its context, if the tool takes one, or with a refusal if it has no retries left."""
        tool = prepared.tool
        if tool is None:
            return prepared, None
        if self.retries[tool.name] > tool.retries:
            return PreparedCall(prepared.call, refusal=calls.NO_RETRIES_LEFT), None
        if not tool.takes_context:
            return prepared, None
        context = self.new_context(prepared.call)
        self._contexts.append(context)
        return prepared.with_context(context), context

    def _count_retries(self, prepared: Sequence[PreparedCall], outcomes: Sequence[TimedOutcome]) -> list[TimedResult]:
        """Return the results for the model. That of a tool which asks for another call says whether it may be made."""
        results: list[TimedResult] = []
        for call, (outcome, seconds) in zip(prepared, outcomes, strict=True):
            if isinstance(outcome, ModelRetry) and call.tool is not None:
                name = call.tool.name
                self.retries[name] += 1
                is_last = self.retries[name] > call.tool.retries
                text = f"{outcome} {calls.NO_RETRIES_LEFT}" if is_last else str(outcome)
                results.append((calls.error_result(call.call.id, text), seconds))
            elif not isinstance(outcome, ModelRetry):
                if isinstance(outcome, Deferred):
                    self.later[call.call.id] = outcome.reason
                results.append((outcome, seconds))
        return results


class _RoundLog:
    """Notes the calls of one round that run.

    Those that start at once are noted together. The end of the last one is not noted: the results of the round follow.
    """

    def __init__(self, log: CallLog, running: Sequence[PreparedCall], at_once: int) -> None:
        self._log = log
        self._first = running[:at_once]
        self._to_start = {call.call.id for call in running[at_once:]}
        self._running = {call.call.id for call in running}
        self._lock = threading.Lock()

    def start_first(self) -> None:
        self._log.start(self._first)

    def has_to_start(self, call: PreparedCall) -> bool:
        return call.call.id in self._to_start

    def start(self, call: PreparedCall) -> None:
        self._log.start([call])

    def has_to_finish(self, call: PreparedCall) -> bool:
        """Whether the call has run, while others have not ended."""
        with self._lock:
            if call.call.id not in self._running:
                return False
            self._running.remove(call.call.id)
            return bool(self._running)

    def finish(self, call: PreparedCall, outcome: CallOutcome) -> None:
        self._log.finish(call, outcome)


async def _run_in_time_async(call: PreparedCall, tell: Tell, timeout: float) -> CallOutcome:
    import asyncio

    work = calls.work_of(call, tell, lambda function: asyncio.wrap_future(start_thread(function)))
    return await asyncio.wait_for(drive_async(work), timeout)


def start_thread(function: Callable[[], Any]) -> "Future[Any]":
    """Run the function in a thread of its own, which does not keep the program alive."""
    future: Future[Any] = Future()
    context = copy_context()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = context.run(function)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=work, name="dragoman-tool", daemon=True).start()
    return future
