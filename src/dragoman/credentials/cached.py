"""Credentials that are fetched once for all requests: kept until they expire, and renewed ahead of that time.

A fetch runs in a thread, so that a request can end at its deadline even if the fetch hangs. An ``async`` function runs
in the event loop of the request that needs it first, because it may use connections of that loop.
"""

import contextvars
import copy
import inspect
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import (
    ConfigurationError,
    CredentialsError,
    DragomanError,
    MissingKeyError,
    NetworkError,
    ProviderError,
    RequestTimeoutError,
)
from dragoman.canonical.forks import ProcessLock, reset_after_fork
from dragoman.canonical.log import get_logger
from dragoman.credentials.contract import Authorization, Fetch

if TYPE_CHECKING:
    import asyncio

_log = get_logger("dragoman.credentials")

FETCHING: ContextVar[bool] = ContextVar("fetching_credentials", default=False)
"""Whether the present task or thread fetches credentials: recordings leave its requests out."""

_AHEAD = 300.0
"""Seconds before its end after which an authorization is renewed, or a fifth of its lifetime if that is less."""
_SKEW = 10.0
"""Seconds before its end after which it is not used any more, because a request takes a while to arrive."""
_LEAST = 30.0
"""Seconds for which a new authorization is used whatever it says: the clock of this computer may be wrong."""
_PAUSE = 30.0
"""Seconds until a failed renewal ahead of time is tried again, and until one that did not help is repeated."""
_STUCK = 60.0
"""Seconds after which a fetch that has not ended is given up for another one."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Entry:
    authorization: Authorization
    fetched_at: float
    renew_at: float
    usable_until: float
    is_renewal: bool


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Pending:
    """A fetch in progress."""

    started: float
    loop: "asyncio.AbstractEventLoop | None"
    future: Future[Authorization] = field(default_factory=Future)


class CachedCredentials:
    """The authorizations of one source. Safe across threads, event loops and forks.

    ``name`` is the source in errors. ``max_age`` are the seconds after which a source that says nothing about its end
    is asked again; None keeps what it returned until a provider refuses it. ``explain`` returns the error that an
    exception of the source means, or None.
    """

    def __init__(
        self,
        fetch: Fetch,
        name: str,
        *,
        max_age: float | None = None,
        explain: Callable[[Exception], DragomanError | None] | None = None,
        is_async: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self._fetch = fetch
        self._max_age = max_age
        self._explain = explain
        self._is_async = is_async
        self._clock = clock
        self._lock = ProcessLock()
        self._entry: _Entry | None = None
        self._pending: _Pending | None = None
        self._tasks: set[Any] = set()
        self._paused_until = 0.0
        reset_after_fork(self)

    def __repr__(self) -> str:
        return f"CachedCredentials({self.name!r})"

    def after_fork(self) -> None:
        """Forget a fetch of the parent: its thread does not exist here."""
        self._pending = None

    def may_renew(self, rejected: Authorization) -> bool:
        """Whether another authorization may help after a provider refused this one."""
        entry = self._entry
        if entry is None or entry.authorization is not rejected:
            return True
        return not (entry.is_renewal and self._clock() - entry.fetched_at < _PAUSE)

    def get(self, seconds: float | None = None, rejected: Authorization | None = None) -> Authorization:
        """Return an authorization other than a rejected one. Raises DragomanError, and RequestTimeoutError after that
        many seconds."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            if (usable := self._usable(rejected)) is not None:
                return usable
            pending = self._start(rejected, None, renew=rejected is not None)
            try:
                return pending.future.result(None if deadline is None else max(deadline - time.monotonic(), 0.0))
            except CancelledError:  # the event loop that fetched has ended
                continue
            except TimeoutError:
                break
            except DragomanError as error:
                raised = copy.copy(error)  # others raise it too, each with its own traceback
            raise raised
        raise self._late()

    async def get_async(self, seconds: float | None = None, rejected: Authorization | None = None) -> Authorization:
        """The async `get`."""
        import asyncio

        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            if (usable := self._usable(rejected)) is not None:
                return usable
            loop = asyncio.get_running_loop()
            pending = self._start(rejected, loop if self._is_async else None, renew=rejected is not None)
            done = loop.create_future()

            def wake(_: object, loop: "asyncio.AbstractEventLoop" = loop, done: "asyncio.Future[None]" = done) -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(None))

            pending.future.add_done_callback(wake)
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                async with asyncio.timeout(left):
                    await done
            except TimeoutError:
                break
            try:
                return pending.future.result()
            except CancelledError:
                continue
            except DragomanError as error:
                raised = copy.copy(error)
            raise raised
        raise self._late()

    def _usable(self, rejected: Authorization | None) -> Authorization | None:
        """Return what is kept, if it can be used; it is renewed in the background if it expires soon."""
        entry = self._entry
        if entry is None or entry.authorization is rejected:
            return None
        now = self._clock()
        if now >= entry.usable_until:
            return None
        if now >= entry.renew_at and now >= self._paused_until and self._pending is None:
            self._start_ahead(entry)
        return entry.authorization

    def _start_ahead(self, entry: _Entry) -> None:
        """Renew what is still valid. A failure is logged: there is time for another try."""

        def report(future: Future[Authorization]) -> None:
            if not future.cancelled() and (error := future.exception()) is not None:
                self._paused_until = self._clock() + _PAUSE
                _log.warning("%s: could not be renewed ahead of time: %s", self.name, error)

        loop = _running_loop() if self._is_async else None
        self._start(entry.authorization, loop, renew=False).future.add_done_callback(report)

    def _start(
        self, unwanted: Authorization | None, loop: "asyncio.AbstractEventLoop | None", *, renew: bool
    ) -> _Pending:
        """Return the fetch in progress, or start one. ``unwanted`` is what is not good enough."""
        now = self._clock()
        with self._lock:
            pending, entry = self._pending, self._entry
            if pending is not None and now - pending.started < _STUCK and not self._blocks(pending, loop):
                return pending
            if entry is not None and entry.authorization is not unwanted and now < entry.usable_until:
                pending = _Pending(now, None)  # another thread has fetched it in the meantime
                pending.future.set_result(entry.authorization)
                return pending
            pending = self._pending = _Pending(now, loop)
        if loop is not None:
            task = loop.create_task(self._work_async(pending, renew))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            context = contextvars.copy_context()
            threading.Thread(
                target=context.run, args=(self._work, pending, renew), name="dragoman-credentials", daemon=True
            ).start()
        return pending

    @staticmethod
    def _blocks(pending: _Pending, loop: "asyncio.AbstractEventLoop | None") -> bool:
        """Whether waiting would stop the event loop that fetches, or its loop is gone."""
        if pending.loop is None:
            return False
        return pending.loop.is_closed() or (loop is None and pending.loop is _running_loop())

    def _work(self, pending: _Pending, renew: bool) -> None:
        FETCHING.set(True)  # in the context of this thread alone
        try:
            result = self._fetch(renew)
            if inspect.isawaitable(result):
                import asyncio

                async def wait(fetched: Awaitable[Authorization]) -> Authorization:
                    return await fetched

                result = asyncio.run(wait(result))
            self._finish(pending, result, renew)
        except BaseException as raised:
            self._fail(pending, raised)

    async def _work_async(self, pending: _Pending, renew: bool) -> None:
        FETCHING.set(True)  # in the context of this task alone
        try:
            result = self._fetch(renew)
            self._finish(pending, await result if inspect.isawaitable(result) else result, renew)
        except Exception as raised:
            self._fail(pending, raised)
        except BaseException:
            self._clear(pending)
            pending.future.cancel()
            raise

    def _finish(self, pending: _Pending, result: Authorization, renew: bool) -> None:
        now = self._clock()
        usable_until = renew_at = float("inf")
        lifetime = self._max_age
        if result.expires_at is not None:
            lifetime = max(result.expires_at.timestamp() - now - _SKEW, _LEAST)
        if lifetime is not None:
            usable_until = now + lifetime
            renew_at = usable_until - min(_AHEAD, lifetime / 5)
        with self._lock:
            if self._pending in (pending, None):
                self._entry = _Entry(result, now, renew_at, usable_until, renew)
                self._pending = None
        pending.future.set_result(result)

    def _fail(self, pending: _Pending, raised: BaseException) -> None:
        self._clear(pending)
        pending.future.set_exception(self._to_error(raised))

    def _clear(self, pending: _Pending) -> None:
        with self._lock:
            if self._pending is pending:
                self._pending = None

    def _to_error(self, raised: BaseException) -> DragomanError:
        """Return the error of an exception, without its text: it may hold a secret."""
        error = self._explain(raised) if self._explain is not None and isinstance(raised, Exception) else None
        if error is None and isinstance(raised, DragomanError):
            error = raised
        if error is None and isinstance(raised, (ConnectionError, TimeoutError)):
            error = NetworkError(f"{self.name}: {type(raised).__name__}")
        if error is None:
            places = traceback.extract_tb(raised.__traceback__, limit=-1)  # the line that raised, to look for it
            where = [f" in {place.name}, line {place.lineno}" for place in places]
            error = CredentialsError(f"{self.name}: {type(raised).__name__}{''.join(where)}")
        if type(error) is ConfigurationError:  # a wrong file or profile: another place or model may have a right one
            error = MissingKeyError(str(error))
        if isinstance(error, ProviderError):
            error.sent = False
        return error.with_traceback(None)

    def _late(self) -> DragomanError:
        error = RequestTimeoutError(f"{self.name}: no credentials in time")
        error.sent = False
        return error


def _running_loop() -> "asyncio.AbstractEventLoop | None":
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
