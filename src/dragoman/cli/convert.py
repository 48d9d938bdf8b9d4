"""`dragoman convert SOURCE TARGET --to SHAPE`: converts conversations between formats, and lists the losses.

It never overwrites a file silently.
"""

import gc
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from secrets import token_hex
from typing import IO, Annotated, Any

import typer
from pydantic_core import to_json
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.adapter.losses import Loss, Severity
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.ids import new_session_id
from dragoman.canonical.message import Message
from dragoman.cli.io.console import console, counted, show_line
from dragoman.cli.io.inputs import check_regular
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.lines import holds_conversations, is_line_file, read_lines
from dragoman.formats.registry import FORMATS, get_format, identify_file, iter_text, read_file, write_pieces
from dragoman.formats.results import (
    SIDECAR_SUFFIX,
    Conversation,
    Conversion,
    ReadResult,
    report_labels,
    sidecar_path,
    write_sidecar,
)
from dragoman.formats.umf.convert import to_umf_pieces
from dragoman.formats.umf.events import history_to_umf
from dragoman.session import snapshot

_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME = 80
_MAX_FAILURES = 1000
"""Failures that are named."""
_SUFFIXES = frozenset(
    {
        ".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".db", ".sqlite", ".sqlite3", ".chatml", ".txt", ".parquet",
        ".pb", ".msgpack",
    }
)  # fmt: skip
"""The suffixes of files that are tried in a directory."""
_OWN_FORMATS = frozenset({"session", "umf-events"})
_LINES_OF_ONE = frozenset({"umf-events", "session", "llm"})
"""Formats of one conversation, which has lines of its own or is a file."""
_MAX_SHOWN = 12
_MAX_REASONS = 4096
"""Different reasons that are counted apart. All others are one."""
_OTHER = "other reasons"
_SMALL = 4 * 1024 * 1024
"""Bytes of files that are converted without showing the progress."""


def writable_formats() -> list[str]:
    return [name for name, known in FORMATS.items() if known.write is not None or name in _OWN_FORMATS]


def readable_formats() -> list[str]:
    return [name for name, known in FORMATS.items() if known.read or known.read_many or known.read_all]


def iter_files(source: Path, target: Path) -> Iterator[Path]:
    """Yield the files of a directory, in order, without hidden files and those of a target inside it."""
    target_folder = target.resolve()
    for path in sorted(source.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(source).parts)
        if (
            path.suffix.lower() in _SUFFIXES
            and path.is_file()
            and not hidden
            and not path.name.endswith(SIDECAR_SUFFIX)
            and target_folder not in (path.resolve(), *path.resolve().parents)
        ):
            yield path


@dataclass(slots=True)
class _Run:
    """What to convert into what, as the options of the command say, and what has come of it."""

    source: Path
    target: Path
    of: str | None
    to: str
    model: str | None
    only: str | None
    overwrite: bool
    losses: Counter[tuple[Severity, str, str]] = field(default_factory=Counter)
    """Losses by severity, kind and reason: their number has no limit, and the memory for them has."""
    failures: list[tuple[str, str]] = field(default_factory=list)
    """Files, or lines of them, with the reason: the first ones; ``failed`` counts all."""
    failed: int = 0
    written: set[Path] = field(default_factory=set)
    advance: Callable[[int], object] = lambda _: None
    """Is called with the number of bytes that were read."""

    def selects(self, conversation: Conversation) -> bool:
        return self.only is None or conversation.name == self.only

    def missing(self, source: Path) -> ConfigurationError:
        """Return the error of a source in which there is nothing to convert."""
        return ConfigurationError(f"{source} holds no conversation" + (f" {self.only!r:.80}" if self.only else ""))

    def fail(self, place: str, error: Exception) -> None:
        self.failed += 1
        if len(self.failures) < _MAX_FAILURES:
            self.failures.append((place, str(error)))

    def lose(self, losses: Iterable[Loss]) -> None:
        for loss in losses:
            key = loss.severity, str(loss.kind), loss.reason
            if len(self.losses) >= _MAX_REASONS and key not in self.losses:
                key = loss.severity, str(loss.kind), _OTHER
            self.losses[key] += 1

    def print(self, out: Console, errors: Console) -> None:
        """Print the losses by reason, the most severe first, and the failures."""
        rows = sorted(self.losses.items(), key=lambda row: (row[0][0] is not Severity.WARNING, -row[1], row[0]))
        table = Table("lost", "", "what", box=None, pad_edge=False)
        table.columns[1].justify = "right"
        for (severity, kind, reason), times in rows[:_MAX_SHOWN]:
            style = "yellow" if severity is Severity.WARNING else "dim"
            table.add_row(show_line(kind), f"{times:,}", show_line(reason), style=style)
        out.print(table if rows else "[green]nothing was lost[/]")
        if len(rows) > _MAX_SHOWN:
            rest = sum(times for _, times in rows[_MAX_SHOWN:])
            out.print(f"[dim]and {rest:,} more, of {len(rows) - _MAX_SHOWN} kinds[/]")
        for place, reason in self.failures:
            errors.print(f"[red]{show_line(place)}[/]: {show_line(reason)}")
        if self.failed > len(self.failures):
            errors.print(f"[red]and {self.failed - len(self.failures):,} more[/]")


