"""Rows handed to the provider's batch API: at half the price, and answered within a day.

The handle of a batch is kept in the manifest, so that any later process picks it up. A process that ends between
handing a batch in and keeping its handle leaves its rows in flight: they may be paid for twice, and count as such.
"""

import asyncio
from collections.abc import AsyncIterator

from dragoman.adapter.errors import BudgetExceededError, ConfigurationError, ProviderError, UnpricedModelError
from dragoman.batch import AsyncBatches, BatchError, BatchHandle, BatchRequest
from dragoman.bulk.lane import Due, Lane
from dragoman.bulk.prompt import messages
from dragoman.bulk.records import Claim, Outcome, answered, failed
from dragoman.bulk.rows import Source

MOST_ROWS = 2_000
"""Of one batch: its requests are in memory while it is handed in."""
_KEPT_AT_ONCE = 256


class BatchLane(Lane):
    """``wait`` says whether to wait until the batches are answered; ``poll_every`` is seconds."""

    wait = True
    poll_every = 60.0

    async def run(self, rows: Source) -> None:
        asker = self.asker
        if asker.adapter.batches is None:
            raise ConfigurationError(f"no batch API is spoken for {asker.model}: run it without batch")
        settings = {name: value for name, value in asker.settings.items() if name != "timeout"}
        async with AsyncBatches(asker.model, options=asker.options, **settings) as batches:
            # What is there already comes first: its rows may have failed, and be due again.
            await self._fetched(batches)
            async for chunk in self._chunks(rows, asker.adapter.batches.most_requests):
                await self._handed_in(batches, chunk)
                if self.tally.stopped is not None:
                    break
            while self.wait and await self._fetched(batches):
                await asyncio.sleep(self.poll_every)
        if self.tally.stopped is None and await self.notebook.call(self.notebook.manifest.handed_in, self.model_no):
            self.tally.stopped = "batches are under way: run it again to fetch them"

    async def _chunks(self, rows: Source, most: int) -> AsyncIterator[list[Due]]:
        chunk: list[Due] = []
        async for due in self.due(rows):
            if due.fault is not None:
                claim = self.claim_of(due, None)
                await self.notebook.claim(claim, self.paid_before(due))
                self.tally.begins()
                outcome = failed(claim, due.fault, None, 0)
                await self.notebook.settle(outcome)
                self.tally.ends(self.asker.model, outcome)
                continue
            chunk.append(due)
            if len(chunk) == min(most, MOST_ROWS):
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    async def _handed_in(self, batches: AsyncBatches, chunk: list[Due]) -> None:
        """As much of the chunk as the budget allows."""
        requests: list[BatchRequest] = []
        claims: list[Claim] = []
        funds, asker = self.tally.funds, self.asker
        for due in chunk:
            said = messages(due.texts)
            try:
                funds.hold(asker.adapter, said, asker.options)  # and never released: it will be spent
            except UnpricedModelError:
                raise
            except BudgetExceededError as error:
                self.tally.stopped = str(error)
                break
            guess = funds.guess(asker.adapter, said, asker.options)
            claims.append(self.claim_of(due, guess))
            requests.append(BatchRequest(custom_id=f"row-{due.row_no}", messages=said))
        if not requests:
            return
        before = [gone for due in chunk[: len(claims)] if (gone := self.paid_before(due)) is not None]
        manifest = self.notebook.manifest
        await self.notebook.call(manifest.keep, claims, (), before)
        try:
            handle = await batches.submit(requests)
        except ProviderError as error:
            if error.status is not None:  # it was refused; otherwise nobody knows
                await self.notebook.call(manifest.keep, (), (), (), claims)
            raise
        await self.notebook.call(manifest.hand_in, self.model_no, handle, [claim.row_no for claim in claims])

    async def _fetched(self, batches: AsyncBatches) -> int:
        """Fetches what has ended; the number of batches that have not."""
        left = 0
        manifest = self.notebook.manifest
        for number, handle in await self.notebook.call(manifest.handed_in, self.model_no):
            state = await batches.poll(handle)
            if not state.status.ended:
                left += 1
                continue
            await self._results(batches, handle)
            await self.notebook.call(manifest.fetched, self.model_no, number)
        return left

    async def _results(self, batches: AsyncBatches, handle: BatchHandle) -> None:
        pending: list[Outcome] = []
        async for custom_id, what in batches.results(handle):
            row_no = int(custom_id.removeprefix("row-"))
            claim = Claim(self.model_no, row_no, "", None, 0)
            pending.append(
                failed(claim, what.error, None, 1) if isinstance(what, BatchError) else answered(claim, what, None, 1)
            )
            if len(pending) == _KEPT_AT_ONCE:
                await self._keep(pending)
                pending = []
        await self._keep(pending)

    async def _keep(self, outcomes: list[Outcome]) -> None:
        await self.notebook.call(self.notebook.manifest.keep, (), outcomes)
        for outcome in outcomes:
            self.tally.begins()
            self.tally.ends(self.asker.model, outcome)
