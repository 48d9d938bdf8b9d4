"""Running plugins: the two drivers of a pipeline's steps, without await and with.

A pipeline is a generator that says whom to ask, and is told the answers; a plugin's failure is an answer too.
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
from dragoman.policy.plugin import Declared
from dragoman.policy.step import Step

logger = logging.getLogger("dragoman.policy")

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Call:
    """Ask this plugin; the result is its answer, or the exception that it raised."""

    declared: Declared
    step: Step

    def begin(self) -> Any:
        plugin = self.declared.plugin
        return plugin.check(self.step) if plugin.applies(self.step) else None


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Ask all of these at once; the result is a list of their answers, in the same order."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Unheard:
    """Ask these, and wait for none; no result."""

    calls: tuple[Call, ...]


Work = Call | SideBySide | Unheard
Steps = Generator[Work, Any, ResultT]


def run(steps: Steps[ResultT]) -> ResultT:
    """Carries out steps to their end. Raises what they raise."""
    answer: Any = None
    while True:
        try:
            work = steps.send(answer)
        except StopIteration as end:
            result: ResultT = end.value
            return result
        match work:
            case Call():
                answer = _asked(work)
            case SideBySide(calls):
                threads = [_in_thread(call, _asked) for call in calls]
                answer = [_result(thread) for thread in threads]
            case Unheard(calls):
                answer = None
                for call in calls:
                    _in_thread(call, _note)


async def run_async(steps: Steps[ResultT]) -> ResultT:
    """The async twin of `run`."""
    answer: Any = None
    while True:
        try:
            work = steps.send(answer)
        except StopIteration as end:
            result: ResultT = end.value
            return result
        match work:
            case Call():
                answer = await _asked_async(work)
            case SideBySide(calls):
                answer = await asyncio.gather(*map(_asked_async, calls))
            case Unheard(calls):
                answer = None
                for call in calls:
                    _begin(call)


def _asked(call: Call) -> Any:
    try:
        limit = call.declared.timeout
        answer = call.begin() if limit is None else _in_thread(call, Call.begin).result(limit)
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise ConfigurationError(
                f"plugin {call.declared.name!r} has to be awaited, which only an AsyncSession does"
            )
    except Exception as error:
        return error
    return answer


async def _asked_async(call: Call) -> Any:
    limit = call.declared.timeout
    try:
        if limit is None:
            answer = call.begin()
            return await answer if inspect.isawaitable(answer) else answer
        return await asyncio.wait_for(_within_limit(call), limit)
    except Exception as error:
        return error


async def _within_limit(call: Call) -> Any:
    """A coroutine here; a plain function in a thread, since only there it can be left behind."""
    answer = call.begin() if call.declared.is_async else await asyncio.wrap_future(_in_thread(call, Call.begin))
    return await answer if inspect.isawaitable(answer) else answer


def _in_thread(call: Call, run_it: Any) -> "Future[Any]":
    """What a thread makes of the call. The thread holds up no program that ends."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    context = copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(run_it, call))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name=f"policy-{call.declared.name}", daemon=True).start()
    return future


def _result(future: "Future[Any]") -> Any:
    try:
        return future.result()
    except Exception as error:
        return error


def _note(call: Call) -> None:
    answer = _asked(call)
    if isinstance(answer, Exception):
        _log(call, answer)


_tasks: set[Awaitable[Any]] = set()
"""Tasks that nobody waits for: the loop itself holds them only weakly."""


def _begin(call: Call) -> None:
    async def work() -> None:
        answer = await _asked_async(call)
        if isinstance(answer, Exception):
            _log(call, answer)

    task = asyncio.get_running_loop().create_task(work())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _log(call: Call, error: Exception) -> None:
    logger.warning("the plugin %s failed at %s: %s", call.declared.name, call.step.hook, type(error).__name__)