def _iter_conversations(run: _Run, source: Path) -> Iterator[Conversation]:
    """Yield the conversations of a file. One in a line is read when it is its turn; a line that cannot be read is a
    failure of the run. Raises FormatError, with a path, and ConfigurationError.
    """
    if (run.of is None or get_format(run.of).read_many is None) and holds_conversations(source):
        position = 0
        for line in read_lines(source, run.of, model=run.model):
            run.advance(line.position - position)
            position = line.position
            if line.error is not None:
                run.fail(f"{source}:{line.number}", line.error)
                continue
            run.lose(line.losses)
            if [each.name for each in line.conversations] == ["1"]:
                yield Conversation(str(line.number), line.conversations[0].messages)
            else:
                yield from line.conversations
        return
    read = read_conversations(source, run.of, run.model)
    run.lose(read.losses)
    run.advance(source.stat().st_size)
    yield from read.conversations


def _plan_targets(run: _Run, source: Path, target: Path, *, named: bool) -> Iterator[tuple[str, list[Message], Path]]:
    """Yield each conversation of a file, with its target file.

    ``named``: the target is a file name; otherwise the format's suffix is added. Raises FormatError, with a path, and
    ConfigurationError.
    """
    failed = run.failed
    found = filter(run.selects, _iter_conversations(run, source))
    first = list(islice(found, 2))
    if not first:
        if run.failed > failed:
            return
        raise run.missing(source)
    suffix = get_format(run.to).suffix
    if len(first) == 1:
        (conversation,) = first
        if named and target.is_dir():
            target = target / f"{source.stem}{suffix}"
        yield conversation.name, conversation.messages, target if named else target.with_name(target.name + suffix)
        return
    if named and target.suffix and not target.is_dir():
        raise ConfigurationError(
            f"{source} holds several conversations: name a directory or a file of lines (.jsonl) as the target, or one "
            "of them with --only"
        )
    taken: set[str] = set()
    for conversation in chain(first, found):
        safe = file_name(conversation.name)[:_MAX_NAME]
        candidates = chain([safe], (f"{safe}-{number}" for number in count(2)))
        name = next(each for each in candidates if each not in taken)
        taken.add(name)
        yield conversation.name, conversation.messages, target / f"{name}{suffix}"


def file_name(title: str) -> str:
    """Return the title of a conversation as a name that every file system takes."""
    return _UNSAFE_CHARACTERS.sub("_", title).strip("._") or "conversation"


def read_conversations(source: Path, source_format: str | None, model: str | None) -> ReadResult:
    """Return the conversations of a file, in the named format or a detected one. Raises FormatError, with a path, and
    ConfigurationError.
    """
    name = source_format
    if name is None:
        found = identify_file(source)
        if found.format is None:
            closest = f" (the closest is {found.closest})" if found.closest else ""
            raise ConfigurationError(
                f"the format of {source} cannot be detected{closest}: {found.reason}. Name it with --from"
            )
        name = found.format
    try:
        return read_file(source, name, model)
    except FormatError as error:
        raise FormatError(f"{error.reason} (read as {name})", path=error.path) from None


def _write_history(history: Sequence[Message], to: str, model: str | None) -> Conversion[Any]:
    """Return a history in a format. Raises ConfigurationError if the format is read-only."""
    write = get_format(to).write
    if write is None:
        raise ConfigurationError(f"{to} can be read but not written")
    return write(history, model)


def convert_history(history: Sequence[Message], to: str, model: str | None) -> Conversion[Iterable[str] | bytes]:
    """Return the file content in a format, as a text in pieces or as bytes.

    Raises ConfigurationError if the format is read-only.
    """
    if to == "session":
        models = [message.metadata.model for message in history if message.metadata.model]
        session = next((message.session_id for message in history if message.session_id), new_session_id())
        last = next((name for name in reversed(models) if ":" in name), None)
        return Conversion(
            [snapshot.write(snapshot.Snapshot(session, model or last, list(history), ToolIdMap())).decode()]
        )
    if to == "umf-events":
        # The envelopes contain UMF messages, so UMF's losses are theirs.
        lines = (to_json(envelope).decode() + "\n" for envelope in history_to_umf(history))
        return report_labels(Conversion(lines, to_umf_pieces(history).losses), history, "UMF's event log")
    if to == "messages":
        return Conversion(iter_text(list(history)))
    conversion = write_pieces(to, history, model) or _write_history(history, to, model)
    if isinstance(conversion.data, bytes):
        return conversion
    return Conversion(iter_text(conversion.data), conversion.losses, conversion.labels)


