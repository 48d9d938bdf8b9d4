"""`dragoman cassette …`: lists, shows, checks, scrubs and imports cassette files."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.io.console import console, print_table
from dragoman.cli.io.inputs import check_regular
from dragoman.private_files import create_private_folder, open_private

if TYPE_CHECKING:
    from dragoman.testing.cassettes.file import Recording

app = typer.Typer(help="List, show, check, scrub and import cassettes.", no_args_is_help=True)

Paths = Annotated[list[Path], typer.Argument(help="Cassette files, or folders of them.")]


@app.command("list")
def list_(paths: Paths) -> None:
    """One line per file: the number of exchanges, the providers, the date."""
    from dragoman.testing.cassettes.file import read_recording

    rows = []
    for path, _ in _iter_files(paths):
        recording = read_recording(path)
        operations = ", ".join(dict.fromkeys(_operations(recording)))
        exchanges, recorded = str(len(recording.exchanges)), str(recording.recorded or "")
        rows.append((str(path), exchanges, recording.server, recorded, operations))
    print_table(console(min_width=120), ("file", "exchanges", "server", "recorded", "requests"), rows)


@app.command()
def show(path: Annotated[Path, typer.Argument(help="A cassette file.")]) -> None:
    """Shows the requests and replies of a cassette as text."""
    from dragoman.testing.cassettes.file import describe_reply, read_recording

    check_regular(path)
    out, recording = console(), read_recording(path)
    for number, (exchange, operation) in enumerate(zip(recording.exchanges, _operations(recording), strict=True), 1):
        out.print(f"{number}. {operation} -> {exchange.response.status}", style="bold", markup=False)
        out.print(describe_reply(exchange) or f"({len(exchange.response.body)} bytes)", markup=False)


@app.command()
def check(
    paths: Paths,
    days: Annotated[int, typer.Option(help="Report recordings older than this number of days as stale.")] = 180,
    strict: Annotated[bool, typer.Option(help="Also fail for stale files and unreadable replies.")] = False,
) -> None:
    """Checks every file: secrets and damage fail, stale recordings are reported."""
    from dragoman.testing.cassettes.check import check as remarks
    from dragoman.testing.cassettes.vcrpy import today

    out, failed, count = console(), False, 0
    for path, _ in _iter_files(paths):
        count += 1
        for remark in remarks(path, today(), days):
            failed = failed or remark.is_serious or strict
            out.print(f"{path}: {remark.kind}: {remark.text}", markup=False)
    out.print(f"{count} files checked")
    raise typer.Exit(1 if failed else 0)


@app.command()
def scrub(paths: Paths) -> None:
    """Masks, in place, what looks like a secret. A clean file is not touched."""
    from dragoman.testing.cassettes.file import dumps, read_recording, scrub_recording
    from dragoman.testing.cassettes.leaks import find_leaks
    from dragoman.testing.cassettes.secrets import Scanner

    scanner = Scanner()
    for path, _ in _iter_files(paths):
        recording = read_recording(path)
        if found := find_leaks(recording.exchanges, scanner):
            path.write_text(dumps(scrub_recording(recording)), encoding="utf-8")
            console().print(f"{path}: {len(found)} masked", markup=False)


@app.command("import")
def import_(
    paths: Annotated[list[Path], typer.Argument(help="Files of vcrpy, pydantic-ai, LangChain or Ruby's VCR.")],
    into: Annotated[Path, typer.Option(help="The folder for the new cassettes.")],
    clean: Annotated[bool, typer.Option("--scrub", help="Mask apparent secrets instead of refusing the file.")] = False,
) -> None:
    """Converts cassettes of other recorders to ours."""
    from dragoman.testing.cassettes.file import dumps, scrub_recording
    from dragoman.testing.cassettes.importer import SUFFIXES, import_recording

    out = console()
    for path, relative in _iter_files(paths, SUFFIXES):
        recording = import_recording(path)
        text = dumps(scrub_recording(recording) if clean else recording)
        target = into / relative.with_name(relative.name.removesuffix(".gz")).with_suffix(".yaml")
        create_private_folder(target.parent)
        with open(target, "w", encoding="utf-8", opener=open_private) as file:
            file.write(text)
        out.print(f"{target}: {len(recording.exchanges)} exchanges", markup=False)


def _iter_files(paths: list[Path], suffixes: tuple[str, ...] = (".yaml",)) -> Iterator[tuple[Path, Path]]:
    """The named files, and those in the named folders, each with its path relative to the folder. Raises
    ConfigurationError if one does not exist."""
    for path in paths:
        if not path.exists():
            raise ConfigurationError(f"{path} does not exist")
        if not path.is_dir():
            check_regular(path)
            yield path, Path(path.name)
            continue
        for file in sorted(path.rglob("*")):
            if file.name.endswith(suffixes) and file.is_file():
                yield file, file.relative_to(path)


def _operations(recording: "Recording") -> Iterator[str]:
    from dragoman.testing.cassettes.exchange import request_target

    for exchange in recording.exchanges:
        wire = request_target(exchange.request)
        provider = exchange.request.provider or wire.wire_owner or "unknown"
        yield f"{provider} {wire.operation}"
