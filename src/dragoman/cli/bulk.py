"""`dragoman bulk FILE` sends one prompt for each row of a file to one or several models; `dragoman embed FILE` gets the
vector of each row.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.io.console import console, counted, print_table, show_line
from dragoman.cli.io.conversations import base_url_setting, command_client
from dragoman.cli.io.options import OutputRetries, SchemaFile, read_options

if TYPE_CHECKING:
    from dragoman.bulk import Progress

_WIDTH = 110
_UNFINISHED = 3
"""The exit code if rows are left; the same command resumes the run."""
_FAILED_ROWS = 4
"""The exit code if every row has an outcome, and some of them are errors."""
_INTERRUPTED = 130


def bulk(
    file: Annotated[Path, typer.Argument(help="The rows: .jsonl, .csv or .parquet.", exists=True, dir_okay=False)],
    model: Annotated[
        list[str], typer.Option("--model", "-m", help="provider:model; repeat the option to compare models.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The output file; the default is FILE.answers.jsonl (or the suffix of FILE)."
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            "--prompt", "-p", help="The prompt, with placeholders such as {column}; the default is the column prompt."
        ),
    ] = None,
    system: Annotated[str | None, typer.Option(help="A system prompt, with placeholders such as {column}.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of each request, e.g. top_p=0.9; -o is the output file."),
    ] = None,
    max_output_tokens: Annotated[int | None, typer.Option(help="The maximum number of tokens in an answer.")] = None,
    temperature: Annotated[float | None, typer.Option(help="The sampling temperature.")] = None,
    schema: SchemaFile = None,
    output_retries: OutputRetries = None,
    budget: Annotated[str | None, typer.Option(help="The maximum cost of the whole run in US dollars.")] = None,
    concurrency: Annotated[int, typer.Option(help="The maximum number of concurrent requests for each model.")] = 64,
    manifest: Annotated[
        str | None, typer.Option(help="A SQLite file or a database URL; the default is OUTPUT.manifest.")
    ] = None,
    name: Annotated[str, typer.Option(help="The run's name in a manifest that holds several.")] = "bulk",
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Send rows that ended in an error again.")
    ] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="Use the provider's batch API: cheaper, but it may take a day.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Wait for batches; otherwise the same command fetches them later.")] = True,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="The address of a Ray cluster whose workers send the requests; local starts one here.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="The number of workers in the cluster; the default is one for each node.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="The column with the security labels of each row, for a policy or a router.")
    ] = None,
    prefix: Annotated[str, typer.Option(help="A prefix for the names of the added columns.")] = "",
    base_url: Annotated[str | None, typer.Option(help="A base URL for the first model's provider.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Sends a prompt for each row of a file, and writes the rows with their answers in the same order.

    The same command resumes an interrupted run, and pays for no answer twice.
    """
    if output is not None and not output.suffix and "=" in output.name:
        raise ConfigurationError(f"-o is the output file here: write --option {output.name:.80}")
    output_path = output or file.with_name(f"{file.stem}.answers{file.suffix}")
    client = command_client(base_url_setting(model[0], base_url))
    options = read_options(
        option or (), max_output_tokens=max_output_tokens, schema=schema, output_retries=output_retries
    )
    if temperature is not None:
        options["temperature"] = temperature
    with _show_progress(console(stderr=True), quiet) as progress:
        report = client.bulk(
            file,
            model,
            template=template,
            system=system,
            to=output_path,
            manifest=manifest,
            name=name,
            labels=labels,
            concurrency=concurrency,
            budget=budget,
            retry_errors=retry_errors,
            batch=batch,
            wait=wait,
            ray=ray,
            workers=workers,
            prefix=prefix,
            progress=progress,
            **options,
        )
    with report:
        out = console(min_width=_WIDTH)
        titles, *rows = report.table_rows()
        print_table(out, titles, rows, figures=titles[1:])
        lost = report.lost
        if count := lost.killed + lost.network + lost.failed:
            cost = "at an unknown cost" if lost.usd is None else f"about ${lost.usd:.6f}"
            out.print(f"[yellow]{counted(count, 'request')} may have been billed without an answer[/], {cost}")
        if report.stopped is not None:
            out.print(f"[yellow]not finished:[/] {show_line(report.stopped)}")
        elif report.errors:
            out.print(f"[yellow]{counted(report.errors, 'error')}[/]: --retry-errors asks those rows again")
        out.print(f"[dim]written to {show_line(str(output_path))}[/]")
        if not report.finished:
            raise typer.Exit(_UNFINISHED)
        if report.errors:
            raise typer.Exit(_FAILED_ROWS)


