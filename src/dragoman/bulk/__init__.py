"""Bulk runs: one prompt for each of many rows, sent to one or several models, and resumable after any interruption.

They need the extra ``dragoman[store]``, and ``dragoman[report]`` for Parquet.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dragoman.adapter.contract import AdapterOptions, Prices
from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.adapter.names import check_names, foreign_value
from dragoman.runtime import ClientConfig, ClientSettings, HasConfig, client_config
from dragoman.runtime.validation import check_settings
from dragoman.session.config import TurnOptions, merge_options
from dragoman.session.identity import Pseudonyms, resolve_identity
from dragoman.transport.settings import Providers, seal_keys

try:
    from dragoman.bulk.progress import Progress, ProgressCallback
    from dragoman.bulk.prompt import Labels
    from dragoman.bulk.report import BulkReport, LostRequests, ModelSummary
    from dragoman.bulk.rows import Prompts, open_source
    from dragoman.bulk.run import RunConfig, run_bulk
    from dragoman.bulk.vector_file import EmbeddedRows, embed_rows
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "sqlalchemy":
        raise
    raise MissingExtraError('bulk runs need SQLAlchemy: pip install "dragoman[store]"') from None

if TYPE_CHECKING:
    from dragoman.limits import Limits
    from dragoman.session import Budget

__all__ = ["BulkReport", "EmbeddedRows", "LostRequests", "ModelSummary", "Progress", "bulk", "bulk_async", "embed_rows"]


class BulkSettings(TurnOptions, total=False):
    """The settings of a bulk run, which `bulk` documents, and the options of each request."""

    template: str | None
    system: str | None
    to: str | Path | None
    output: Any
    manifest: str | Path | None
    name: str
    options: AdapterOptions | None
    client: ClientConfig | HasConfig | None
    providers: Providers | None
    labels: Labels | None
    user_id: str | None
    team_id: str | None
    pseudonyms: Pseudonyms | None
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
    """Send a prompt for every row to each model. Returns a report that reads the rows with their answers.

    ``prompts`` is a file (.jsonl, .csv, .parquet), a list of texts or of rows, or a function that returns the same rows
    on every call. ``template`` is the prompt, with {column} for a column of the row; the default is the column
    ``prompt``. ``system`` is a template, too. ``to`` is a file of one of these kinds: the rows in their order with
    the columns ``answer``, ``model``, ``cost`` (US dollars), ``tokens``, ``error`` and ``seconds``, each after
    ``prefix``.

    Options of a turn, such as ``max_output_tokens``, hold for each request; ``options`` has several as one object.
    ``output`` is the type of each answer, as in `Session.ask`. Its fields are columns, such as
    ``answer_name`` for a field ``name``; a type without fields has one, ``answer_value``. If an answer is not valid, or
    does not obey the ``output_schema``, the model is asked again, with every problem, at most
    ``output_retries`` times (1). Then the row is an error. Its cost is that of all its answers. A batch cannot ask
    again by itself, so such rows make another batch.

    ``manifest`` is an SQLite file or a database URL; the run in it has the name ``name``. The default is a file next to
    that of ``to``, or memory without one. The same call resumes an interrupted run: rows with an outcome in the
    manifest are not sent again, except errors with ``retry_errors``. Requests in flight when a process was killed are
    sent again; the report's ``lost`` counts them with their estimated cost.

    ``concurrency`` is the maximum of requests in flight for each model; the actual number adapts to what the provider
    accepts. ``limits`` (`dragoman.limits`) apply as well. ``budget``, US dollars or a `Budget`, applies to the whole
    run, and stops it. ``providers`` are settings as for a session. ``client`` is a `Client` or an `AsyncClient`, whose
    settings hold here too: its policy judges each prompt before it is sent and each answer before it is written, and a
    row that it denies is an error in its place; its budgets count the run as one session; its events and its store get
    each row as a session of its own. The default is the client of `set_default_client`. ``labels`` are the security
    labels of a row, for the policy and for the router's rules: the name of a column, or a function of the row.
    ``extensions`` are the facts for the plugins, in place of the client's.
    ``user_id`` and ``team_id`` say whose budgets pay for the run, and are stored with its rows; they and ``pseudonyms``
    are as for a `Session`.

    ``batch`` submits the rows to the provider's batch API; with ``wait=False`` a later call with the same arguments
    fetches the answers, otherwise this one polls every ``poll_every`` seconds. ``ray`` sends the requests from the
    workers of a Ray cluster: an address that `ray.init` takes, or ``local`` for a cluster on this machine that ends
    with the run; everything else stays in this process. ``workers`` is their number, by default one for each node.
    ``progress`` is called with a `Progress` at intervals.

    An error that concerns one row is stored in that row. Raises errors that every row would meet (AuthenticationError,
    MissingKeyError, UnpricedModelError), ConfigurationError and StoreError; outcomes so far are kept.
    """
    settings = seal_keys(settings)  # type: ignore[assignment]  # the same settings, before anything can fail
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(bulk_async(prompts, model, **settings))
    return _run_in_thread(lambda: bulk_async(prompts, model, **settings))


def _run_in_thread(start: Callable[[], Coroutine[Any, Any, BulkReport]]) -> BulkReport:
    """Run it on an event loop of its own: the caller's loop, such as that of a notebook, waits as for any sync call.

    An interrupt of the caller cancels the run, which waits for what is in flight.
    """
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def run() -> BulkReport:
        if (task := asyncio.current_task()) is not None:
            begun.append((asyncio.get_running_loop(), task))
        return await start()

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(copy_context().run, asyncio.run, run())
        try:
            return running.result()
        except KeyboardInterrupt:
            for loop, task in begun:
                loop.call_soon_threadsafe(task.cancel)
            raise


async def bulk_async(prompts: Prompts, model: str | Sequence[str], **settings: Unpack[BulkSettings]) -> BulkReport:
    """`bulk`, async. If cancelled, it sends nothing more, waits for requests in flight, and keeps their outcomes."""
    settings = seal_keys(settings)  # type: ignore[assignment]  # as in bulk
    arguments: dict[str, Any] = dict(settings)
    _check_arguments(arguments, model)
    client = client_config(arguments.pop("client", None)) or ClientConfig()
    if (extensions := arguments.pop("extensions", None)) is not None:
        client = client.with_(extensions=extensions)
    given = {name: arguments.get(name) for name in _SHARED}
    check_settings(given)
    shared = client.session_settings(given)
    arguments |= {name: shared[name] for name in _SHARED}
    to = None if arguments.get("to") is None else Path(arguments["to"])
    manifest = arguments.get("manifest")
    if manifest is None:
        manifest = "sqlite://" if to is None else to.with_name(to.name + ".manifest")
    retries = {name: arguments[name] for name in ("output_retries",) if name in arguments}
    turn: Any = {name: arguments.pop(name) for name in TurnOptions.__annotations__ if name in arguments}
    options = merge_options(arguments["options"] or AdapterOptions(), turn)
    named = (arguments.pop("user_id", None), arguments.pop("team_id", None), arguments.pop("pseudonyms", None))
    arguments["identity"] = resolve_identity(*named)
    arguments |= {"options": options, "to": to, "manifest": manifest, **retries}
    models = (model,) if isinstance(model, str) else tuple(model)
    config = RunConfig(source=open_source(prompts), models=models, client=client, **arguments)
    return await run_bulk(config)


_SHARED = ("options", "limits", "prices")
"""The settings that a client has as well."""


def _check_arguments(arguments: Mapping[str, Any], model: str | Sequence[str]) -> None:
    """Raise ConfigurationError for an unknown setting, and for a file in place of the type of an answer."""
    known = BulkSettings.__annotations__
    for name in arguments:
        if name in ClientSettings.__annotations__ and name not in known:
            raise ConfigurationError(f"{name} belongs to a client: bulk(..., client=Client({name}=...))")
    first = model if isinstance(model, str) else next(iter(model), "")
    check_names(arguments, known, "setting of a bulk run", provider=first.partition(":")[0] if ":" in first else None)
    if hint := isinstance(arguments.get("output"), (str, Path)) and foreign_value("output", arguments["output"], known):
        raise ConfigurationError(f"output is the type of the answers, and not a file{hint}")
