"""AsyncStore: the store for asyncio and trio. Its calls run in threads."""

from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import datetime
from functools import partial, wraps
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import anyio
from anyio.to_thread import run_sync

from dragoman.canonical.message import Message
from dragoman.store.store import Store

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_PAGE_SIZE = 1000

_MAX_THREADS = 16
"""Concurrent threads of one store; SQLite lets one of them write."""


def _awaited(
    method: Callable[Concatenate[Store, Arguments], Result],
) -> Callable[Concatenate["AsyncStore", Arguments], Coroutine[Any, Any, Result]]:
    """Return the async twin of a method of `Store`, with the same parameters."""

    @wraps(method)
    async def call(self: "AsyncStore", /, *args: Arguments.args, **named: Arguments.kwargs) -> Result:
        # By name, because the store may be of a class that overrides the method.
        result: Result = await self._run(partial(getattr(self.store, method.__name__), *args, **named))
        return result

    return call


class AsyncStore:
    """A `Store` with async calls: ``async with AsyncStore(Store("sqlite:///chats.db")) as store``.

    A cancelled call is finished first, so that it is always known whether its turn was kept. Arguments and errors are
    those of `Store`, which can still be used.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        """The store whose calls are made in threads."""
        self._limiter: anyio.CapacityLimiter | None = None

    create = _awaited(Store.create)
    """Await `Store.create`."""
    create_all = _awaited(Store.create_all)
    """Await `Store.create_all`."""
    append = _awaited(Store.append)
    """Await `Store.append`."""
    annotate = _awaited(Store.annotate)
    """Await `Store.annotate`."""
    load = _awaited(Store.load)
    """Await `Store.load`."""
    record = _awaited(Store.record)
    """Await `Store.record`."""
    fork = _awaited(Store.fork)
    """Await `Store.fork`."""
    list = _awaited(Store.list)
    """Await `Store.list`."""
    search = _awaited(Store.search)
    """Await `Store.search`."""
    unanswered = _awaited(Store.unanswered)
    """Await `Store.unanswered`."""
    failed_calls = _awaited(Store.failed_calls)
    """Await `Store.failed_calls`."""
    unfinished = _awaited(Store.unfinished)
    """Await `Store.unfinished`."""
    total_spend = _awaited(Store.total_spend)
    """Await `Store.total_spend`."""
    export_replies = _awaited(Store.export_replies)
    """Await `Store.export_replies`."""
    import_lines = _awaited(Store.import_lines)
    """Await `Store.import_lines`."""
    delete = _awaited(Store.delete)
    """Await `Store.delete`."""
    delete_user = _awaited(Store.delete_user)
    """Await `Store.delete_user`."""
    enforce_retention = _awaited(Store.enforce_retention)
    """Await `Store.enforce_retention`."""
    retention_records = _awaited(Store.retention_records)
    """Await `Store.retention_records`."""
    close = _awaited(Store.close)
    """Await `Store.close`."""

    async def billed_replies(
        self,
        *,
        user_id: str | None = None,
        team_id: str | None = None,
        session_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[Message]:
        """Iterate over `Store.billed_replies`, without holding up the event loop."""
        replies = self.store.billed_replies(
            user_id=user_id, team_id=team_id, session_id=session_id, since=since, until=until
        )
        while page := await self._run(lambda: tuple(islice(replies, _PAGE_SIZE))):
            for message in page:
                yield message

    async def export(self, session_id: str) -> tuple[str, ...]:
        """Await `Store.export`, whose lines are returned together."""
        return await self._run(lambda: tuple(self.store.export(session_id)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()

    async def _run(self, work: Callable[[], Result]) -> Result:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_MAX_THREADS)
        return await run_sync(work, limiter=self._limiter)
