"""One handler with its own queue and worker, so that a slow or failing handler does not affect others.

A plain function runs in a thread. A coroutine function runs in the event loop in which it was subscribed, one event
at a time; if it was subscribed outside a loop, it runs in a thread with a loop of its own.
"""

import asyncio
import inspect
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dragoman.adapter.errors import mask_secrets
from dragoman.canonical.log import get_logger, one_line
from dragoman.events.event import Actor, Event, Sensitivity

logger = get_logger("dragoman.events")

_POLL_INTERVAL = 0.5
"""Seconds between checks that a handler's event loop is still open."""

Handler = Callable[[Event], Awaitable[None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The events that a handler gets; None means all. ``types`` are globs such as ``llm.*``. Events that are more
    private than ``max_sensitivity`` are left out.
    """

    types: tuple[str, ...] | None = None
    session_ids: frozenset[str] | None = None
    actors: frozenset[Actor] | None = None
    max_sensitivity: Sensitivity = Sensitivity.PRIVATE

    def matches(self, kind: str, session_id: str, actor: Actor, sensitivity: Sensitivity) -> bool:
        return (
            (self.types is None or any(fnmatchcase(kind, pattern) for pattern in self.types))
            and (self.session_ids is None or session_id in self.session_ids)
            and (self.actors is None or actor in self.actors)
            and self.max_sensitivity.covers(sensitivity)
        )


class Subscription:
    """A handler on a bus. `close` removes it and drops its queued events."""

    def __init__(self, handler: Handler, event_filter: Filter, name: str, capacity: int) -> None:
        self.name = name
        """The name of the handler in log records."""
        self.event_filter = event_filter
        """Which events the handler gets."""
        self._handler = handler
        self._on_emit: Callable[[Event, object], None] | None = getattr(handler, "on_emit", None)
        self._capacity = capacity
        self._queue: deque[Event] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._asleep = False
        """Whether the thread may be waiting for an event. A turn emits several at once, and wakes it with the first."""
        self._closed = False
        self._started = False
        # The ``__call__`` of an object may be a coroutine function.
        called = handler if inspect.isroutine(handler) else type(handler).__call__
        self._loop = running_loop() if inspect.iscoroutinefunction(called) else None

    def close(self) -> None:
        """Remove the handler. Idempotent. A running call of the handler is completed."""
        with self._changed:
            if missed := len(self._queue):
                logger.warning("handler %s is removed with %d events still waiting for it", self.name, missed)
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()

    def put(self, event: Event, attachment: object = None) -> bool:
        """Queue an event; return False if the queue is full. Never waits for the handler.

        A handler with a method ``on_emit(event, attachment)`` has it called immediately, in the thread that emits, to
        read what is known only there, such as context variables. It must be fast, and does not get the events that are
        dropped.
        """
        with self._changed:
            if self._closed:
                return True
            if self._is_loop_closed():
                logger.warning("the event loop of handler %s is closed: the handler is removed", self.name)
                self.close()
                return True
            if len(self._queue) >= self._capacity:
                return False
            if self._on_emit is not None:
                try:
                    self._on_emit(event, attachment)
                except Exception as error:
                    self._log_failure(event, error)
            self._queue.append(event)
            if self._loop is None:
                if not self._started:
                    self._started = True
                    threading.Thread(target=self._run, name=f"dragoman-events-{self.name}", daemon=True).start()
                if self._asleep:
                    self._asleep = False
                    self._changed.notify_all()
            elif not self._busy:
                self._busy = True
                with suppress(RuntimeError):  # closed just now: the next event will notice
                    self._loop.call_soon_threadsafe(self._start_in_loop)
            return True

    def after_fork(self) -> None:
        """Reset in a child process: it has neither the thread nor the loop, and the queued events
        belong to the parent.
        """
        self._changed = threading.Condition()
        self._queue = deque()
        self._busy = self._started = False
        self._closed = self._closed or self._loop is not None

    def runs_in(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        """Return whether the handler runs in this event loop, so that waiting for it there would never end."""
        return loop is not None and self._loop is loop

    def wait(self, deadline: float) -> bool:
        """Wait until the queue is empty, or until that moment of the monotonic clock. Return True if the queue is
        empty.
        """
        with self._changed:
            while (self._queue or self._busy) and not self._is_loop_closed():
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return False
                self._changed.wait(min(remaining, _POLL_INTERVAL))
            return True

    def _is_loop_closed(self) -> bool:
        """Return True if the event loop is closed, so that the handler cannot run any more."""
        return self._loop is not None and self._loop.is_closed()

    def _start_in_loop(self) -> None:
        self._task = asyncio.ensure_future(self._run_in_loop())  # a reference, because the loop holds its tasks weakly

    async def _run_in_loop(self) -> None:
        try:
            while (event := self._next()) is not None:
                await self._call_handler_async(event)
        except BaseException:
            with self._changed:
                self._busy = False
                self.close()
            raise

    def _next(self) -> Event | None:
        with self._changed:
            if not self._queue:
                self._busy = False
                self._changed.notify_all()
                return None
            self._busy = True
            return self._queue.popleft()

    def _run(self) -> None:
        runner = asyncio.Runner()  # creates its loop on the first run
        try:
            while not self._closed:
                if (event := self._next()) is not None:
                    self._call_handler(event, runner)
                else:
                    with self._changed:
                        self._asleep = True
                        self._changed.wait_for(lambda: self._queue or self._closed)
        finally:
            runner.close()

    def _call_handler(self, event: Event, runner: asyncio.Runner) -> None:
        try:
            outcome = self._handler(event)
            if inspect.isawaitable(outcome):
                runner.run(_await_outcome(outcome))
        except BaseException as error:  # SystemExit, too, must not end the thread
            self._log_failure(event, error)

    async def _call_handler_async(self, event: Event) -> None:
        try:
            outcome = self._handler(event)
            if inspect.isawaitable(outcome):
                await outcome
        except asyncio.CancelledError as error:
            self._log_failure(event, error)
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
        except (Exception, SystemExit) as error:
            self._log_failure(event, error)

    def _log_failure(self, event: Event, error: BaseException) -> None:
        text = one_line(mask_secrets(str(error)))
        logger.warning(
            "handler %s failed at %s %s: %s: %s", self.name, event.type, event.id, type(error).__name__, text
        )


async def _await_outcome(outcome: Awaitable[None]) -> None:
    await outcome


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
