"""One handler and what waits for it. Each has a queue and a runner of its own: a slow or broken one hurts nobody else.

A plain function runs in a thread. A coroutine function runs in the event loop in which it was subscribed, one event
at a time; subscribed outside of a loop, in a thread with a loop of its own.
"""

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dragoman.adapter.errors import mask_secrets
from dragoman.canonical.guard import one_line
from dragoman.events.event import Actor, Event, Sensitivity

logger = logging.getLogger("dragoman.events")

_LOOK_AGAIN = 0.5
"""Seconds after which whoever waits looks whether the event loop of a handler still is there."""

Handler = Callable[[Event], Awaitable[None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which events a handler is shown; None stands for all. ``types`` are globs such as ``llm.*``. ``least`` leaves
    out what is more private than that."""

    types: tuple[str, ...] | None = None
    session_ids: frozenset[str] | None = None
    actors: frozenset[Actor] | None = None
    least: Sensitivity = Sensitivity.PRIVATE

    def fits(self, kind: str, session_id: str, actor: Actor, sensitivity: Sensitivity) -> bool:
        return (
            (self.types is None or any(fnmatchcase(kind, pattern) for pattern in self.types))
            and (self.session_ids is None or session_id in self.session_ids)
            and (self.actors is None or actor in self.actors)
            and self.least.covers(sensitivity)
        )


class Subscription:
    """A handler on a bus; `close` takes it off. What waits for it then is not handed over."""

    def __init__(self, handler: Handler, wanted: Filter, name: str, capacity: int) -> None:
        self.name = name
        self.wanted = wanted
        self._handler = handler
        self._witness: Callable[[Event, object], None] | None = getattr(handler, "witness", None)
        self._capacity = capacity
        self._waiting: deque[Event] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._started = False
        self._loop = running_loop() if inspect.iscoroutinefunction(_called(handler)) else None

    def close(self) -> None:
        """Idempotent. A call of the handler that is under way comes to its end."""
        with self._changed:
            if missed := len(self._waiting):
                logger.warning("handler %s is taken off with %d events still waiting for it", self.name, missed)
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def put(self, event: Event, about: object = None) -> bool:
        """Queues an event; False where the queue is full. Never waits for the handler.

        A handler with a method ``witness(event, about)`` has that called at once, in the thread that emits: to note
        what is only known there, such as its context variables. It must be quick, and is not told of what it missed.
        """
        with self._changed:
            if self._closed:
                return True
            if self._gone():
                logger.warning("the event loop of handler %s is closed: the handler is taken off", self.name)
                self.close()
                return True
            if len(self._waiting) >= self._capacity:
                return False
            if self._witness is not None:
                self._see(self._witness, event, about)
            self._waiting.append(event)
            if self._loop is None:
                if not self._started:
                    self._started = True
                    threading.Thread(target=self._run, name=f"dragoman-events-{self.name}", daemon=True).start()
                self._changed.notify_all()
            elif not self._busy:
                self._busy = True
                with suppress(RuntimeError):  # closed in this moment: the next event finds it so
                    self._loop.call_soon_threadsafe(self._begin)
            return True

    def after_fork(self) -> None:
        """For a child process: it has neither the thread nor the loop, and what waits is the parent's to tell."""
        self._changed = threading.Condition()
        self._waiting = deque()
        self._busy = self._started = False
        self._closed = self._closed or self._loop is not None

    def runs_in(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        return loop is not None and self._loop is loop

    def wait(self, deadline: float) -> bool:
        """Waits until all is handed over, or until that moment of the monotonic clock; whether it is."""
        with self._changed:
            while not self._idle():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, _LOOK_AGAIN))
            return True

    def _idle(self) -> bool:
        return (not self._waiting and not self._busy) or self._gone()

    def _gone(self) -> bool:
        """Whether the event loop is closed, and nobody is left who could be told."""
        return self._loop is not None and self._loop.is_closed()

    def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._run_here())  # kept, or it could vanish half-way

    async def _run_here(self) -> None:
        try:
            while (event := self._next()) is not None:
                await self._hand_over_here(event)
        except BaseException:
            with self._changed:
                self._busy = False
                self.close()
            raise

    def _next(self) -> Event | None:
        with self._changed:
            if not self._waiting:
                self._busy = False
                self._changed.notify_all()
                return None
            self._busy = True
            return self._waiting.popleft()

    def _run(self) -> None:
        runner = asyncio.Runner()  # makes its loop when it first runs something
        try:
            while not self._closed:
                if (event := self._next()) is not None:
                    self._hand_over(event, runner)
                else:
                    with self._changed:
                        self._changed.wait_for(lambda: self._waiting or self._closed)
        finally:
            runner.close()

    def _hand_over(self, event: Event, runner: asyncio.Runner) -> None:
        try:
            outcome = self._handler(event)
            if inspect.isawaitable(outcome):
                runner.run(_awaited(outcome))
        except BaseException as error:  # a handler that leaves the program must not take the thread along
            self._failed(event, error)

    async def _hand_over_here(self, event: Event) -> None:
        try:
            outcome = self._handler(event)
            if inspect.isawaitable(outcome):
                await outcome
        except asyncio.CancelledError as error:
            self._failed(event, error)
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
        except (Exception, SystemExit) as error:
            self._failed(event, error)

    def _see(self, witness: Callable[[Event, object], None], event: Event, about: object) -> None:
        try:
            witness(event, about)
        except Exception as error:
            self._failed(event, error)

    def _failed(self, event: Event, error: BaseException) -> None:
        told = one_line(mask_secrets(str(error)))
        logger.warning(
            "handler %s failed at %s %s: %s: %s", self.name, event.type, event.id, type(error).__name__, told
        )


async def _awaited(outcome: Awaitable[None]) -> None:
    await outcome


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _called(handler: Handler) -> Callable[..., object]:
    """What is called in the end: an object's ``__call__`` may be a coroutine function."""
    return handler if inspect.isroutine(handler) else type(handler).__call__
