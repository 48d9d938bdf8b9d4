"""AsyncStore: the store for asyncio and trio. Its calls run in threads."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
from anyio.to_thread import run_sync

from dragoman.canonical.message import Message
from dragoman.open_turns import TurnStep
from dragoman.pricing.analytics.cost_lines import CostLine
from dragoman.store.records import (
    ExportResult,
    RetentionAction,
    RetentionRecord,
    SearchHit,
    SessionPage,
    SessionRecord,
    StoredCall,
    StoredSession,
    UserDeletion,
)
from dragoman.store.store import Extensions, Store, ToolIds

Result = TypeVar("Result")

_PAGE_SIZE = 1000

_MAX_THREADS = 16
"""Concurrent threads of one store; SQLite lets one of them write."""


class AsyncStore:
    """A `Store` with async calls: ``async with AsyncStore(Store("sqlite:///chats.db")) as store``.

    A cancelled call is finished first, so that it is always known whether its turn was kept. Arguments and errors are
    those of `Store`, which can still be used.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        """The store whose calls are made in threads."""
        self._limiter: anyio.CapacityLimiter | None = None

    async def create(self, model: str | None = None, messages: Sequence[Message] = (), **fields: Any) -> SessionRecord:
        """Await `Store.create`."""
        return await self._run(partial(self.store.create, model, messages, **fields))

    async def create_all(self, sessions: Iterable[Mapping[str, Any]]) -> None:
        """Await `Store.create_all`."""
        await self._run(partial(self.store.create_all, list(sessions)))

    async def append(
        self,
        session_id: str,
        messages: Sequence[Message] = (),
        *,
        expected_version: int | None,
        tool_ids: ToolIds | None = None,
        model: str | None = None,
        extensions: Extensions | None = None,
        attempts: Sequence[Message] = (),
        step: TurnStep | None = None,
    ) -> int:
        """Await `Store.append`."""
        return await self._run(
            partial(
                self.store.append,
                session_id,
                messages,
                expected_version=expected_version,
                tool_ids=tool_ids,
                model=model,
                extensions=extensions,
                attempts=attempts,
                step=step,
            )
        )

    async def annotate(
        self, session_id: str, message_id: str, extensions: Mapping[str, Any], *, expected_version: int | None
    ) -> int:
        """Await `Store.annotate`."""
        return await self._run(
            partial(self.store.annotate, session_id, message_id, extensions, expected_version=expected_version)
        )

    async def load(self, session_id: str) -> StoredSession:
        """Await `Store.load`."""
        return await self._run(partial(self.store.load, session_id))

    async def record(self, session_id: str) -> SessionRecord:
        """Await `Store.record`."""
        return await self._run(partial(self.store.record, session_id))

    async def fork(
        self, session_id: str, at_message_id: str | None = None, *, new_session_id: str | None = None
    ) -> SessionRecord:
        """Await `Store.fork`."""
        return await self._run(partial(self.store.fork, session_id, at_message_id, new_session_id=new_session_id))

    async def list(
        self,
        *,
        user_id: str | None = None,
        team_id: str | None = None,
        model: str | None = None,
        since: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionPage:
        """Await `Store.list`."""
        return await self._run(
            partial(
                self.store.list,
                user_id=user_id,
                team_id=team_id,
                model=model,
                since=since,
                limit=limit,
                cursor=cursor,
            )
        )

    async def search(
        self, text: str, *, user_id: str | None = None, session_id: str | None = None, limit: int = 50
    ) -> tuple[SearchHit, ...]:
        """Await `Store.search`."""
        return await self._run(partial(self.store.search, text, user_id=user_id, session_id=session_id, limit=limit))

    async def unanswered(
        self, *, user_id: str | None = None, session_id: str | None = None, limit: int = 50
    ) -> tuple[StoredCall, ...]:
        """Await `Store.unanswered`."""
        return await self._run(partial(self.store.unanswered, user_id=user_id, session_id=session_id, limit=limit))

    async def failed_calls(
        self, *, user_id: str | None = None, session_id: str | None = None, limit: int = 50
    ) -> tuple[StoredCall, ...]:
        """Await `Store.failed_calls`."""
        return await self._run(partial(self.store.failed_calls, user_id=user_id, session_id=session_id, limit=limit))

    async def unfinished(self, *, limit: int = 50) -> tuple[str, ...]:
        """Await `Store.unfinished`."""
        return await self._run(partial(self.store.unfinished, limit=limit))

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

    async def total_spend(
        self, *, user_id: str | None = None, team_id: str | None = None, since: datetime | None = None
    ) -> CostLine:
        """Await `Store.total_spend`."""
        return await self._run(partial(self.store.total_spend, user_id=user_id, team_id=team_id, since=since))

    async def export_replies(
        self,
        folder: str | Path,
        *,
        since: date | None = None,
        until: date | None = None,
        text: bool = False,
        overwrite: bool = False,
    ) -> ExportResult:
        """Await `Store.export_replies`."""
        return await self._run(
            partial(self.store.export_replies, folder, since=since, until=until, text=text, overwrite=overwrite)
        )

    async def export(self, session_id: str) -> tuple[str, ...]:
        """Await `Store.export`, whose lines are returned together."""
        return await self._run(lambda: tuple(self.store.export(session_id)))

    async def import_lines(self, lines: Iterable[str | bytes], *, session_id: str | None = None) -> SessionRecord:
        """Await `Store.import_lines`."""
        return await self._run(partial(self.store.import_lines, lines, session_id=session_id))

    async def delete(self, session_id: str) -> None:
        """Await `Store.delete`."""
        await self._run(partial(self.store.delete, session_id))

    async def delete_user(self, user_id: str, *, reports: str | Path | None = None, text: bool = False) -> UserDeletion:
        """Await `Store.delete_user`."""
        return await self._run(partial(self.store.delete_user, user_id, reports=reports, text=text))

    async def enforce_retention(
        self,
        *,
        action: RetentionAction = "redact",
        session_idle: timedelta = timedelta(days=1),
        dry_run: bool = False,
    ) -> tuple[RetentionRecord, ...]:
        """Await `Store.enforce_retention`."""
        return await self._run(
            partial(self.store.enforce_retention, action=action, session_idle=session_idle, dry_run=dry_run)
        )

    async def retention_records(self, session_id: str | None = None) -> tuple[RetentionRecord, ...]:
        """Await `Store.retention_records`."""
        return await self._run(partial(self.store.retention_records, session_id))

    async def close(self) -> None:
        """Await `Store.close`."""
        await self._run(self.store.close)

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
