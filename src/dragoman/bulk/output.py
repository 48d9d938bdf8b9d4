"""Writes rows with their answers in the order of the rows: one line per row and model.

A file is written under a temporary name and renamed when it is complete.
"""

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import repeat
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk.manifest.manifest import Manifest
from dragoman.bulk.manifest.records import RowRecord, State
from dragoman.bulk.rows import JSON_LINES, Row, Source, connect_duckdb, protect_cell, validate_suffix
from dragoman.output.answer_type import AnswerType
from dragoman.pricing.analytics.usage_columns import quote_literal

ANSWER_COLUMNS = ("answer", "model", "cost", "tokens", "error", "seconds")
"""The columns that are added to a row. ``cost`` is in US dollars, ``tokens`` are all that were billed; null is unknown.
"""
LABELS = "security_labels"
"""The column with the security labels of a row and its answer, a list, if any row has some."""

_NOT_SENT = "not sent yet"
_IN_PROGRESS = {
    State.IN_FLIGHT: "in progress",
    State.BATCHED: "in a batch that is not fetched yet",
    State.INVALID: "its answer is not valid, and it is asked again",
}
_TYPES: Mapping[type, str] = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
_OWN_TYPES = {"cost": "DECIMAL(38, 18)", "tokens": "BIGINT", "seconds": "DOUBLE", LABELS: "VARCHAR[]"}


@dataclass(frozen=True, slots=True)
class AnswerColumns:
    """The columns that are added to a row, each after a prefix; ``form`` is the type of the answers, if any.
    ``labels`` returns the labels of a row, and is None if the run has no labels."""

    prefix: str = ""
    form: AnswerType[Any] | None = None
    labels: Callable[[Row], frozenset[str]] | None = None

    @property
    def names(self) -> list[str]:
        fields = () if self.form is None else self.form.fields
        labels = () if self.labels is None else (LABELS,)
        return [self.prefix + name for name in (*ANSWER_COLUMNS, *labels, *(f"answer_{each}" for each in fields))]

    def of(self, row: Row, model: str, answer: RowRecord | None) -> Row:
        """Return the columns of an answer. Those of a type are empty if the row has no valid answer."""
        values: tuple[Any, ...]
        if answer is None:
            values = None, model, None, None, _NOT_SENT, None
        else:
            error = _IN_PROGRESS.get(answer.state, answer.error)
            seconds = None if answer.ms is None else answer.ms / 1000
            values = answer.answer, model, answer.paid.cost_usd, answer.paid.tokens, error, seconds
        columns: Row = dict(zip(ANSWER_COLUMNS, values, strict=True))
        if self.labels is not None:
            # The row's own too: a version without labels may have written the answer.
            columns[LABELS] = sorted(self.labels(row) | (frozenset() if answer is None else answer.labels))
        if self.form is not None:
            fields = {} if answer is None or answer.answer is None else self.form.read_fields(answer.answer)
            columns |= {f"answer_{each}": fields.get(each) for each in self.form.fields}
        return {self.prefix + name: value for name, value in columns.items()}


def join_rows(rows: Source, manifest: Manifest, models: Mapping[str, int], columns: AnswerColumns) -> Iterator[Row]:
    """Yield each row with its answers. Raises ConfigurationError if a row has one of these columns already."""
    outcomes = [_each_row(manifest.iter_answers(number)) for number in models.values()]
    for row, *found in zip(rows, *outcomes, strict=False):
        for model, answer in zip(models, found, strict=True):
            answer_columns = columns.of(row, model, answer)
            if conflicts := sorted(answer_columns.keys() & row.keys()):
                raise ConfigurationError(
                    f"the rows already have a column {conflicts[0]!r}: set a prefix for the added columns"
                )
            yield row | answer_columns


def write_rows(path: Path, rows: Iterable[Row], source: Source, columns: AnswerColumns) -> None:
    """Write the file. Raises ConfigurationError if it cannot hold the rows."""
    suffix = validate_suffix(path)
    with write_whole(path) as temporary:
        if suffix in JSON_LINES:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(encode_json(row) + "\n" for row in rows)
        elif suffix == ".csv":
            # Every column that any row has, in order of first appearance.
            names = list(source.types) or list(dict.fromkeys(name for row in source for name in row))
            with temporary.open("w", encoding="utf-8", newline="") as file:
                # Texts are quoted: Python leaves a carriage return bare otherwise, and it ends the row.
                header = [*names, *columns.names]
                writer = csv.DictWriter(file, header, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
                writer.writerow({name: protect_cell(name) for name in header})
                writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
        else:
            _parquet(temporary, rows, source.types, columns.prefix)


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """Give another path to write to. It becomes the file when the block ends, and nothing is left if it fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _each_row(outcomes: Iterable[RowRecord]) -> Iterator[RowRecord | None]:
    """Yield the outcome of each row, without end; None for a row that has none."""
    row_no = 0
    for outcome in outcomes:
        while row_no < outcome.row_no:
            yield None
            row_no += 1
        yield outcome
        row_no += 1
    yield from repeat(None)


def _parquet(path: Path, rows: Iterable[Row], types: Mapping[str, str], prefix: str) -> None:
    """Write JSON lines, which DuckDB reads with the source's column types, or with those of the values."""
    lines = path.with_name(path.name + ".jsonl")
    value_types: dict[str, set[type]] = {}
    try:
        with lines.open("w", encoding="utf-8") as file:
            for row in rows:
                for name, value in row.items():
                    value_types.setdefault(name, set()).add(type(value))
                file.write(encode_json(row) + "\n")
        own = {prefix + name: _OWN_TYPES.get(name, "VARCHAR") for name in (*ANSWER_COLUMNS, LABELS)}
        kinds = {name: duckdb_type(types_seen) for name, types_seen in value_types.items()} | dict(types) | own
        lines_to_parquet([lines], path, {name: kind for name, kind in kinds.items() if name in value_types})
    finally:
        lines.unlink(missing_ok=True)


def lines_to_parquet(files: Sequence[Path], path: Path, types: Mapping[str, str], *, group: int = 122_880) -> None:
    """Write files of JSON lines as one Parquet file. ``group`` rows at a time are in memory."""
    columns = ", ".join(f"{quote_literal(name)}: {quote_literal(kind)}" for name, kind in types.items())
    names = ", ".join(quote_literal(str(each)) for each in files)
    with connect_duckdb() as connection:
        connection.execute(
            f"COPY (FROM read_json([{names}], format = 'newline_delimited', columns = {{{columns}}}))"
            f" TO {quote_literal(str(path))} (FORMAT parquet, ROW_GROUP_SIZE {group})"
        )


def duckdb_type(value_types: set[type]) -> str:
    """Return the type of a column that holds values of these types."""
    kinds = value_types - {type(None)}
    if kinds == {int, float}:
        return "DOUBLE"
    return _TYPES.get(next(iter(kinds)), "JSON") if len(kinds) == 1 else "JSON" if kinds else "VARCHAR"


def encode_json(value: Any) -> str:
    """Return the JSON of a row or a value."""
    return json.dumps(value, ensure_ascii=False, default=_to_text)


def _cell(value: Any) -> Any:
    if isinstance(value, bool | dict | list):
        return encode_json(value)
    return value if value is None or isinstance(value, int | float) else protect_cell(_to_text(value))


def _to_text(value: Any) -> str:
    """Return the text of a value for which JSON has no type, such as money or a time."""
    if isinstance(value, bytes | bytearray):
        raise ConfigurationError("a column holds bytes, which the output cannot hold: leave it out")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
