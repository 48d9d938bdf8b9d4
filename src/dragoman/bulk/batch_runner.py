"""Sends rows through the provider's batch API: at half the price, answered within a day.

The manifest keeps the handle of each batch, so that a later process can fetch it. If a process ends between submitting
a batch and keeping its handle, its rows stay in flight: they may be billed twice, and are counted as lost.
"""

import asyncio
from collections.abc import AsyncIterator

from dragoman.adapter.errors import (
    BudgetExceededError,
    ConfigurationError,
    DragomanError,
    ProviderError,
    UnpricedModelError,
)
from dragoman.batch import AsyncBatches, BatchError, BatchHandle, BatchRequest
from dragoman.bulk.attempts import PendingRow
from dragoman.bulk.model_runner import ModelRunner
from dragoman.bulk.prompt import build_messages
from dragoman.bulk.rows import Source
from dragoman.bulk.state.records import Claim, Outcome, failed_outcome
from dragoman.limits import LimitReachedError
from dragoman.limits.budget import Reservation
from dragoman.pricing import PriceTable

MAX_BATCH_ROWS = 2_000
"""Rows of one batch: its requests are in memory while it is submitted."""
_SAVE_SIZE = 256


class BatchRunner(ModelRunner):
    """``wait`` says whether to wait until the batches have ended; ``poll_every`` is seconds."""

    wait = True
    poll_every = 60.0
    prices: PriceTable | None = None
    """None is the bundled table."""

    async def run(self, rows: Source) -> None:
        requester = self.requester
        if requester.adapter.batch_api is None:
            raise ConfigurationError(f"{requester.model} has no batch API: run it without batch")
        # The run counts the budgets and has chosen the prices.
        client = self.client.with_(budgets=(), limits=self.model_run.limits, prices=None)
        providers = {requester.adapter.provider: requester.settings}
        async with AsyncBatches(
            requester.model, options=requester.options, prices=self.prices, client=client, providers=providers
        ) as batches:
            # Earlier batches come first: their rows may have failed, and be due again.
            await self._fetch_ended(batches)
            async for chunk in self._chunks(rows, requester.adapter.batch_api.max_requests):
                await self._submit(batches, chunk)
                if self.tracker.stopped is not None:
                    break
            while self.wait and await self._fetch_ended(batches):
                await asyncio.sleep(self.poll_every)
        if self.tracker.stopped is None and await self.write_batcher.run_in_thread(
            self.write_batcher.manifest.pending_batches, self.model_no
        ):
            self.tracker.stopped = "batches are not finished: run the same call again to fetch them"

    async def _chunks(self, rows: Source, most: int) -> AsyncIterator[list[PendingRow]]:
        chunk: list[PendingRow] = []
        async for pending in self.iter_pending(rows):
            if pending.error is not None:
                await self._save_error(pending, pending.error)
                continue
            chunk.append(pending)
            if len(chunk) == min(most, MAX_BATCH_ROWS):
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    async def _save_error(self, pending: PendingRow, error: DragomanError) -> None:
        """Save the outcome of a row that is not sent."""
        claim = self.model_run.new_claim(pending, None)
        await self.write_batcher.save_claim(claim, self.model_run.previous_loss(pending))
        self.tracker.start_request()
        outcome = failed_outcome(claim, error, None, 0)
        await self.write_batcher.save_outcome(outcome)
        self.tracker.finish_request(self.requester.model, outcome)

    async def _submit(self, batches: AsyncBatches, chunk: list[PendingRow]) -> None:
        """Submit as much of the chunk as the budget allows."""
        self.client.lifetime.check()
        requests: list[BatchRequest] = []
        claims: list[Claim] = []
        reservations: dict[str, Reservation] = {}
        budget, requester = self.tracker.budget, self.requester
        submitted: list[PendingRow] = []
        for pending in chunk:
            messages, custom_id = build_messages(pending.texts), f"row-{pending.row_no}"
            try:
                # Released only if the request is denied: else it will be spent.
                reservations[custom_id] = budget.reserve(requester.adapter, messages, requester.options)
            except UnpricedModelError:
                raise
            except BudgetExceededError as error:
                if error.per == "turn":  # too little for this row alone
                    await self._save_error(pending, error)
                    continue
                self.tracker.stopped = str(error)
                break
            estimate = budget.estimate(requester.adapter, messages, requester.options)
            submitted.append(pending)
            claims.append(self.model_run.new_claim(pending, estimate))
            requests.append(BatchRequest(custom_id=custom_id, messages=messages, labels=pending.labels))
        if not requests:
            return
        previous_losses = [lost for pending in submitted if (lost := self.model_run.previous_loss(pending)) is not None]
        manifest = self.write_batcher.manifest
        await self.write_batcher.run_in_thread(manifest.save, claims, (), previous_losses)
        try:
            handle = await batches.submit(requests)
        except DragomanError as error:
            may_be_accepted = isinstance(error, ProviderError) and error.status is None
            if isinstance(error, LimitReachedError) or not may_be_accepted:
                await self.write_batcher.run_in_thread(manifest.save, (), (), (), claims)
            raise
        for entry in handle.entries:
            if entry.denial is not None:
                reservations[entry.custom_id].release()
        await self.write_batcher.run_in_thread(
            manifest.save_batch, self.model_no, handle, [claim.row_no for claim in claims]
        )

    async def _fetch_ended(self, batches: AsyncBatches) -> int:
        """Fetch the batches that have ended. Returns the number of the others."""
        unfinished = 0
        manifest = self.write_batcher.manifest
        for number, handle in await self.write_batcher.run_in_thread(manifest.pending_batches, self.model_no):
            state = await batches.poll(handle)
            if not state.status.ended:
                unfinished += 1
                continue
            await self._save_results(batches, handle)
            await self.write_batcher.run_in_thread(manifest.mark_fetched, self.model_no, number)
        return unfinished

    async def _save_results(self, batches: AsyncBatches, handle: BatchHandle) -> None:
        outcomes: list[Outcome] = []
        async for custom_id, result in batches.results(handle):
            row_no = int(custom_id.removeprefix("row-"))
            claim = Claim(self.model_no, row_no, "", None, 0)
            outcomes.append(
                failed_outcome(claim, result.error, None, 1, usage=result.usage)
                if isinstance(result, BatchError)
                else self.model_run.outcome_of(claim, result, None, 1)
            )
            if len(outcomes) == _SAVE_SIZE:
                await self._save(outcomes)
                outcomes = []
        await self._save(outcomes)

    async def _save(self, outcomes: list[Outcome]) -> None:
        await self.write_batcher.run_in_thread(self.write_batcher.manifest.save, (), outcomes)
        for outcome in outcomes:
            self.tracker.start_request()
            self.tracker.finish_request(self.requester.model, outcome)
