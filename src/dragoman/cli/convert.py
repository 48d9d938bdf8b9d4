"""`dragoman convert SOURCE TARGET --to SHAPE`: converts conversations between formats, and lists the losses."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.adapter.losses import Loss, Severity
from dragoman.cli.io.collector import pause_collector
from dragoman.cli.io.console import console
from dragoman.cli.io.conversation_files import (
    check_writable,
    convert_history,
    iter_files,
    plan_targets,
    readable_formats,
    writable_formats,
    write_file,
)
from dragoman.cli.io.regular_files import check_regular

_MAX_REASONS = 12
_WRITABLE, _READABLE = ", ".join(writable_formats()), ", ".join(readable_formats())


def convert(
    source: Annotated[Path, typer.Argument(help="A file, or a directory of them.")],
    target: Annotated[Path, typer.Argument(help="A file, or a directory for several conversations.")],
    to: Annotated[
        str, typer.Option("--to", help=f"The format to write: {', '.join(writable_formats())}, or a provider.")
    ],
    of: Annotated[
        str | None,
        typer.Option("--from", help=f"The format to read: {_READABLE}, or a provider; detected by default."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's name, for a provider's message lists.")] = None,
    only: Annotated[str | None, typer.Option(help="The name of one conversation, if the source holds several.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite existing files.")] = False,
) -> None:
    """Converts conversations between common formats. Content that a format cannot carry is listed.

    In a directory every file is tried; those that cannot be converted are named, and the exit code is then 1.
    """
    out = console()
    check_writable(to)
    if not source.is_dir():
        check_regular(source)
        losses: list[Loss] = []
        with pause_collector():
            for name, history, path in plan_targets(
                source, target, source_format=of, to=to, model=model, only=only, losses=losses
            ):
                conversion = convert_history(history, to, model)
                write_file(conversion, path, overwrite=overwrite)
                losses += conversion.losses
                out.print(f"{escape(name)} → {escape(str(path))}, {len(history)} messages", soft_wrap=True)
        _print_losses(losses)
        return
    failed = _convert_directory(source, target, of=of, to=to, model=model, overwrite=overwrite)
    for path, reason in failed:
        console(stderr=True).print(f"[red]{escape(str(path))}[/]: {escape(reason)}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _convert_directory(
    source: Path, target: Path, *, of: str | None, to: str, model: str | None, overwrite: bool
) -> list[tuple[Path, str]]:
    """Convert every file below the source to the same path below the target. Return the failures with their reasons."""
    failed: list[tuple[Path, str]] = []
    losses: list[Loss] = []
    files = list(iter_files(source, target))
    if not files:
        raise ConfigurationError(f"the folder {str(source)!r} has no file that can be converted")
    written_paths: set[Path] = set()
    for path in track(files, "converting", console=console(stderr=True), transient=True):
        try:
            base = (target / path.relative_to(source)).with_suffix("")
            for _, history, destination in plan_targets(
                path, base, source_format=of, to=to, model=model, only=None, losses=losses, named=False
            ):
                conversion = convert_history(history, to, model)
                write_file(conversion, destination, overwrite=overwrite and destination not in written_paths)
                losses += conversion.losses
                written_paths.add(destination)
        except (DragomanError, OSError) as error:
            failed.append((path, str(error)))
    converted_count = len(files) - len(failed)
    console().print(
        f"{len(written_paths):,} conversations of {converted_count:,} files converted, {len(failed):,} files failed"
    )
    _print_losses(losses)
    return failed


def _print_losses(losses: Sequence[Loss]) -> None:
    """The losses by reason, the most severe first."""
    out = console()
    if not losses:
        out.print("[green]nothing was lost[/]")
        return
    counts = Counter((loss.severity, str(loss.kind), loss.reason) for loss in losses)
    rows = sorted(counts.items(), key=lambda row: (row[0][0] is not Severity.WARNING, -row[1], row[0]))
    table = Table("lost", "", "what", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for (severity, kind, reason), times in rows[:_MAX_REASONS]:
        style = "yellow" if severity is Severity.WARNING else "dim"
        table.add_row(escape(kind), f"{times:,}", escape(reason), style=style)
    out.print(table)
    if len(rows) > _MAX_REASONS:
        rest = sum(times for _, times in rows[_MAX_REASONS:])
        out.print(f"[dim]and {rest:,} more, of {len(rows) - _MAX_REASONS} kinds[/]")
