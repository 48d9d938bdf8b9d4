"""Embeds a column of a file: resumable, in constant memory, each row paid once.

The rows are embedded in parts. A part is a file of its own, which appears when it is complete; a second run skips the
parts that are there. When all are, they become the output.
"""

import hashlib
import json
import shutil
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.adapter.operations.embeddings import Purpose, Truncate
from dragoman.bulk.output import duckdb_type, encode_json, lines_to_parquet, write_whole
from dragoman.bulk.rows import JSON_LINES, Row, RowReader, Template, open_source, validate_suffix
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.embeddings import Embeddings, PartialEmbeddings, embed
from dragoman.embeddings.result import sum_usage
from dragoman.private_files import create_private_folder

COLUMN = "embedding"
TEXT = "text"
PART_ROWS = 1_000
"""Rows of one part: what is in memory, and what a killed process has to embed again. Parts are found by their number,
so a version with another value here cannot continue a run."""
_ROW_GROUP = 2_048
"""Rows of the output that are in memory at a time: a vector may take 12 KiB."""
_TYPES = {"bool": bool, "int": int, "float": float, "str": str, "NoneType": type(None)}


@dataclass(frozen=True, slots=True)
class EmbeddedRows:
    """What a run wrote. Tokens and cost are those of this run and of the runs that it continued; the cost is None if
    some of it is unknown."""

    rows: int
    """The number of rows in the file."""
    tokens: int
    """The tokens of all inputs."""
    cost_usd: Decimal | None
    """The price in US dollars."""
    output: Path
    """The path of the file with the vectors."""


def embed_rows(
    rows: str | Path,
    model: str,
    *,
    to: str | Path,
    template: str | None = None,
    dimensions: int | None = None,
    purpose: Purpose | None = "document",
    truncate: Truncate | None = None,
    column: str = COLUMN,
    client: Any = None,
    progress: Callable[[int], None] | None = None,
    **settings: Any,
) -> EmbeddedRows:
    """Write the rows of a file in their order, with the vector of each in a column of 32-bit floats.

    ``rows`` is a file (.jsonl, .csv, .parquet), ``to`` one of .parquet or .jsonl. ``template`` is the text to
    embed, with {column} for a column of the row; the default is the column ``text``. ``progress`` is called with the
    number of rows that are done. The other options are those of `dragoman.embeddings.embed`.

    The same call resumes an interrupted run. Raises what `embed` raises, ConfigurationError for a file that cannot be
    read or written, for parts of another run and if no row has the text, and RequestError for a row without the text.
    """
    source_path, output_path = Path(rows), Path(to)
    if validate_suffix(output_path) == ".csv":
        raise ConfigurationError("vectors are written to .parquet or .jsonl")
    source = open_source(source_path)
    text = Template(f"{{{TEXT}}}" if template is None else template)
    options: dict[str, Any] = {"dimensions": dimensions, "purpose": purpose, "truncate": truncate}
    with source_path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    run = {"model": model, "template": template, "column": column, **options, "source": digest}
    RowReader(text, None).check(source)  # a column that no row has is an error before anything is sent
    parts = _Parts(output_path, run)
    done = 0
    remaining = iter(source)
    for number in count():
        chunk = list(islice(remaining, PART_ROWS))
        if not chunk:
            break
        if not parts.has(number):
            if any(column in row for row in chunk):
                raise ConfigurationError(f"the rows already have a column {column!r}: choose another name")
            texts = [text.fill(row) for row in chunk]
            call = partial(embed, model, texts, client=client, **options, **settings)
            parts.write_part(number, chunk, call, column)
        done += len(chunk)
        if progress is not None:
            progress(done)
    if not done:
        raise ConfigurationError(f"{source.name} has no rows")
    parts.join(source.types, column)
    usage = parts.usage()
    parts.remove()
    known = usage.cost_status in (CostStatus.PRICED, CostStatus.FREE)
    return EmbeddedRows(done, usage.total_tokens, usage.cost_usd if known else None, output_path)


