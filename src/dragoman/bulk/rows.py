"""Reads rows from files, lists and functions. A source is read more than once.

Only a few rows are in memory at a time: a run reads its source to send the prompts and again to write the answers.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.pricing.analytics.usage_columns import quote_identifier

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Row = dict[str, Any]
Prompts = str | Path | Iterable[str | Mapping[str, Any]] | Callable[[], Iterable[str | Mapping[str, Any]]]
"""A file, rows in memory, or a function that returns the same rows on every call. A single text is a file name; a text
among rows is a row with the one column ``prompt``.
"""

PROMPT = "prompt"
JSON_LINES = (".jsonl", ".ndjson")
SUFFIXES = (*JSON_LINES, ".csv", ".parquet")
_FETCH_SIZE = 512
_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""How a text begins that a spreadsheet may run (https://owasp.org/www-community/attacks/CSV_Injection)."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_ZONED = "TIMESTAMP WITH TIME ZONE"


def protect_cell(text: str) -> str:
    """Return the text for a cell of a CSV file, with an apostrophe before what would be a formula. Numbers are none."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def restore_cell(text: str) -> str:
    """Return the text that `protect_cell` was given."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


class Source(Protocol):
    """Rows in a fixed order, the same on every iteration."""

    name: str
    types: Mapping[str, str]
    """The columns' DuckDB types, if the source has types."""

    def __iter__(self) -> Iterator[Row]: ...

    def count(self) -> int: ...


def open_source(prompts: Prompts) -> Source:
    """Open the source. Raises ConfigurationError if it can be read only once, or is a file of an unknown kind."""
    if isinstance(prompts, str | Path):
        path = Path(prompts)
        if not path.is_file():
            raise ConfigurationError(f"there is no file {str(prompts)!r:.200}; to pass prompts, use a list")
        return _SOURCE_TYPES[validate_suffix(path)](path)
    if isinstance(prompts, Iterator):
        raise ConfigurationError(
            "rows are read more than once, but an iterator can be read only once: pass a file, a list, or a"
            " function that returns a new iterator"
        )
    return MemorySource(prompts)


def validate_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigurationError(f"rows are read from and written to {', '.join(SUFFIXES)}, not {path.name!r:.80}")
    return suffix


class MemorySource:
    """Rows that the program holds or generates."""

    def __init__(self, rows: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        self.name = "the rows"
        self.types: Mapping[str, str] = {}
        self._rows = rows

    def __iter__(self) -> Iterator[Row]:
        rows = self._rows() if callable(self._rows) else self._rows
        for number, row in enumerate(rows, 1):
            yield _to_row(row, f"row {number}")

    def count(self) -> int:
        rows: Any = self._rows
        return len(rows) if hasattr(rows, "__len__") else sum(1 for _ in self)


class JsonLinesSource:
    """One object or text per line; blank lines are skipped."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.types: Mapping[str, str] = {}
        self._path = path

    def __iter__(self) -> Iterator[Row]:
        with self._path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                location = f"{self.name}, line {number}"
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise ConfigurationError(f"{location} is not valid JSON: {error!s:.200}") from None
                yield _to_row(value, location)

    def count(self) -> int:
        with self._path.open("rb") as lines:
            return sum(1 for line in lines if line.strip())


class CsvSource:
    """A header, and a text for each column; a row with too many or too few values is an error.

    The apostrophe before a formula is not part of the text: see `protect_cell`.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.types: Mapping[str, str] = {}
        self._path = path

    def __iter__(self) -> Iterator[Row]:
        with self._path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = self._next(reader, [])
            if len(set(header)) < len(header):
                raise ConfigurationError(f"{self.name}: a column occurs twice in the header")
            while (row := self._next(reader, None)) is not None:
                if not row:
                    continue
                if len(row) != len(header):
                    raise ConfigurationError(
                        f"{self.name}, line {reader.line_num}: {len(row)} columns, but the header has {len(header)}"
                    )
                yield dict(zip(header, row, strict=True))

    def count(self) -> int:
        return sum(1 for _ in self)

    def _next(self, reader: Any, end: Any) -> Any:
        try:
            found = next(reader, None)
            return end if found is None else [restore_cell(text) for text in found]
        except csv.Error as error:
            raise ConfigurationError(f"{self.name}, line {reader.line_num} is not valid CSV: {error}") from None


class ParquetSource:
    """A Parquet file, which DuckDB reads a few rows at a time."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        with self._connect() as connection:
            described = connection.execute("DESCRIBE FROM read_parquet($1)", [str(path)]).fetchall()
        self.types: Mapping[str, str] = {name: kind for name, kind, *_ in described}

    def __iter__(self) -> Iterator[Row]:
        # Times with a zone are read as text: Python needs another package for them.
        columns = ", ".join(
            f"CAST({quote_identifier(name)} AS VARCHAR)" if kind == _ZONED else quote_identifier(name)
            for name, kind in self.types.items()
        )
        with self._connect() as connection:
            found = connection.execute(f"SELECT {columns} FROM read_parquet($1)", [str(self._path)])
            while rows := found.fetchmany(_FETCH_SIZE):
                for row in rows:
                    yield dict(zip(self.types, row, strict=True))

    def count(self) -> int:
        with self._connect() as connection:
            (found,) = connection.execute("SELECT count(*) FROM read_parquet($1)", [str(self._path)]).fetchall()
        return int(found[0])

    @contextmanager
    def _connect(self) -> "Iterator[DuckDBPyConnection]":
        with connect_duckdb() as connection:
            from duckdb import Error

            try:
                yield connection
            except Error as error:
                raise ConfigurationError(f"{self.name} cannot be read as Parquet: {error!s:.200}") from None


_SOURCE_TYPES: dict[str, Callable[[Path], Source]] = {
    **dict.fromkeys(JSON_LINES, JsonLinesSource),
    ".csv": CsvSource,
    ".parquet": ParquetSource,
}


def connect_duckdb() -> "DuckDBPyConnection":
    """Return an in-memory database that keeps rows in order. Raises MissingExtraError without duckdb."""
    try:
        import duckdb as duckdb_module
    except ModuleNotFoundError:
        raise MissingExtraError("Parquet needs DuckDB: pip install 'dragoman[report]'") from None
    connection = duckdb_module.connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET threads = 1")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _to_row(value: Any, location: str) -> Row:
    if isinstance(value, str):
        return {PROMPT: value}
    if isinstance(value, Mapping):
        return dict(value)
    raise ConfigurationError(f"{location} must be an object or a string")
