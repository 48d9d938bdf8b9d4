"""Bulk runs: one prompt for each of many rows, sent to one or several models, and resumable after any interruption.

They need the extra ``dragoman[store]``, and ``dragoman[report]`` for Parquet.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any, Unpack

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.adapter.names import check_names, foreign_value
from dragoman.configuration import ClientConfig, ClientSettings, client_config
from dragoman.configuration.validation import check_settings
from dragoman.session.config import TurnOptions, merge_options
from dragoman.transport.settings import seal_keys

try:
    from dragoman.bulk.config import RunConfig
    from dragoman.bulk.progress import Progress
    from dragoman.bulk.report import BulkReport, LostRequests, ModelSummary
    from dragoman.bulk.rows import Prompts, open_source
    from dragoman.bulk.run import run_bulk
    from dragoman.bulk.settings import RunSettings
    from dragoman.bulk.vector_file import EmbeddedRows, embed_rows
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] != "sqlalchemy":
        raise
    raise MissingExtraError('bulk runs need SQLAlchemy: pip install "dragoman[store]"') from None

__all__ = ["BulkReport", "EmbeddedRows", "LostRequests", "ModelSummary", "Progress", "bulk", "bulk_async", "embed_rows"]


class BulkSettings(RunSettings, TurnOptions, total=False):
    """The settings of a bulk run, and the options of each request."""


def bulk(prompts: Prompts, model: str | Sequence[str], **settings: Unpack[BulkSettings]) -> BulkReport:
    """Send a prompt for every row to each model. Returns a report that reads the rows with their answers.

    ``prompts`` is a file (.jsonl, .csv, .parquet), a list of texts or of rows, or a function that returns the same rows
    on every call. The rows of ``to`` keep their order, and have the columns ``answer``, ``model``, ``cost`` (US
    dollars), ``tokens``, ``error`` and ``seconds``, each after ``prefix``.

    The fields of an ``output`` are columns such as ``answer_name`` for a field ``name``; a type without fields has one,
    ``answer_value``. If an answer is not valid, or does not obey the ``output_schema``, the model is asked again, with
    every problem, at most ``output_retries`` times. Then the row is an error. Its cost is that of all its answers. A
    batch cannot ask again by itself, so such rows make another batch.

    The same call resumes an interrupted run: rows with an outcome in the manifest are not sent again. Without ``to``
    and ``manifest``, the manifest is in memory. Requests in flight when a process was killed are sent again; the
    report's ``lost`` counts them with their estimated cost.

    The policy of the client judges each prompt before it is sent and each answer before it is written, and a row that
    it denies is an error in its place; its budgets count the run as one session; its events and its store get each row
    as a session of its own. With ``ray``, the workers send the requests, and everything else stays in this process.
    ``extensions`` stand in place of those of the client.

    An error that concerns one row is stored in that row. Raises errors that every row would meet (AuthenticationError,
    MissingKeyError, UnpricedModelError), ConfigurationError and StoreError; outcomes so far are kept.

    Args:
        template: The prompt, with {column} for a column of the row; by default that of the column ``prompt``.
        system: The system prompt, a template too.
        output: The type of each answer, as in `Session.ask`.
        to: The file for the rows with their answers: .jsonl, .csv or .parquet.
        prefix: Precedes the names of the columns that the run adds, such as ``answer`` and ``cost``.
        progress: Is called with a `Progress` at intervals.

        manifest: The SQLite file or database URL that a run is resumed from; by default a file next to that of ``to``.
        name: The name of the run in its manifest.
        retry_errors: Whether a resumed run sends rows again that were errors.

        options: The options of each request, as one object.
        client: The client, whose settings hold here too; by default the one of `set_default_client`, if any.
        providers: The settings of each provider, such as its key; see `ProviderSettings`.
        concurrency: The maximum of requests in flight for each model.
        limits: Delay each request until it may start.
        budget: What the whole run may spend, US dollars or a `Budget`.
        prices: The price table; None is the bundled one.

        labels: The security labels of a row: the name of a column, or a function of the row.
        user_id: The user whose budgets pay for the run.
        team_id: The team whose budgets pay for the run.
        pseudonyms: Turns the ids of users and teams into pseudonyms, with a key of the program.

        batch: Whether the rows are submitted to the provider's batch API.
        wait: Whether the call waits for its batches.
        poll_every: The seconds between two looks at a batch.
        ray: Sends the requests from a Ray cluster: an address that `ray.init` takes, or ``local`` for one on this
            machine.
        workers: The number of workers of the Ray cluster, by default one for each node.

        max_output_tokens: The most tokens of a reply, reasoning included.
        temperature: How random the choice of each token is: from 0, the least, up to 1 or 2, by provider.
        top_p: Choose among the most likely tokens only: those that together have this probability.
        top_k: Choose among this many of the most likely tokens.
        frequency_penalty: Makes tokens less likely the more often they occurred, usually from -2 to 2.
        presence_penalty: Makes tokens less likely that occurred at all, usually from -2 to 2.
        seed: Makes replies repeatable, as far as the provider can.
        stop_sequences: Texts that end the reply when the model writes one of them.

        tool_choice: Whether the model may call tools, must not or must; a `NamedTool` must be called.
        parallel_tool_calls: Whether one reply may call several tools.
        output_schema: A JSON Schema that the answer's text obeys.

        effort: Reasoning effort: none, minimal, low, medium, high, xhigh or max.
        thinking: Whether to reason, and to return the reasoning if the model hides it by default.
        thinking_budget: The limit of reasoning tokens, for models that accept a budget.

        prompt_cache: Request prompt caching with that lifetime, if caching is not automatic.
        service_tier: How fast and at which price to serve: auto, standard, flex or priority, or a word of the
            provider's own.
        verbosity: How long the answer should be.
        reasoning_summary: How much of the reasoning to return as a summary: auto, concise or detailed.

        user: An id of your end user by which a provider recognises abuse.
        metadata: Labels that the provider stores with the request, such as for its bill.
        safety: How much the provider's own filter of harmful content blocks.
        logprobs: Return the log probability of each token of the answer, and of this many alternatives to it.

        server_state: Continue the history that the provider stores, and send only what is new.
        background: Let the provider work on the reply without an open connection, and ask for it until it has ended.
        n: How many answers to the same prompt to return: the first one is the message, the others are its
            `alternatives`.
        num_ctx: The context window that a local server reserves, in tokens.
        keep_alive: How long a local server keeps the model in memory, such as ``10m``, or seconds.

        strict_prefix: Raise ProjectionError for a request that would void signed thinking of earlier turns.
        headers: Headers by provider name.
        extra: Body fields by provider name; no other provider receives them.

        output_retries: How often a model is asked again if its answer is not of the requested type, by default once.
        partial_strings: Whether a stream shows the strings of a typed answer as they arrive, and not only at their end.
        extensions: The program's facts about this turn for the plugins.
    """
    settings = seal_keys(settings)  # type: ignore[assignment]  # the same settings, before anything can fail
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(bulk_async(prompts, model, **settings))
    # On an event loop of its own: the caller's loop, such as that of a notebook, waits as for any sync call.
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def run() -> BulkReport:
        if (task := asyncio.current_task()) is not None:
            begun.append((asyncio.get_running_loop(), task))
        return await bulk_async(prompts, model, **settings)

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(copy_context().run, asyncio.run, run())
        try:
            return running.result()
        except KeyboardInterrupt:  # it cancels the run, which waits for what is in flight
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
