"""Groups writes to the manifest: writes that arrive during a transaction share the next one.

Each caller waits until its write is committed. With many requests in flight there are few transactions; with one
request none waits.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

from dragoman.bulk.manifest.manifest import Manifest
from dragoman.bulk.manifest.records import LostRequest, RowRecord, State
from dragoman.store.errors import StoreError


class WriteBatcher:
    """Writes to the manifest from one event loop, many changes at once. The work runs in a thread of its own."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dragoman-bulk")
        self._rows: list[RowRecord] = []
        self._lost: list[LostRequest] = []
        self._unsent: list[RowRecord] = []
        self._unsaved: list[RowRecord] = []
        """Outcomes that could not be written."""
        self._flushed: asyncio.Future[None] | None = None
        self._flush_task: asyncio.Task[None] | None = None

    async def save(self, row: RowRecord, lost: LostRequest | None = None) -> None:
        """Record a request before it is sent, or its outcome; ``lost`` is the lost request before it."""
        self._rows.append(row)
        await self._flush(lost)

    async def discard(self, claim: RowRecord, lost: LostRequest | None = None) -> None:
        """Delete the claim of a request that was not sent, or was refused without being processed: it cost nothing.
        With ``lost``, its outcome is unknown, and this process does not send it again."""
        self._unsent.append(claim)
        await self._flush(lost)

    async def run_in_thread(self, work: Any, *args: Any) -> Any:
        """Run other work of the manifest and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def explain(self, error: StoreError) -> StoreError:
        """Say in an error of the manifest what was paid for and is not stored. Returns the error."""
        answers = [each for each in self._unsaved if each.tries]
        if answers:
            usd = sum((each.paid.cost_usd or Decimal(0) for each in answers), Decimal(0))
            cost = f"${usd:.4f}" if all(each.paid.cost_usd is not None for each in answers) else "at an unknown cost"
            rows = "1 row was" if len(answers) == 1 else f"{len(answers)} rows were"
            told = f"{rows} answered and billed ({cost}) since then, and the next run sends them again"
            error.args = (f"{error}; {told}",)
        return error

    async def close(self) -> None:
        """Wait until everything is written."""
        if self._flush_task is not None:
            await self._flush_task
        self._thread.shutdown()

    async def _flush(self, lost: LostRequest | None) -> None:
        if lost is not None:
            self._lost.append(lost)
        if self._flushed is None:
            self._flushed = asyncio.get_running_loop().create_future()
        flushed = self._flushed
        if self._flush_task is None or self._flush_task.done():
            self._flush_task = asyncio.create_task(self._flush_loop())
        await asyncio.shield(flushed)

    async def _flush_loop(self) -> None:
        while (flushed := self._flushed) is not None:
            work = (self._rows, self._lost, self._unsent)
            self._rows, self._lost, self._unsent, self._flushed = [], [], [], None
            try:
                await self.run_in_thread(self.manifest.save, *work)
            except Exception as error:
                self._unsaved += [row for row in work[0] if row.state is not State.IN_FLIGHT]
                flushed.set_exception(error)
                flushed.exception()  # mark it as retrieved: nobody may be waiting any more
            else:
                flushed.set_result(None)
