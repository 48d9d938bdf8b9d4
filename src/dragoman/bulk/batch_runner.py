"""Sends rows through the provider's batch API: at half the price, answered within a day.

The manifest keeps the handle of each batch, so that a later process can fetch it. If a process ends between submitting
a batch and keeping its handle, its rows stay in flight: they may be billed twice, and are counted as lost.

A batch cannot ask again by itself. Rows whose answers are not valid make another batch, with the answer and what is
wrong with it; the manifest keeps both until then.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cache, partial
from typing import Any

from dragoman.adapter.errors import (
    BudgetExceededError,
    ConfigurationError,
    DragomanError,
    ProviderError,
    UnpricedModelError,
)
from dragoman.batch import AsyncBatches, BatchError, BatchRequest
from dragoman.batch.results import BatchPrices, BatchResult
from dragoman.bulk.attempts import PendingRow
from dragoman.bulk.manifest.records import NOTHING_PAID, LostRequest, RowRecord, RowUsage, State
from dragoman.bulk.model_runner import ModelRunner
from dragoman.bulk.rows import Source, build_messages
from dragoman.canonical.message import Message
from dragoman.limits import LimitReachedError
from dragoman.limits.bounds import max_usage
from dragoman.limits.budget import Budgets, Spend
from dragoman.limits.reservation import Reservation
from dragoman.output.errors import OutputError

MAX_BATCH_ROWS = 2_000
"""Rows of one batch: its requests are in memory while it is submitted."""
_SAVE_SIZE = 256


class BatchRunner(ModelRunner):
    """Submits batches, and waits until they have ended if the run is to wait."""

    async def run(self, rows: Source) -> None:
        requester, config, prices = self.requester, self.model_run.config, self.model_run.prices
        assert isinstance(prices, BatchPrices)
        if requester.adapter.batch_api is None:
            raise ConfigurationError(f"{requester.model} has no batch API: run it without batch")
        # The run counts the budgets and has chosen the prices.
        client = config.client.with_(budgets=(), limits=config.limits, prices=None)
        providers = {requester.adapter.provider: requester.settings}
        async with AsyncBatches(
            requester.model,
            options=requester.options,
            prices=prices.table,
            user_id=config.identity[0],
            team_id=config.identity[1],
            client=client,
            providers=providers,
        ) as batches:
            # Earlier batches come first: their rows may have failed, and be due again.
            await self._fetch_ended(batches)
            while True:
                async for chunk in self._chunks(rows, requester.adapter.batch_api.max_requests):
                    await self._submit(batches, chunk)
                    if self.tracker.stopped is not None:
                        break
                while config.wait and await self._fetch_ended(batches):
                    await asyncio.sleep(config.poll_every)
                if self.tracker.stopped is not None or not config.wait or not await self._read_manifest("has_invalid"):
                    break
                self._retry_errors = False  # those rows have been sent
        if self.tracker.stopped is None and await self._read_manifest("pending_batches"):
            self.tracker.stopped = "batches are not finished: run the same call again to fetch them"

    async def _read_manifest(self, method: str, *args: object) -> Any:
        """Call a method of the manifest for this model."""
        manifest = self.write_batcher.manifest
        return await self.write_batcher.run_in_thread(getattr(manifest, method), self.model_no, *args)

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
        claim = self._new_claim(pending, None)
        self.tracker.start_request()
        outcome = claim.failed(error, None, claim.tries, [claim.paid])
        await self.write_batcher.save(outcome, self._previous_loss(pending))
        self.tracker.finish_request(self.requester.model, outcome)

    async def _submit(self, batches: AsyncBatches, chunk: list[PendingRow]) -> None:
        """Submit as much of the chunk as the budget allows."""
        self.model_run.config.client.lifetime.check()
        requests: list[BatchRequest] = []
        claims: list[RowRecord] = []
        reservations: dict[str, Reservation] = {}
        requester = self.requester
        submitted: list[PendingRow] = []
        for pending in chunk:
            messages, custom_id = _build_messages(pending), f"row-{pending.row_no}"
            measure = cache(partial(max_usage, requester.adapter, messages, (), requester.options))
            try:
                # Released only if the request is denied: else it will be spent.
                reservations[custom_id] = self._new_budgets(pending).reserve(measure)
            except UnpricedModelError:
                raise
            except BudgetExceededError as error:
                if error.per == "turn":  # too little for this row alone
                    await self._save_error(pending, error)
                    continue
                self.tracker.stopped = str(error)
                break
            estimate = self.model_run.estimator.estimate(measure())
            submitted.append(pending)
            claims.append(self._new_claim(pending, estimate))
            requests.append(BatchRequest(custom_id=custom_id, messages=messages, labels=pending.labels))
        if not requests:
            return
        previous_losses = [lost for pending in submitted if (lost := self._previous_loss(pending)) is not None]
        manifest = self.write_batcher.manifest
        await self.write_batcher.run_in_thread(manifest.save, claims, previous_losses)
        try:
            handle = await batches.submit(requests)
        except DragomanError as error:
            may_be_accepted = isinstance(error, ProviderError) and error.status is None
            if isinstance(error, LimitReachedError) or not may_be_accepted:
                # What is known of a row that is not asked again after all stays.
                earlier = [(claim, pending.invalid_answer) for claim, pending in zip(claims, submitted, strict=True)]
                kept = [claim.invalid(row.answer, row.error, row.tries, row.paid) for claim, row in earlier if row]
                unsent = [claim for claim, row in earlier if row is None]
                await self.write_batcher.run_in_thread(manifest.save, kept, (), unsent)
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
            results: dict[int, BatchResult] = {}
            async for custom_id, result in batches.results(handle):
                results[int(custom_id.removeprefix("row-"))] = result
                if len(results) == _SAVE_SIZE:
                    await self._save(results)
                    results = {}
            await self._save(results)
            await self.write_batcher.run_in_thread(manifest.mark_fetched, self.model_no, number)
        return unfinished

    async def _save(self, results: Mapping[int, BatchResult]) -> None:
        # Another row has its outcome: a process that was killed has saved it.
        known: Mapping[int, RowRecord] = await self._read_manifest("load_batched", list(results))
        outcomes = [self._outcome(row, results[row_no]) for row_no, row in known.items()]
        await self.write_batcher.run_in_thread(self.write_batcher.manifest.save, outcomes)
        for outcome in outcomes:
            if outcome.state is not State.INVALID:
                self.tracker.start_request()
                self.tracker.finish_request(self.requester.model, outcome)

    def _outcome(self, row: RowRecord, result: BatchResult) -> RowRecord:
        tries = row.tries + 1
        usages = [row.paid] if result.usage is None else [row.paid, RowUsage.of(result.usage)]
        if isinstance(result, BatchError):
            return row.failed(result.error, None, tries, usages)
        check = self.model_run.new_check(row.tries)
        try:
            correction = None if check is None else check.correction(result)
        except OutputError as error:
            return row.failed(error, None, tries, usages)
        if correction is None:
            return row.answered(result, None, tries, RowUsage.total(usages))
        return row.invalid(result.model_dump_json(), correction, tries, RowUsage.total(usages))

    def _new_budgets(self, pending: PendingRow) -> Budgets:
        """Return the budgets of a row, with what it has cost so far."""
        budgets = self.model_run.new_budgets()
        paid = NOTHING_PAID if pending.invalid_answer is None else pending.invalid_answer.paid
        for account in budgets.accounts:
            if account.budget.per == "turn":
                account.spent += Spend(paid.cost_usd or Decimal(0), paid.tokens or 0)
        return budgets

    def _new_claim(self, pending: PendingRow, estimate: Decimal | None) -> RowRecord:
        claim, earlier = self.model_run.new_claim(pending, estimate), pending.invalid_answer
        return claim if earlier is None else replace(claim, paid=earlier.paid, tries=earlier.tries)

    def _previous_loss(self, pending: PendingRow) -> LostRequest | None:
        """Return the cost of an earlier request, unless the row counts it."""
        return None if pending.invalid_answer else self.model_run.previous_loss(pending)


def _build_messages(pending: PendingRow) -> list[Message]:
    """Return the messages of a request. If the last answer was not valid, it and what is wrong with it follow the
    prompt."""
    messages = build_messages(pending.texts)
    if (row := pending.invalid_answer) is not None and row.answer is not None and row.error is not None:
        messages += [Message.model_validate_json(row.answer), Message.user(row.error)]
    return messages
