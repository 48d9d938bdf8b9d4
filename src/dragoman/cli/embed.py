"""`dragoman embed FILE`: a vector for each row of a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.io.client import base_url_setting, command_client
from dragoman.cli.io.console import console, counted


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
        out.print(
            f"{counted(found.rows, 'row')}, {counted(found.tokens, 'token')} {cost}: {found.output}", soft_wrap=True
        )


def _choice(option: str, value: str, allowed: tuple[str, ...]) -> str | None:
    if value not in allowed:
        raise ConfigurationError(f"{option} must be {', '.join(allowed)}, not {value!r:.40}")
    return None if value == "none" else value
