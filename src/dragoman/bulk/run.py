"""Runs a bulk run from its start to its report. A `ModelRunner` sends the rows of each model."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.adapter.contract import Prices, bundled_prices
from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.registry import parse_model
from dragoman.batch.results import BatchPrices
from dragoman.bulk.attempts import CostEstimator, ModelRun
from dragoman.bulk.batch_runner import BatchRunner
from dragoman.bulk.config import RunConfig
from dragoman.bulk.manifest.manifest import Manifest, now_micros
from dragoman.bulk.manifest.records import sum_known
from dragoman.bulk.manifest.write_batcher import WriteBatcher
from dragoman.bulk.model_runner import ModelRunner
from dragoman.bulk.output import AnswerColumns, write_rows
from dragoman.bulk.progress import ProgressTracker
from dragoman.bulk.report import BulkReport, count_outcomes, sum_batched, sum_lost, summarize
from dragoman.bulk.requester import ModelConfig, Requester
from dragoman.bulk.rows import RowReader, Source, validate_suffix
from dragoman.configuration.validation import merge_providers, read_providers
from dragoman.limits.budget import Budget, BudgetAccounts, Budgets, Spend
from dragoman.output.answer_type import AnswerJson, AnswerType
from dragoman.output.check import check_output_retries
from dragoman.pricing import PriceTable
from dragoman.store.columns import from_micros
from dragoman.store.errors import StoreError

if TYPE_CHECKING:
    from dragoman.bulk.workers import WorkerPool


async def run_bulk(config: RunConfig) -> BulkReport:
    """Finish the run. Raises errors that every row would meet, ConfigurationError and StoreError; outcomes so far are
    kept, and the same call resumes from there.
    """
    _check_config(config)
    form = None if config.output is None else AnswerType[Any](config.output)
    if form is not None:
        config = replace(config, options=replace(config.options, output_schema=form.schema))
    row_reader = RowReader(config.template, config.system, config.labels)
    accounts = BudgetAccounts([*read_budget(config.budget), *config.client.budgets])
    accounts.check(*config.identity)
    prices = _prices(config)
    async with AsyncExitStack() as stack:
        requesters, worker_pool = _open_requesters(config, stack)
        models = [requester.model for requester in requesters]
        if len(set(models)) < len(models):
            raise ConfigurationError("a model is named twice: name each model once")
        manifest = Manifest(config.manifest, config.name)
        try:
            numbers = dict(zip(models, manifest.open_run(config.fingerprint(), models), strict=True))
            rows = await asyncio.to_thread(config.source.count)
            await asyncio.to_thread(row_reader.check, config.source)
            estimator = CostEstimator(prices)
            tracker = ProgressTracker(rows * len(models), config.progress)
            # Budgets per user, team or client do not count what earlier processes spent: it may be there already.
            spent = _restore(manifest, numbers, rows, tracker, estimator)
            resumed = tracker.begin()
            if worker_pool is not None:
                await worker_pool.start()
            write_batcher = WriteBatcher(manifest)
            stack.push_async_callback(write_batcher.close)

            def new_budgets() -> Budgets:
                of_row = accounts.for_turn(*config.identity, lambda: spent)
                return Budgets(of_row, prices, lambda: from_micros(now_micros()))

            schema = config.options.output_schema
            new_run = partial(
                ModelRun,
                config=config,
                row_reader=row_reader,
                write_batcher=write_batcher,
                tracker=tracker,
                estimator=estimator,
                new_budgets=new_budgets,
                prices=prices,
                form=AnswerJson(schema) if form is None and schema is not None else form,
            )
            runner = BatchRunner if config.batch else ModelRunner
            runners = [
                runner(new_run(requester=each, model_no=number, controller=config.controller(config.concurrency)))
                for each, number in zip(requesters, numbers.values(), strict=True)
            ]
            try:
                await _run_all(runners, config.source, tracker)
            except StoreError as error:
                raise write_batcher.explain(error) from error.__cause__
            finally:
                tracker.notify()
            has_labels = config.labels is not None or manifest.has_labels()
            columns = AnswerColumns(config.prefix, form, row_reader.known_labels if has_labels else None)
            summaries, agreement = summarize(manifest, numbers)
            result = BulkReport(
                row_count=rows,
                models=summaries,
                lost=sum_lost(manifest),
                agreement=agreement,
                stopped=tracker.stopped,
                cost_usd=sum_known(*(each.cost_usd for each in summaries)),
                resumed=resumed,
                _manifest=manifest,
                _source=config.source,
                _models=numbers,
                _columns=columns,
            )
            if config.to is not None:
                await asyncio.to_thread(write_rows, config.to, result, config.source, columns)
        except BaseException:
            await stack.aclose()  # first, because it may still write to the manifest
            manifest.close()
            raise
    return result


def _open_requesters(config: RunConfig, stack: AsyncExitStack) -> tuple[list[Requester], "WorkerPool | None"]:
    """Return a requester for each model, and the workers that send their requests, if this process does not. The stack
    closes them."""
    providers = merge_providers(config.client.providers or {}, read_providers(config.providers))
    aliases = None if config.client.router is None else config.client.router.aliases.custom
    names = [str(parse_model(model, aliases)) for model in config.models]
    models = [ModelConfig(name, config.options, providers.get(name.partition(":")[0], {})) for name in names]
    if config.ray is not None:
        from dragoman.bulk.workers import Cluster, WorkerPool

        worker_pool = WorkerPool(Cluster(config.ray, config.workers), models)
        stack.push_async_callback(worker_pool.close)
        return [Requester(each, partial(worker_pool.ask, index)) for index, each in enumerate(models)], worker_pool
    requesters: list[Requester] = []
    for each in models:
        requesters.append(requester := Requester(each))
        stack.push_async_callback(requester.close)
    return requesters, None


async def _run_all(runners: Sequence[ModelRunner], source: Source, tracker: ProgressTracker) -> None:
    """Run all models. The first failure stops the others, which finish their requests in flight."""

    async def run_one(runner: ModelRunner) -> None:
        try:
            await runner.run(source)
        except Exception:
            tracker.stopped = tracker.stopped or f"{runner.requester.model} failed"
            raise

    done = await asyncio.gather(*map(run_one, runners), return_exceptions=True)
    for failure in done:
        if isinstance(failure, BaseException):
            raise failure


def _restore(
    manifest: Manifest, numbers: Mapping[str, int], rows: int, tracker: ProgressTracker, estimator: CostEstimator
) -> Spend:
    """Restore what earlier processes did for each model. Return what they spent."""
    lost_usd = sum_lost(manifest).usd
    tracker.add_lost_cost(lost_usd)
    spent = Spend(lost_usd or Decimal(0))
    for model, number in numbers.items():
        counts, priced = count_outcomes(manifest, model, number)
        tracker.restore(model, rows, counts.answered + counts.errors, counts.errors, priced, counts.cost_usd)
        if counts.answered:
            estimator.observe_output_tokens(model, counts.output_tokens / counts.answered)
        usd = sum_known(counts.cost_usd, sum_batched(manifest, number))
        spent += Spend(usd or Decimal(0), counts.input_tokens + counts.output_tokens)
    return spent


def _prices(config: RunConfig) -> Prices:
    prices = config.prices if config.prices is not None else bundled_prices()
    if not config.batch:
        return prices
    if not isinstance(prices, PriceTable):
        raise ConfigurationError("batches need a price table: pass prices=price_table(...), or omit prices")
    return BatchPrices(prices)


def _check_config(config: RunConfig) -> None:
    if config.labels is not None and config.client.policy is None and config.client.router is None:
        raise ConfigurationError("labels are for a policy or a router: use a client that has one")
    if not config.models:
        raise ConfigurationError("a bulk run needs at least one model")
    check_output_retries(config.output_retries)
    if config.to is not None:
        validate_suffix(config.to)
    if config.ray is not None and config.batch:
        raise ConfigurationError("batch and ray cannot be combined: this process submits the batches itself")
    if config.ray is None and config.workers is not None:
        raise ConfigurationError("workers needs a Ray cluster: pass ray too")
    if config.options.stream or config.options.context is not None:
        raise RequestError("the options of a bulk run cannot have stream or context")


def read_budget(budget: Budget | Decimal | str | int | None) -> tuple[Budget, ...]:
    """Return the budget of a run, if it has one; a bare amount is US dollars. Raises ConfigurationError."""
    if budget is None:
        return ()
    resolved = budget if isinstance(budget, Budget) else Budget(usd=budget)
    if resolved.per != "session":
        raise ConfigurationError(f"a bulk run needs a budget per session, not per {resolved.per}")
    return (resolved,)