class _Parts:
    """The folder with the parts of one run. Raises ConfigurationError if it belongs to another run."""

    def __init__(self, output: Path, run: Mapping[str, Any]) -> None:
        self._output = output
        self._folder = output.with_name(output.name + ".parts")
        self._run_file = self._folder / "run.json"
        create_private_folder(self._folder)
        content = json.dumps(run, sort_keys=True)
        if self._run_file.exists() and self._run_file.read_text(encoding="utf-8").strip() != content:
            raise ConfigurationError(
                f"{self._folder} has the parts of another run: finish that one, or delete the folder"
            )
        _write(self._run_file, [content])

    def has(self, number: int) -> bool:
        return self._path(number, "jsonl").exists()

    def write_part(self, number: int, rows: Sequence[Row], call: Callable[..., Embeddings], column: str) -> None:
        """Embed the rows and write the part. If that fails, keep the vectors that were paid.

        Receipts come first, so that what was paid is counted whatever follows. The rows come last, because `has` takes
        their file as the sign that the part is complete.
        """
        resume, partial_file = None, self._path(number, "partial")
        if partial_file.exists():  # an earlier run had a part of it; its receipts are counted already
            note = json.loads(partial_file.read_text(encoding="utf-8"))
            kept_vectors = [None if each is None else array("f", each) for each in note["vectors"]]
            labels = frozenset(note.get("labels", ()))
            resume = PartialEmbeddings(note["model"], kept_vectors, note["key"], labels=labels)
        try:
            found = call(resume=resume)
        except DragomanError as error:
            if isinstance(error.embedded, PartialEmbeddings):
                kept = error.embedded
                self._keep_receipts(number, kept.receipts)
                vectors = [None if each is None else [*each] for each in kept.vectors]
                note = {"model": kept.model, "key": kept.key, "vectors": vectors}
                if kept.labels:
                    note["labels"] = sorted(kept.labels)
                _write(partial_file, [json.dumps(note)])
            raise
        self._keep_receipts(number, found.receipts)
        names: dict[str, set[str]] = {}
        for row in rows:
            for name, value in row.items():
                names.setdefault(name, set()).add(type(value).__name__)
        _write(self._path(number, "types"), [json.dumps({name: sorted(kinds) for name, kinds in names.items()})])
        embedded = zip(rows, found, strict=True)
        _write(self._path(number, "jsonl"), (encode_json({**row, column: list(vector)}) for row, vector in embedded))

    def join(self, types: Mapping[str, str], column: str) -> None:
        """Write the output from all parts."""
        lines = sorted(self._folder.glob("*.jsonl"))
        with write_whole(self._output) as temporary:
            if self._output.suffix.lower() in JSON_LINES:
                with temporary.open("wb") as file:
                    for each in lines:
                        with each.open("rb") as part:
                            shutil.copyfileobj(part, file)
            else:
                # The type of a column is the one that its values in all parts need.
                names: dict[str, set[type]] = {}
                for path in sorted(self._folder.glob("*.types")):
                    for name, kinds in json.loads(path.read_text(encoding="utf-8")).items():
                        names.setdefault(name, set()).update(_TYPES.get(kind, object) for kind in kinds)
                needed = {name: duckdb_type(kinds) for name, kinds in names.items()}
                columns = {**needed, **types, column: "FLOAT[]"}
                lines_to_parquet(lines, temporary, columns, group=_ROW_GROUP)

    def usage(self) -> Usage:
        paths = sorted(self._folder.glob("*receipts"))  # earlier versions had one file for all parts
        lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
        return sum_usage([Message.model_validate_json(line) for line in lines])

    def remove(self) -> None:
        for each in self._folder.iterdir():
            if each != self._run_file:
                each.unlink()
        self._run_file.unlink()  # last: without it, another run would take what is left for its own parts
        self._folder.rmdir()

    def _keep_receipts(self, number: int, receipts: Sequence[Message]) -> None:
        """Add receipts, messages without content that have the usage, to those of the part."""
        path = self._path(number, "receipts")
        earlier = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        _write(path, [*earlier, *(each.model_dump_json() for each in receipts)])

    def _path(self, number: int, kind: str) -> Path:
        return self._folder / f"{number:09}.{kind}"


def _write(path: Path, lines: Iterable[str]) -> None:
    with write_whole(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)
