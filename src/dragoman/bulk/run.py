"""A bulk run from its beginning to its report: everything but how rows are put to a model, which a lane does."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.adapter.contract import AdapterOptions, Prices, bundled_prices
from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.batch.results import BatchPrices
from dragoman.bulk.asker import Asked, Asker, OwnAsker
from dragoman.bulk.batched import BatchLane
from dragoman.bulk.funds import Funds, account_of
from dragoman.bulk.lane import Lane
from dragoman.bulk.manifest import Manifest, added
from dragoman.bulk.notebook import Notebook
from dragoman.bulk.pace import Pace
from dragoman.bulk.prompt import Asking
from dragoman.bulk.report import BulkReport, Standing, money_gone, report, standing
from dragoman.bulk.rows import Source, suffix_of
from dragoman.bulk.tally import Tally, Watch
from dragoman.bulk.writing import write
from dragoman.limits import Limits
from dragoman.pricing import PriceTable
from dragoman.session.budget import Budget

if TYPE_CHECKING:
    from dragoman.bulk.crew import Crew

CONCURRENCY = 64
_NOT_ASKED = ("context", "stream", "headers")
"""Options that say nothing of what is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be done; see `dragoman.bulk.bulk` for each."""

    source: Source
    models: Sequence[str]
    template: str | None = None
    system: str | None = None
    options: AdapterOptions = field(default_factory=AdapterOptions)
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    output: Path | None = None
    manifest: str | Path = "sqlite://"
    name: str = "bulk"
    concurrency: int = CONCURRENCY
    limits: Limits | None = None
    budget: Budget | Decimal | str | int | None = None
    retry_errors: bool = False
    batch: bool = False
    ray: str | None = None
    workers: int | None = None
    wait: bool = True
    poll_every: float = 60.0
    prefix: str = ""
    prices: Prices | None = None
    progress: Watch | None = None
    pace: Callable[[int], Pace] = Pace

    def asked(self) -> dict[str, Any]:
        """What has to stay the same for a run to go on."""
        told = {name: value for name, value in asdict(self.options).items() if name not in _NOT_ASKED}
        options = blake2b(repr(sorted(told.items())).encode(), digest_size=16).hexdigest()
        return {"prompt": self.template, "system": self.system, "options": options}


async def carried_out(job: Job) -> BulkReport:
    """Does what is left of the job. Raises what would have met every row, ConfigurationError and StoreError; what was
    answered by then is kept, and the same job goes on from there."""
    _check(job)
    asking = Asking(job.template, job.system)
    prices = _prices(job)
    account = account_of(job.budget)
    async with AsyncExitStack() as stack:
        crew = _crew(job, prices)
        askers: list[Asker] = []
        if crew is not None:
            askers.extend(crew.askers())
            stack.push_async_callback(crew.close)
        else:
            for each in _asked(job, prices):
                askers.append(asker := OwnAsker(each))
                stack.push_async_callback(asker.close)
        models = [asker.model for asker in askers]
        if len(set(models)) < len(models):
            raise ConfigurationError("a model is named twice: each answers a row once")
        manifest = Manifest(job.manifest, job.name)
        try:
            numbers = manifest.begin(job.asked(), models)
            rows = await asyncio.to_thread(job.source.count)
            funds = Funds(prices, account)
            tally = Tally(funds, rows * len(models), job.progress)
            for model, number in zip(models, numbers, strict=True):
                _remember(tally, model, rows, standing(manifest, number))
            spent_for_nothing = money_gone(manifest).usd
            tally.lost_usd(spent_for_nothing)
            funds.spent_beside(spent_for_nothing, 0)
            if crew is not None:
                await crew.start()
            notebook = Notebook(manifest)
            stack.push_async_callback(notebook.close)
            lanes = [
                (BatchLane if job.batch else Lane)(
                    asker,
                    number,
                    notebook=notebook,
                    asking=asking,
                    pace=job.pace(job.concurrency),
                    tally=tally,
                    limits=job.limits,
                    retry_errors=job.retry_errors,
                )
                for asker, number in zip(askers, numbers, strict=True)
            ]
            for lane in lanes:
                if isinstance(lane, BatchLane):
                    lane.wait, lane.poll_every = job.wait, job.poll_every
            await _together(lanes, job.source, tally)
            tally.tell()
            found = report(
                manifest, job.source, dict(zip(models, numbers, strict=True)), rows, tally.stopped, job.prefix
            )
            if job.output is not None:
                await asyncio.to_thread(write, job.output, found, job.source, job.prefix)
        except BaseException:
            await stack.aclose()
            manifest.close()
            raise
    return found


async def _together(lanes: Sequence[Lane], source: Source, tally: Tally) -> None:
    """The first failure of a lane stops the others, which end what they have under way."""

    async def one(lane: Lane) -> None:
        try:
            await lane.run(source)
        except Exception:
            tally.stopped = tally.stopped or f"{lane.asker.model} failed"
            raise

    done = await asyncio.gather(*map(one, lanes), return_exceptions=True)
    for failure in done:
        if isinstance(failure, BaseException):
            raise failure


def _asked(job: Job, prices: Prices) -> list[Asked]:
    return [Asked(model, job.options, job.providers.get(model.partition(":")[0], {}), prices) for model in job.models]


def _crew(job: Job, prices: Prices) -> "Crew | None":
    """Those who ask, where this process does not do it itself."""
    if job.ray is None:
        return None
    from dragoman.bulk.cluster import Cluster
    from dragoman.bulk.crew import Crew

    return Crew(Cluster(job.ray, job.workers), _asked(job, prices))


def _remember(tally: Tally, model: str, rows: int, found: Standing) -> None:
    tally.known(model, rows, found.done, found.errors, found.priced, found.usd)
    if found.answered:
        tally.funds.learn(model, found.output_tokens / found.answered)
    tally.funds.spent_beside(added(found.usd, found.batched_usd), found.input_tokens + found.output_tokens)


def _prices(job: Job) -> Prices:
    known = job.prices if job.prices is not None else bundled_prices()
    if not job.batch:
        return known
    if not isinstance(known, PriceTable):
        raise ConfigurationError("batches are priced by a price table: give prices=price_table(...), or none")
    return BatchPrices(known)


def _check(job: Job) -> None:
    if not job.models:
        raise ConfigurationError("a bulk run needs a model")
    if job.output is not None:
        suffix_of(job.output)
    if job.ray is not None and job.batch:
        raise ConfigurationError("batches are handed in by this process: batch needs no cluster")
    if job.ray is None and job.workers is not None:
        raise ConfigurationError("workers are those of a cluster: say which one (ray)")
    if job.options.stream or job.options.context is not None:
        raise RequestError("the options of a bulk run have no stream and no context")
