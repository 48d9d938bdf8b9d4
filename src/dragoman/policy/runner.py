"""The two drivers of a pipeline: `run` and `run_async`.

A pipeline is a generator of the plugin calls that have to wait. The driver runs each call and sends the result back; an
exception is a result too.
"""

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Generator
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from dragoman.adapter.errors import ConfigurationError
from dragoman.policy.plugin import PluginDeclaration
from dragoman.policy.step import Step

logger = logging.getLogger("dragoman.policy")

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class PluginCall:
    """Call this plugin; the result is its answer, or the exception that it raised.

    ``pending`` is set if the plugin was called already, and its answer has to be awaited.
    """

    declared: PluginDeclaration
    step: Step
    pending: Awaitable[Any] | None = None

    def start(self) -> Any:
        return self.declared.judge(self.step) if self.pending is None else self.pending


@dataclass(frozen=True, slots=True)
class ConcurrentCalls:
    """Call all of these plugins at once; the result is a list of their answers, in the same order."""

    calls: tuple[PluginCall, ...]


@dataclass(frozen=True, slots=True)
class BackgroundCalls:
    """Start these plugins and do not wait for them. There is no result."""

    calls: tuple[PluginCall, ...]


PolicyEffect = PluginCall | ConcurrentCalls | BackgroundCalls
Steps = Generator[PolicyEffect, Any, ResultT]


def run(steps: Steps[ResultT], first: PolicyEffect | None = None) -> ResultT:
    """Run the steps to the end. Raises what they raise. ``first`` is their first effect, if they have begun."""
    answer: Any = None
    work = first
    while True:
        try:
            work = work or steps.send(answer)
        except StopIteration as end:
            result: ResultT = end.value
            return result
        match work:
            case PluginCall():
                answer = _call_plugin(work)
            case ConcurrentCalls(calls):
                threads = [_run_in_thread(call, _call_plugin) for call in calls]
                answer = [_result_or_error(thread) for thread in threads]
            case BackgroundCalls(calls):
                answer = None
                for call in calls:
                    _run_in_thread(call, _call_and_log)
        work = None


async def run_async(steps: Steps[ResultT], first: PolicyEffect | None = None) -> ResultT:
    """As `run`, for an event loop."""
    answer: Any = None
    work = first
    while True:
        try:
            work = work or steps.send(answer)
        except StopIteration as end:
            result: ResultT = end.value
            return result
        match work:
            case PluginCall():
                answer = await _call_plugin_async(work)
            case ConcurrentCalls(calls):
                answer = await asyncio.gather(*map(_call_plugin_async, calls))
            case BackgroundCalls(calls):
                answer = None
                for call in calls:
                    _start_task(call)
        work = None


def _call_plugin(call: PluginCall) -> Any:
    try:
        limit = call.declared.timeout
        answer = call.start() if limit is None else _run_in_thread(call, PluginCall.start).result(limit)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise ConfigurationError(
                f"plugin {call.declared.name!r} must be awaited, which only an AsyncSession can do"
            )
    except Exception as error:
        return error
    return answer


async def _call_plugin_async(call: PluginCall) -> Any:
    limit = call.declared.timeout
    try:
        if limit is None:
            answer = call.start()
            return await answer if inspect.isawaitable(answer) else answer
        return await asyncio.wait_for(_call_in_time(call), limit)
    except Exception as error:
        return error


async def _call_in_time(call: PluginCall) -> Any:
    """Await a coroutine here, and run a plain function in a thread, because only there can it be abandoned."""
    answer = (
        call.start() if call.declared.is_async else await asyncio.wrap_future(_run_in_thread(call, PluginCall.start))
    )
    return await answer if inspect.isawaitable(answer) else answer


def _run_in_thread(call: PluginCall, call_it: Any) -> "Future[Any]":
    """Run the call in a thread and return a future. The thread is a daemon, so it does not delay the exit of the
    program.
    """
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    context = copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(call_it, call))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name=f"policy-{call.declared.name}", daemon=True).start()
    return future


def _result_or_error(future: "Future[Any]") -> Any:
    try:
        return future.result()
    except Exception as error:
        return error


def _call_and_log(call: PluginCall) -> None:
    answer = _call_plugin(call)
    if isinstance(answer, Exception):
        _log_failure(call, answer)


_tasks: set[Awaitable[Any]] = set()
"""Background tasks: the loop itself references them only weakly."""


def _start_task(call: PluginCall) -> None:
    async def work() -> None:
        answer = await _call_plugin_async(call)
        if isinstance(answer, Exception):
            _log_failure(call, answer)

    task = asyncio.get_running_loop().create_task(work())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _log_failure(call: PluginCall, error: Exception) -> None:
    logger.warning("the plugin %s failed at %s: %s", call.declared.name, call.step.hook, type(error).__name__)