@contextmanager
def new_file(path: Path, labels: Set[str], *, overwrite: bool, keep_empty: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that gets its name when it is complete; after an error there is none.

    The ``labels`` that it has no room for are read when it is complete, and go into the file beside it; without any,
    an older one is removed. Raises ConfigurationError if a file exists and ``overwrite`` is False.
    """
    taken = ConfigurationError(f"{path} exists already: choose another name, or pass --overwrite")
    if path.exists() and not overwrite:
        raise taken
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            yield file
            if not file.tell() and not keep_empty:
                return
        beside = sidecar_path(path)
        if labels:
            with new_file(beside, frozenset(), overwrite=overwrite) as note:
                note.write(write_sidecar(frozenset(labels)))
        elif overwrite:
            beside.unlink(missing_ok=True)
        if overwrite:
            temporary.replace(path)
            return
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise taken from None
    finally:
        temporary.unlink(missing_ok=True)


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
        typer.Option(
            "--from", help=f"The format to read: {', '.join(readable_formats())}, or a provider; detected by default."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's name, for a provider's message lists.")] = None,
    only: Annotated[str | None, typer.Option(help="The name of one conversation, if the source holds several.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite existing files.")] = False,
) -> None:
    """Converts conversations between common formats. Content that a format cannot carry is listed.

    In a directory every file is tried. A target with the suffix .jsonl gets one conversation a line, from all files.
    Files and lines that cannot be converted are named, and the exit code is then 1.
    """
    if get_format(to).write is None and to not in _OWN_FORMATS:
        raise ConfigurationError(f"{to} can be read but not written: there are {', '.join(writable_formats())}")
    if (target is None) == (output is None):
        raise ConfigurationError("name one target: as the second argument, or with --output")
    destination = target if target is not None else output
    assert destination is not None
    if not source.is_dir():
        check_regular(source)
    files = list(iter_files(source, destination)) if source.is_dir() else [source]
    if not files:
        raise ConfigurationError(f"the folder {str(source)!r} has no file that can be converted")
    run = _Run(source, destination, of, to, model, only, overwrite)
    size = sum(path.stat().st_size for path in files)
    columns = (TextColumn("converting"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    out, errors = console(), console(stderr=True)
    with pause_collector(), Progress(*columns, console=errors, transient=True, disable=size < _SMALL) as progress:
        run.advance = partial(progress.advance, progress.add_task("converting", total=size))
        if is_line_file(destination) and to not in _LINES_OF_ONE and not destination.is_dir():
            _to_lines(run, files)
        elif source.is_dir():
            _to_directory(run, files)
        else:
            for name, length, path in _to_files(run, source, destination, named=True):
                out.print(f"{show_line(name)} → {show_line(str(path))}, {counted(length, 'message')}")
    run.print(out, errors)
    if run.failed:
        raise typer.Exit(1)


def _to_files(run: _Run, source: Path, target: Path, *, named: bool) -> Iterator[tuple[str, int, Path]]:
    """Convert one file to a file, or to a directory of them. Yield each conversation's name, length and file."""
    for name, history, path in _plan_targets(run, source, target, named=named):
        conversion = convert_history(history, run.to, run.model)
        with new_file(path, conversion.labels, overwrite=run.overwrite and path not in run.written) as file:
            data = conversion.data
            file.writelines([data] if isinstance(data, bytes) else (piece.encode() for piece in data))
        run.lose(conversion.losses)
        run.written.add(path)
        yield name, len(history), path


def _to_lines(run: _Run, files: list[Path]) -> None:
    """Convert all conversations of the files to the lines of one file."""
    failed_files = written = 0
    labels: set[str] = set()
    with new_file(run.target, labels, overwrite=run.overwrite, keep_empty=False) as file:
        for path in files:
            try:
                for conversation in filter(run.selects, _iter_conversations(run, path)):
                    try:
                        conversion = _write_history(conversation.messages, run.to, run.model)
                    except DragomanError as error:  # such as a block marked critical, which the format cannot hold
                        run.fail(f"{path}: {conversation.name}", error)
                        continue
                    data = conversion.data
                    is_line = isinstance(data, str) and data.endswith("\n")  # a row of a data set is one already
                    file.write(data.encode() if is_line else to_json(data) + b"\n")
                    labels.update(conversion.labels)
                    run.lose(conversion.losses)
                    written += 1
            except (DragomanError, OSError) as error:
                if not run.source.is_dir():
                    raise
                failed_files += 1
                run.fail(str(path), error)
        if not written and not run.failed:
            raise run.missing(files[0])
    failed = f", {run.failed - failed_files:,} lines and {failed_files:,} files failed" if run.failed else ""
    console().print(f"{written:,} conversations → {show_line(str(run.target))}{failed}")


def _to_directory(run: _Run, files: list[Path]) -> None:
    """Convert every file below the source to the same path below the target."""
    run.only = None  # the names of conversations are those of one file
    failed_files = 0
    for path in files:
        try:
            base = (run.target / path.relative_to(run.source)).with_suffix("")
            for _ in _to_files(run, path, base, named=False):
                pass
        except (DragomanError, OSError) as error:
            failed_files += 1
            run.fail(str(path), error)
    console().print(
        f"{len(run.written):,} conversations of {len(files) - failed_files:,} files converted, "
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
