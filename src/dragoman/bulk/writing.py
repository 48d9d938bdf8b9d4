"""Rows with their answers, written in the order of the rows: for each row one line a model, in the order of the models.

A file is written beside its place and moved there when it is whole.
"""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk.manifest import Manifest, Written
from dragoman.bulk.records import State
from dragoman.bulk.rows import JSON_LINES, Row, Source, duckdb, suffix_of

ANSWER_COLUMNS = ("answer", "model", "cost", "tokens", "error", "seconds")
"""What is added to a row. ``cost`` is in US dollars, ``tokens`` are all that were billed; null is unknown."""

_NOT_ASKED = "not asked yet"
_UNDER_WAY = {State.IN_FLIGHT: "under way", State.BATCHED: "in a batch that has not been fetched yet"}
_TYPES: Mapping[type, str] = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
_OWN_TYPES = {"cost": "DECIMAL(38, 18)", "tokens": "BIGINT", "seconds": "DOUBLE"}


def joined(rows: Source, manifest: Manifest, models: Mapping[str, int], prefix: str) -> Iterator[Row]:
    """Raises ConfigurationError where a row has a column of ours already."""
    readers = {model: _Reader(manifest.written(number)) for model, number in models.items()}
    for row_no, row in enumerate(rows):
        for model, reader in readers.items():
            ours = {prefix + name: value for name, value in _answer(model, reader.at(row_no)).items()}
            if taken := sorted(ours.keys() & row.keys()):
                raise ConfigurationError(
                    f"the rows have a column {taken[0]!r} already: give the columns of the answers a prefix"
                )
            yield row | ours


def write(path: Path, rows: Iterable[Row], source: Source, prefix: str) -> None:
    """Raises ConfigurationError where the file cannot hold the rows."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    suffix = suffix_of(path)
    try:
        if suffix in JSON_LINES:
            _json_lines(beside, rows)
        elif suffix == ".csv":
            _csv(beside, rows, [*_columns(source), *(prefix + name for name in ANSWER_COLUMNS)])
        else:
            _parquet(beside, rows, source.types, prefix)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


class _Reader:
    """Outcomes in the order of the rows, some of which have none."""

    def __init__(self, outcomes: Iterator[Written]) -> None:
        self._outcomes = outcomes
        self._next = next(outcomes, None)

    def at(self, row_no: int) -> Written | None:
        if self._next is None or self._next.row_no > row_no:
            return None
        found, self._next = self._next, next(self._outcomes, None)
        return found


def _answer(model: str, found: Written | None) -> Row:
    if found is None:
        return dict(zip(ANSWER_COLUMNS, (None, model, None, None, _NOT_ASKED, None), strict=True))
    error = _UNDER_WAY.get(found.state, found.error)
    seconds = None if found.ms is None else found.ms / 1000
    return dict(zip(ANSWER_COLUMNS, (found.answer, model, found.cost_usd, found.tokens, error, seconds), strict=True))


def _json_lines(path: Path, rows: Iterable[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(_json(row) + "\n")


def _csv(path: Path, rows: Iterable[Row], columns: list[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)


def _parquet(path: Path, rows: Iterable[Row], types: Mapping[str, str], prefix: str) -> None:
    """By way of JSON lines, which DuckDB reads with the types that the columns had, or that their values have."""
    lines = path.with_name(path.name + ".jsonl")
    found: dict[str, set[type]] = {}
    try:
        with lines.open("w", encoding="utf-8") as file:
            for row in rows:
                for name, value in row.items():
                    found.setdefault(name, set()).add(type(value))
                file.write(_json(row) + "\n")
        own = {prefix + name: _OWN_TYPES.get(name, "VARCHAR") for name in ANSWER_COLUMNS}
        kinds = {name: _kind(seen) for name, seen in found.items()} | dict(types) | own
        columns = ", ".join(f"{_quoted(name)}: {_quoted(kind)}" for name, kind in kinds.items() if name in found)
        with duckdb() as connection:
            connection.execute(
                f"COPY (FROM read_json({_quoted(str(lines))}, format = 'newline_delimited', columns = {{{columns}}}))"
                f" TO {_quoted(str(path))} (FORMAT parquet)"
            )
    finally:
        lines.unlink(missing_ok=True)


def _kind(seen: set[type]) -> str:
    kinds = seen - {type(None)}
    if kinds == {int, float}:
        return "DOUBLE"
    return _TYPES.get(next(iter(kinds)), "JSON") if len(kinds) == 1 else "JSON" if kinds else "VARCHAR"


def _columns(source: Source) -> list[str]:
    """All that any row has, in the order in which they come."""
    if source.types:
        return list(source.types)
    return list(dict.fromkeys(name for row in source for name in row))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _cell(value: Any) -> Any:
    if isinstance(value, bool | dict | list):
        return _json(value)
    return _plain(value) if isinstance(value, Decimal | bytes | bytearray) else value


def _plain(value: Any) -> str:
    """Money, times and the like as they are written; JSON has no such thing."""
    if isinstance(value, bytes | bytearray):
        raise ConfigurationError("a column holds bytes, which no answer can be written beside: leave it out")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
