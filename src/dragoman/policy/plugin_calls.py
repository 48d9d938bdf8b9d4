"""Calls plugins that have to be awaited, with their time limits: one, several at once, or in the background."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.log import get_logger
from dragoman.effects import Perform
from dragoman.policy.plugin import PluginDeclaration
from dragoman.policy.step import Step

logger = get_logger("dragoman.policy")


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


def call(plugin_call: PluginCall) -> Perform:
    """Return the effect that calls one plugin. Its outcome is the answer, or the exception that the plugin raised."""
    return Perform(partial(_call_plugin, plugin_call), partial(_call_plugin_async, plugin_call))


def call_all(calls: Sequence[PluginCall]) -> Perform:
    """Return the effect that calls all of these plugins at once. Its outcome is a list of their answers, in the same
    order."""

    def work() -> list[Any]:
        threads = [_run_in_thread(each, _call_plugin) for each in calls]
        return [thread.result() for thread in threads]

    async def work_async() -> list[Any]:
        return await asyncio.gather(*map(_call_plugin_async, calls))

    return Perform(work, work_async)


def start_all(calls: Sequence[PluginCall]) -> Perform:
    """Return the effect that starts these plugins and does not wait for them. It has no outcome."""

    def work() -> None:
        for each in calls:
            _run_in_thread(each, lambda call: _log_failure(call, _call_plugin(call)))

    async def work_async() -> None:
        async def run(call: PluginCall) -> None:
            _log_failure(call, await _call_plugin_async(call))

        for each in calls:
            task = asyncio.get_running_loop().create_task(run(each))
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)

    return Perform(work, work_async)


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

        async def call_in_time() -> Any:
            # A coroutine is awaited here. A plain function runs in a thread, because only there can it be abandoned.
            in_thread = None if call.declared.is_async else _run_in_thread(call, PluginCall.start)
            answer = call.start() if in_thread is None else await asyncio.wrap_future(in_thread)
            return await answer if inspect.isawaitable(answer) else answer

        return await asyncio.wait_for(call_in_time(), limit)
    except Exception as error:
        return error


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


_tasks: set[Awaitable[Any]] = set()
"""Background tasks: the loop itself references them only weakly."""


def _log_failure(call: PluginCall, answer: Any) -> None:
    if isinstance(answer, Exception):
        logger.warning("the plugin %s failed at %s: %s", call.declared.name, call.step.hook, type(answer).__name__)
