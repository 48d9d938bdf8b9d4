"""One model's way through the rows: those that are due are put to it, as many at once as its provider takes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from decimal import Decimal
from itertools import islice
from typing import NamedTuple

from dragoman.adapter.errors import (
    AuthenticationError,
    BillingError,
    BudgetExceededError,
    ConfigurationError,
    DragomanError,
    NetworkError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    RequestError,
    UnpricedModelError,
)
from dragoman.bulk.asker import Asker, Reply, WorkerLostError
from dragoman.bulk.manifest import now
from dragoman.bulk.notebook import Notebook
from dragoman.bulk.pace import Pace
from dragoman.bulk.prompt import Asking, digest, messages
from dragoman.bulk.records import Claim, Known, Lost, Outcome, State, answered, failed
from dragoman.bulk.rows import Row, Source
from dragoman.bulk.tally import Tally
from dragoman.canonical.message import Message
from dragoman.limits import Grant, LimitReachedError, Limits
from dragoman.session.budget import Hold

_AT_ONCE = 256
_MOST_LOST = 10
"""Workers that may be lost while they ask for one row: it may be the row that ends them."""
_HOPELESS = (AuthenticationError, BillingError, ConfigurationError, NotFoundError)
"""What one row meets, every row will meet. A permission may be denied for what a single row says."""


class Due(NamedTuple):
    """A row that is to be asked; ``fault`` where it says nothing that could be."""

    row_no: int
    texts: tuple[str, ...]
    fault: RequestError | None
    before: Known | None


class Lane:
    """``tally`` is told what happens, and holds the funds that all lanes share."""

    def __init__(
        self,
        asker: Asker,
        model_no: int,
        *,
        notebook: Notebook,
        asking: Asking,
        pace: Pace,
        tally: Tally,
        limits: Limits | None,
        retry_errors: bool,
    ) -> None:
        self.asker = asker
        self.model_no = model_no
        self.pace = pace
        self.notebook = notebook
        self.tally = tally
        self._asking = asking
        self._limits = limits
        self._retry_errors = retry_errors
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._freed = asyncio.Event()

    async def run(self, rows: Source) -> None:
        """Returns when every row is settled, or the run has come to a stop and nothing is under way any more.

        Raises what would have met every row, such as AuthenticationError, and StoreError.
        """
        try:
            async with aclosing(self.due(rows)) as every:
                async for due in every:
                    if not await self._started(due):
                        break
        except asyncio.CancelledError:
            self.tally.stopped = self.tally.stopped or "interrupted"
            raise
        finally:  # what is under way is paid for, and is waited for
            if self._tasks:
                await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    async def due(self, rows: Source) -> AsyncGenerator[Due, None]:
        """The rows that have no outcome yet, and, if that is wanted, those whose outcome was an error.

        Raises ConfigurationError where a row asks something else than it did before.
        """
        first, reading = 0, iter(rows)
        while chunk := list(islice(reading, _AT_ONCE)):
            known = await self.notebook.call(self.notebook.manifest.known, self.model_no, first, len(chunk))
            for each in self._of_chunk(first, chunk, known):
                yield each
            first += len(chunk)

    def _of_chunk(self, first: int, chunk: list[Row], known: dict[int, Known]) -> Iterator[Due]:
        for row_no, row in enumerate(chunk, first):
            try:
                texts, fault = self._asking.texts(row), None
            except RequestError as error:
                texts, fault = (), error
            before = known.get(row_no)
            if before is None:
                yield Due(row_no, texts, fault, None)
            elif before.state is not State.FAILED and before.digest != digest(texts):
                raise ConfigurationError(
                    f"row {row_no + 1:,} is not what it was when this run asked it: give the changed rows a run of"
                    " their own"
                )
            elif before.state is State.FAILED and self._retry_errors:
                self.tally.reopens(self.asker.model)
                yield Due(row_no, texts, fault, before)

    async def _started(self, due: Due) -> bool:
        """Whether there is a point in going on."""
        number = await self.pace.enter()
        if self._failure is not None or self.tally.stopped is not None:
            self.pace.leave()
            return False
        said = messages(due.texts) if due.fault is None else []
        hold: Hold | None = None
        try:
            hold = Hold() if due.fault is not None else await self._held(said)
        except UnpricedModelError as error:
            self._failure = error
        if hold is None:
            self.pace.leave()
            return False
        self.tally.begins()
        task = asyncio.create_task(self._settle(due, said, hold, number))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return True

    async def _held(self, said: list[Message]) -> Hold | None:
        """What the request holds back of the budget; None where the budget ends the run.

        While others are under way there may be more left when they are settled: less than they held back.
        """
        while True:
            try:
                return self.tally.funds.hold(self.asker.adapter, said, self.asker.options)
            except UnpricedModelError:
                raise
            except BudgetExceededError as error:
                if not self.tally.under_way:
                    self.tally.stopped = str(error)
                    return None
            await self.tally.settled_one()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.pace.leave()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error

    async def _settle(self, due: Due, said: list[Message], hold: Hold, number: int) -> None:
        outcome: Outcome | None = None
        try:
            outcome = await self._asked(due, said, hold, number)
            if outcome is not None:
                await self.notebook.settle(outcome)
        finally:
            hold.release()
            self.tally.ends(self.asker.model, outcome)

    async def _asked(self, due: Due, said: list[Message], hold: Hold, number: int) -> Outcome | None:
        """Tries until there is an answer, or an error that stays; None where the run stops before it knows."""
        guess = None if due.fault is not None else self.tally.funds.guess(self.asker.adapter, said, self.asker.options)
        tries, refusals, losses, gone = 0, 0, 0, self.paid_before(due)
        while True:
            try:
                if due.fault is not None:
                    raise due.fault
                grant = await self._granted(said)
            except (RequestError, LimitReachedError) as unsent:
                claim = self.claim_of(due, None)
                await self.notebook.claim(claim, gone)
                return failed(claim, unsent, None, tries + refusals)
            claim = self.claim_of(due, guess)
            await self.notebook.claim(claim, gone)
            gone, tries, began = None, tries + 1, time.monotonic()
            try:
                reply = await self.asker.ask(said)
            except DragomanError as raised:
                error, ms = raised, _ms_since(began)
            else:
                self._learnt(reply, hold, number)
                await self._counted(grant, reply)
                return answered(claim, reply.message, _ms_since(began), tries + refusals)
            await self._counted(grant, error)
            if isinstance(error, WorkerLostError):
                losses, gone = losses + 1, Lost.of(claim, "killed")
                self.tally.lost(gone)
                if self.tally.stopped is not None:
                    await self.notebook.lose(claim, gone)
                    return None
                if losses > _MOST_LOST:
                    await self.notebook.claim(claim := self.claim_of(due, None), gone)
                    return failed(claim, error, None, tries + refusals)
                tries -= 1
                continue
            if isinstance(error, RateLimitError):
                refusals, tries = refusals + 1, tries - 1
            wait = self._wait(error, tries, refusals)
            if isinstance(error, RateLimitError):
                self.pace.refused(number, wait or 0.0)
            if isinstance(error, _HOPELESS) and not isinstance(error, PermissionDeniedError):
                await self.notebook.unsend(claim)
                raise error
            if wait is None:
                return failed(claim, error, ms, tries + refusals)
            if isinstance(error, NetworkError):
                gone = Lost.of(claim, "network")
                self.tally.lost(gone)
            else:
                await self.notebook.unsend(claim)
            if isinstance(error, RateLimitError):  # it waits with all the others, and for its turn
                self.pace.leave()
                number = await self.pace.enter()
            else:
                await asyncio.sleep(wait)

    def claim_of(self, due: Due, guess: Decimal | None) -> Claim:
        return Claim(self.model_no, due.row_no, digest(due.texts), guess, now())

    def paid_before(self, due: Due) -> Lost | None:
        """What an earlier request for this row was billed, which came to nothing."""
        before = due.before
        if before is None or before.cost_usd is None:
            return None
        return Lost(self.model_no, due.row_no, before.sent_at, "failed", before.cost_usd)

    def _wait(self, error: DragomanError, tries: int, refusals: int) -> float | None:
        """Seconds until the next try; None where there is none. Refusals cost nothing, so there may be many of them."""
        if not isinstance(error, ProviderError) or self.tally.stopped is not None:
            return None
        policy, timing = self.asker.retry, self.pace.timing
        if isinstance(error, RateLimitError):
            if refusals > 10 * policy.max_retries:
                return None
            asked = error.retry_after
            return policy.backoff(refusals, timing.roll()) if asked is None else min(asked, policy.longest_ask)
        return policy.wait(error, {}, tries, now=timing.now(), roll=timing.roll())

    def _learnt(self, reply: Reply, hold: Hold, number: int) -> None:
        usage = reply.message.usage
        hold.settle(usage)
        self.pace.succeeded(number, reply.headers, 0 if usage is None else usage.total_tokens)
        if usage is not None:
            self.tally.funds.learn(self.asker.model, usage.output_tokens)

    async def _counted(self, grant: Grant | None, what: Reply | DragomanError) -> None:
        """Tells the program's own limits what came of it."""
        if grant is None or self._limits is None:
            return
        if isinstance(what, Reply):
            await self._limits.heed_async(self.asker.model, what.headers)
            if what.message.usage is not None:  # otherwise what was held stays held
                await self._limits.settle_async(grant, what.message.usage)
            return
        if isinstance(what, ProviderError):
            await self._limits.heed_async(self.asker.model, what)
        await self._limits.settle_async(grant, None)

    async def _granted(self, said: list[Message]) -> Grant | None:
        """Its place in the program's own limits, however long that takes: nothing was sent in the meantime."""
        if self._limits is None:
            return None
        adapter, options = self.asker.adapter, self.asker.options
        read = adapter.estimate_input_tokens(said, ())
        written = options.max_output_tokens or self._limits.reply_tokens or adapter.default_output_tokens
        while True:
            try:
                return await self._limits.acquire_async(self.asker.model, read, written)
            except LimitReachedError as error:
                if error.retry_after is None:
                    raise
                await asyncio.sleep(error.retry_after)


def _ms_since(began: float) -> int:
    return int(1000 * (time.monotonic() - began))
