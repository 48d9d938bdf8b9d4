"""`dragoman store …`: commands for a whole store."""

from datetime import date, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from dragoman.cli.io.console import console

app = typer.Typer(help="Export a store for reports, or distribute it over a cluster.", no_args_is_help=True)

_DAY = ["%Y-%m-%d"]


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="The folder for the files: FOLDER/day=2026-11-21/part-0.parquet.")],
    store: Annotated[
        str | None,
        typer.Option("--store", "-s", help="A SQLite file or a database URL; the default is your own store."),
    ] = None,
    since: Annotated[datetime | None, typer.Option(help="The first day, in UTC.", formats=_DAY)] = None,
    until: Annotated[datetime | None, typer.Option(help="The first day after, in UTC.", formats=_DAY)] = None,
    text: Annotated[bool, typer.Option("--text", help="Include the texts.")] = False,
    overwrite: Annotated[bool, typer.Option("--all", help="Also write days that have not changed.")] = False,
) -> None:
    """Writes the usage and cost of each reply as Parquet, one file per day, for `dragoman cost FOLDER`.

    Run it again to update the days that have changed.
    """
    from dragoman.store import Store  # the extra is needed only by this command

    with Store(_url(store), read_only=True) as opened_store:
        result = opened_store.export_replies(
            folder, since=_day(since), until=_day(until), text=text, overwrite=overwrite
        )
    parts = [
        f"{len(result.written):,} days written, with {result.replies:,} replies",
        f"{len(result.unchanged):,} unchanged",
    ]
    if result.removed:
        parts.append(f"{len(result.removed):,} removed")
    console().print(f"{', '.join(parts)}: {escape(str(folder))}", soft_wrap=True)


@app.command()
def citus() -> None:
    """Prints the SQL that distributes a store over a Citus cluster: `dragoman store citus | psql URL`."""
    from dragoman.store import citus_statements

    for statement in citus_statements():
        typer.echo(f"{statement};")


def _day(at: datetime | None) -> date | None:
    return None if at is None else at.date()


def _url(name: str | None) -> str | None:
    return name if name is None or "://" in name else f"sqlite:///{name}"
