"""Writes into the manifest what many requests have to say at once, in one transaction.

Whoever notes something waits until it is kept. While one transaction is under way, what comes in gathers for the next:
so there are few of them where many requests are under way, and none waits where there is but one.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dragoman.bulk.manifest import Manifest
from dragoman.bulk.records import Claim, Lost, Outcome


class Notebook:
    """Of one event loop. The manifest's work is done in a thread of its own."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dragoman-bulk")
        self._claims: list[Claim] = []
        self._outcomes: list[Outcome] = []
        self._gone: list[Lost] = []
        self._unsent: list[Claim] = []
        self._kept: asyncio.Future[None] | None = None
        self._writing: asyncio.Task[None] | None = None

    async def claim(self, claim: Claim, after: Lost | None = None) -> None:
        """Before a request is sent; ``after`` the one before it that was lost."""
        self._claims.append(claim)
        if after is not None:
            self._gone.append(after)
        await self._keep()

    async def settle(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        await self._keep()

    async def unsend(self, claim: Claim) -> None:
        """The request was not sent after all, or refused unread: it cost nothing."""
        self._unsent.append(claim)
        await self._keep()

    async def lose(self, claim: Claim, lost: Lost) -> None:
        """Nobody knows what became of the request, and it is not sent again in this process."""
        self._unsent.append(claim)
        self._gone.append(lost)
        await self._keep()

    async def call(self, work: Any, *args: Any) -> Any:
        """The result of something else that the manifest does."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    async def close(self) -> None:
        """Everything is kept when this returns."""
        if self._writing is not None:
            await self._writing
        self._thread.shutdown()

    async def _keep(self) -> None:
        if self._kept is None:
            self._kept = asyncio.get_running_loop().create_future()
        kept = self._kept
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        await asyncio.shield(kept)

    async def _write(self) -> None:
        while (kept := self._kept) is not None:
            work = (self._claims, self._outcomes, self._gone, self._unsent)
            self._claims, self._outcomes, self._gone, self._unsent, self._kept = [], [], [], [], None
            try:
                await self.call(self.manifest.keep, *work)
            except Exception as error:
                kept.set_exception(error)
                kept.exception()  # whoever waited is told; nobody may wait any more
            else:
                kept.set_result(None)