@contextmanager
def _show_progress(out: Console, quiet: bool) -> Iterator[Any]:
    """A progress line during the run. Says first what an earlier run has left, and where the run is if it is
    interrupted."""
    last: list[Progress] = []

    def show(progress: "Progress") -> None:
        if not last and progress.resumed and not quiet:
            words = f"continues a run: {progress.resumed:,} of {progress.total:,} answers were there"
            errors = f", {counted(progress.errors, 'error')} among them" if progress.errors else ""
            out.print(f"[dim]{words}{errors}[/]")
        last[:] = [progress]
        if line is not None:
            line.update(show_line(progress_line(progress)))

    with nullcontext() if quiet else out.status("reading the rows") as line:
        try:
            yield show
        except KeyboardInterrupt:
            where = progress_line(replace(last[0], rate=None)) if last else "nothing was answered"
            out.print(f"[yellow]interrupted:[/] {show_line(where)}; the same command continues")
            raise typer.Exit(_INTERRUPTED) from None


def progress_line(progress: "Progress") -> str:
    """The progress of a run as one line."""
    parts = [f"{progress.done:,} of {progress.total:,}"]
    if progress.errors:
        parts.append(counted(progress.errors, "error"))
    if progress.rate is not None:
        parts.append(f"{progress.rate:,.1f} per second")
    if progress.cost_usd is not None:
        parts.append(f"${progress.cost_usd:.4f}")
    if progress.projected_cost_usd is not None:
        parts.append(f"about ${progress.projected_cost_usd:.4f} at the end")
    if progress.seconds_left is not None:
        minutes, seconds = divmod(round(progress.seconds_left), 60)
        parts.append(f"{minutes}:{seconds:02} left")
    return " · ".join(parts)


def embed(
    file: Annotated[Path, typer.Argument(help="The rows: .jsonl, .csv or .parquet.", exists=True, dir_okay=False)],
    model: Annotated[str, typer.Option("--model", "-m", help="provider:model, an embedding model.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A .parquet or .jsonl file; the default is FILE.vectors.parquet."),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--text", "-t", help="The text, with placeholders such as {column}; the default is {text}."),
    ] = None,
    dimensions: Annotated[int | None, typer.Option(help="The length of a vector, if the model has several.")] = None,
    purpose: Annotated[str, typer.Option(help="document, query or none.")] = "document",
    truncate: Annotated[
        str | None, typer.Option(help="end or start: what to leave out of a text that is too long.")
    ] = None,
    column: Annotated[str, typer.Option(help="The name of the column with the vectors.")] = "embedding",
    concurrency: Annotated[int, typer.Option(help="The maximum number of concurrent requests.")] = 8,
    base_url: Annotated[str | None, typer.Option(help="A base URL for the model's provider.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Writes the rows of a file in their order, each with its vector: a list of 32-bit floats.

    The same command resumes an interrupted run, and pays for no vector twice.
    """
    from dragoman.bulk import embed_rows

    options: dict[str, Any] = {
        "purpose": _choice("--purpose", purpose, ("document", "query", "none")),
        "truncate": truncate and _choice("--truncate", truncate, ("end", "start")),
    }
    out = console(stderr=True)
    with out.status("embedding the rows") as line:
        found = embed_rows(
            file,
            model,
            to=output or file.with_name(f"{file.stem}.vectors.parquet"),
            template=template,
            dimensions=dimensions,
            column=column,
            concurrency=concurrency,
            client=command_client(base_url_setting(model, base_url)),
            progress=None if quiet else lambda done: line.update(counted(done, "row")),
            **options,
        )
    if not quiet:
        cost = "at an unknown cost" if found.cost_usd is None else f"for ${found.cost_usd:.6f}"
        out.print(f"{counted(found.rows, 'row')}, {counted(found.tokens, 'token')} {cost}: {found.output}")


def _choice(option: str, value: str, allowed: tuple[str, ...]) -> str | None:
    if value not in allowed:
        raise ConfigurationError(f"{option} must be {', '.join(allowed)}, not {value!r:.40}")
    return None if value == "none" else value
