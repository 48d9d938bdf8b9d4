"""Bulk runs: one prompt for each of many rows, put to one model or to several, and resumed wherever they were cut off.

They need the extra ``dragoman[store]``, and Parquet ``dragoman[report]``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from dragoman.adapter.contract import AdapterOptions, Prices
from dragoman.adapter.errors import ConfigurationError, MissingExtraError

try:
    from dragoman.bulk.progress import Progress, ProgressCallback
    from dragoman.bulk.report import BulkReport, LostRequests, ModelSummary
    from dragoman.bulk.rows import Prompts, open_source
    from dragoman.bulk.run import RunConfig, run_bulk
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "sqlalchemy":
        raise
    raise MissingExtraError('bulk runs need SQLAlchemy: pip install "dragoman[store]"') from None

if TYPE_CHECKING:
    from dragoman.limits import Limits
    from dragoman.session import Budget

__all__ = ["BulkReport", "LostRequests", "ModelSummary", "Progress", "bulk", "bulk_async"]


class BulkSettings(TypedDict, total=False):
    """How a bulk run is done; see `bulk` for each."""

    template: str | None
    system: str | None
    output: str | Path | None
    manifest: str | Path | None
    name: str
    options: AdapterOptions
    providers: Mapping[str, Mapping[str, Any]]
    concurrency: int
    limits: "Limits | None"
    budget: "Budget | Decimal | str | int | None"
    retry_errors: bool
    batch: bool
    wait: bool
    poll_every: float
    ray: str | None
    workers: int | None
    prefix: str
    prices: Prices | None
    progress: ProgressCallback | None


def bulk(prompts: Prompts, model: str | Sequence[str], **settings: Unpack[BulkSettings]) -> BulkReport:
    """Asks a model, or each of several, once for every row, and gives a report that reads the rows with their answers.

    ``prompts`` is a file (.jsonl, .csv, .parquet), a list of texts or of rows, or a function that gives them anew.
    ``template`` is what is said, with {column} for what the row has there: without it the column ``prompt`` is.
    ``system`` is a template, too. ``output`` is a file of one of these kinds: the rows in their order with the columns
    ``answer``, ``model``, ``cost`` (US dollars), ``tokens``, ``error`` and ``seconds``, each after ``prefix``.

    ``manifest`` is a file of SQLite or the URL of a database; the run in it is called ``name``. Without one it lies
    beside the output, and without that in memory. The same call goes on with a run that was cut off: no row is asked
    again whose outcome is in the manifest, but errors are, with ``retry_errors``. What was under way when a process was
    killed is asked again, and counted in the report's ``gone`` with a guess at its cost.

    ``concurrency`` is the most requests under way at once for each model: how many there are follows what the provider
    takes and says. ``limits`` (`dragoman.limits`) hold besides. ``budget``, US dollars or a `Budget`, is for the whole
    run, and stops it. ``providers`` are settings as for a session. ``batch`` hands the rows to the provider's batches;
    with ``wait=False`` the same call fetches the answers another time, otherwise it asks every ``poll_every`` seconds.
    ``ray`` has the workers of a cluster ask, at the address that `ray.init` takes, or of one of this machine for the
    time of the run (``local``); all else stays in this process. There are ``workers`` of them, or one for each node.
    ``progress`` is told a `Progress` now and then.

    An error of one row is in its row. Raises what every row would meet (AuthenticationError, MissingKeyError,
    UnpricedModelError), ConfigurationError and StoreError; the outcomes so far are kept.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(bulk_async(prompts, model, **settings))
    raise ConfigurationError("an event loop is running here: await bulk_async(...)")


async def bulk_async(prompts: Prompts, model: str | Sequence[str], **settings: Unpack[BulkSettings]) -> BulkReport:
    """As `bulk`, with await. Cancelled, it sends nothing more, waits for what is under way, and keeps it."""
    arguments: dict[str, Any] = dict(settings)
    output = None if arguments.get("output") is None else Path(arguments["output"])
    manifest = arguments.get("manifest")
    if manifest is None:
        manifest = "sqlite://" if output is None else output.with_name(output.name + ".manifest")
    models = (model,) if isinstance(model, str) else tuple(model)
    try:
        config = RunConfig(
            source=open_source(prompts), models=models, **{**arguments, "output": output, "manifest": manifest}
        )
    except TypeError as error:
        raise ConfigurationError(f"the settings of the run do not fit: {error}") from None
    return await run_bulk(config)
