"""`dragoman convert SOURCE TARGET --to SHAPE`: converts conversations between formats, and lists the losses."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.cli.convert.files import (
    LineWriter,
    Report,
    check_writable,
    convert_history,
    is_line_target,
    iter_conversations,
    iter_files,
    plan_targets,
    readable_formats,
    writable_formats,
    write_file,
)
from dragoman.cli.io.console import console, counted, show_line
from dragoman.cli.io.inputs import check_regular

_WRITABLE, _READABLE = ", ".join(writable_formats()), ", ".join(readable_formats())

_SMALL = 4 * 1024 * 1024
"""Bytes of files that are converted without showing the progress."""


def convert(
    source: Annotated[Path, typer.Argument(help="A file, or a directory of them.")],
    to: Annotated[
        str, typer.Option("--to", help=f"The format to write: {', '.join(writable_formats())}, or a provider.")
    ],
    target: Annotated[
        Path | None,
        typer.Argument(help="A file; a file of lines (.jsonl) or a directory for several conversations."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The target, as an option.")] = None,
    of: Annotated[
        str | None,
        typer.Option("--from", help=f"The format to read: {_READABLE}, or a provider; detected by default."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's name, for a provider's message lists.")] = None,
    only: Annotated[str | None, typer.Option(help="The name of one conversation, if the source holds several.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite existing files.")] = False,
) -> None:
    """Converts conversations between common formats. Content that a format cannot carry is listed.

    In a directory every file is tried. A target with the suffix .jsonl gets one conversation a line, from all files.
    Files and lines that cannot be converted are named, and the exit code is then 1.
    """
    check_writable(to)
    if (target is None) == (output is None):
        raise ConfigurationError("name one target: as the second argument, or with --output")
    destination = target if target is not None else output
    assert destination is not None
    if not source.is_dir():
        check_regular(source)
    files = list(iter_files(source, destination)) if source.is_dir() else [source]
    if not files:
        raise ConfigurationError(f"the folder {str(source)!r} has no file that can be converted")
    report = Report()
    with pause_collector(), _progress(files, report):
        if is_line_target(destination, to):
            _to_lines(
                files, destination, report, of=of, to=to, model=model, only=only, overwrite=overwrite,
                is_folder=source.is_dir(),
            )  # fmt: skip
        elif source.is_dir():
            _to_directory(files, source, destination, report, of=of, to=to, model=model, overwrite=overwrite)
        else:
            _to_files(source, destination, report, of=of, to=to, model=model, only=only, overwrite=overwrite)
    report.losses.print(console())
    for failure in report.failures:
        console(stderr=True).print(f"[red]{show_line(failure.place)}[/]: {show_line(failure.reason)}", soft_wrap=True)
    if report.failed > len(report.failures):
        console(stderr=True).print(f"[red]and {report.failed - len(report.failures):,} more[/]")
    if report.failed:
        raise typer.Exit(1)


@contextmanager
def _progress(files: list[Path], report: Report) -> Iterator[None]:
    """Show how many of the bytes have been read, if there are several files or a large one."""
    size = sum(path.stat().st_size for path in files)
    columns = (TextColumn("converting"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True, disable=size < _SMALL) as progress:
        task = progress.add_task("converting", total=size)
        report.advance = lambda count: progress.advance(task, count)
        yield


def _to_files(
    source: Path, target: Path, report: Report, *, of: str | None, to: str, model: str | None, only: str | None,
    overwrite: bool,
) -> None:  # fmt: skip
    """Convert one file to a file, or to a directory of them."""
    for name, history, path in plan_targets(
        source, target, source_format=of, to=to, model=model, only=only, report=report
    ):
        conversion = convert_history(history, to, model)
        write_file(conversion, path, overwrite=overwrite)
        report.losses.add(conversion.losses)
        console().print(
            f"{show_line(name)} → {show_line(str(path))}, {counted(len(history), 'message')}", soft_wrap=True
        )


def _to_lines(
    files: list[Path], target: Path, report: Report, *, of: str | None, to: str, model: str | None, only: str | None,
    overwrite: bool, is_folder: bool,
) -> None:  # fmt: skip
    """Convert all conversations of the files to the lines of one file."""
    failed_files = 0
    with LineWriter(target, to, model, overwrite=overwrite) as writer:
        for path in files:
            try:
                for conversation in iter_conversations(path, of, model, report):
                    if only is not None and conversation.name != only:
                        continue
                    try:
                        report.losses.add(writer.write(conversation.messages))
                    except DragomanError as error:  # such as a block marked critical, which the format cannot hold
                        report.fail(f"{path}: {conversation.name}", error)
            except (DragomanError, OSError) as error:
                if not is_folder:
                    raise
                failed_files += 1
                report.fail(str(path), error)
        if not writer.count and not report.failed:
            raise ConfigurationError(f"{files[0]} holds no conversation" + (f" {only!r:.80}" if only else ""))
    failed = f", {report.failed - failed_files:,} lines and {failed_files:,} files failed" if report.failed else ""
    console().print(f"{writer.count:,} conversations → {show_line(str(target))}{failed}", soft_wrap=True)


def _to_directory(
    files: list[Path], source: Path, target: Path, report: Report, *, of: str | None, to: str, model: str | None,
    overwrite: bool,
) -> None:  # fmt: skip
    """Convert every file below the source to the same path below the target."""
    written: set[Path] = set()
    failed_files = 0
    for path in files:
        try:
            base = (target / path.relative_to(source)).with_suffix("")
            for _, history, destination in plan_targets(
                path, base, source_format=of, to=to, model=model, only=None, report=report, named=False
            ):
                conversion = convert_history(history, to, model)
                write_file(conversion, destination, overwrite=overwrite and destination not in written)
                report.losses.add(conversion.losses)
                written.add(destination)
        except (DragomanError, OSError) as error:
            failed_files += 1
            report.fail(str(path), error)
    console().print(
        f"{len(written):,} conversations of {len(files) - failed_files:,} files converted, "
        f"{failed_files:,} files failed"
    )


@contextmanager
def pause_collector() -> Iterator[None]:
    """Collect no cycles. Reading a long conversation makes none, and the collector would visit its messages often."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
