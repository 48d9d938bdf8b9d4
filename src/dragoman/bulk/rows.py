"""Reads rows from files, lists and functions, and of each row its prompt, by templates, and its labels.

A source is read more than once, a few rows at a time: to send the prompts, and again to write the answers.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import ConfigurationError, MissingExtraError, RequestError
from dragoman.adapter.names import nearest_name
from dragoman.canonical.message import Message
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


@dataclass(frozen=True, slots=True)
class Source:
    """Rows in a fixed order, the same on every iteration."""

    name: str
    read: Callable[[], Iterable[Row]]
    """Returns the rows."""
    size: Callable[[], int] | None = None
    """Returns their number, if there is a faster way than to read them."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The columns' DuckDB types, if the source has types."""

    def __iter__(self) -> Iterator[Row]:
        return iter(self.read())

    def count(self) -> int:
        return sum(1 for _ in self) if self.size is None else self.size()


def open_source(prompts: Prompts) -> Source:
    """Open the source. Raises ConfigurationError if it can be read only once, or is a file of an unknown kind."""
    if isinstance(prompts, str | Path):
        path = Path(prompts)
        if not path.is_file():
            raise ConfigurationError(f"there is no file {str(prompts)!r:.200}; to pass prompts, use a list")
        suffix = validate_suffix(path)
        if suffix in JSON_LINES:
            return Source(path.name, partial(_read_json_lines, path), partial(_count_json_lines, path))
        return Source(path.name, partial(_read_csv, path)) if suffix == ".csv" else _open_parquet(path)
    if isinstance(prompts, Iterator):
        raise ConfigurationError(
            "rows are read more than once, but an iterator can be read only once: pass a file, a list, or a"
            " function that returns a new iterator"
        )
    return Source("the rows", partial(_read_memory, prompts), getattr(prompts, "__len__", None))


def validate_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigurationError(f"rows are read from and written to {', '.join(SUFFIXES)}, not {path.name!r:.80}")
    return suffix


def _read_memory(rows: Any) -> Iterator[Row]:
    """Yield rows that the program holds or generates."""
    for number, row in enumerate(rows() if callable(rows) else rows, 1):
        yield _to_row(row, f"row {number}")


def _read_json_lines(path: Path) -> Iterator[Row]:
    """Yield one row for each line, an object or a text; blank lines are skipped."""
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            location = f"{path.name}, line {number}"
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ConfigurationError(f"{location} is not valid JSON: {error!s:.200}") from None
            yield _to_row(value, location)


def _count_json_lines(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(1 for line in lines if line.strip())


def _read_csv(path: Path) -> Iterator[Row]:
    """Yield a text for each column of the header; a row with too many or too few values is an error.

    The apostrophe before a formula is not part of the text: see `protect_cell`.
    """
    header: list[str] | None = None
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            for row in reader:
                cells = [restore_cell(text) for text in row]
                if header is None:
                    header = cells
                    if len(set(header)) < len(header):
                        raise ConfigurationError(f"{path.name}: a column occurs twice in the header")
                elif cells:
                    if len(cells) != len(header):
                        raise ConfigurationError(
                            f"{path.name}, line {reader.line_num}: {len(cells)} columns, but the header has"
                            f" {len(header)}"
                        )
                    yield dict(zip(header, cells, strict=True))
        except csv.Error as error:
            raise ConfigurationError(f"{path.name}, line {reader.line_num} is not valid CSV: {error}") from None


def _open_parquet(path: Path) -> Source:
    """Return the rows of a Parquet file."""
    types = {name: kind for name, kind, *_ in _query_parquet(path, "DESCRIBE FROM read_parquet($1)")}
    # Times with a zone are read as text: Python needs another package for them.
    columns = ", ".join(
        f"CAST({quote_identifier(name)} AS VARCHAR)" if kind == _ZONED else quote_identifier(name)
        for name, kind in types.items()
    )

    def read() -> Iterator[Row]:
        for row in _query_parquet(path, f"SELECT {columns} FROM read_parquet($1)"):
            yield dict(zip(types, row, strict=True))

    def count() -> int:
        ((found,),) = _query_parquet(path, "SELECT count(*) FROM read_parquet($1)")
        return int(found)

    return Source(path.name, read, count, types)


def _query_parquet(path: Path, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield what DuckDB finds in the file, a few rows at a time."""
    with connect_duckdb() as connection:
        from duckdb import Error

        try:
            found = connection.execute(query, [str(path)])
            while rows := found.fetchmany(_FETCH_SIZE):
                yield from rows
        except Error as error:
            raise ConfigurationError(f"{path.name} cannot be read as Parquet: {error!s:.200}") from None


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


class Template:
    """A text with {column} placeholders; ``{{`` and ``}}`` are braces. Raises ConfigurationError for an invalid one.

    A column is looked up by its whole name: no attribute, index or format is interpreted.
    """

    def __init__(self, text: str) -> None:
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise ConfigurationError(
                f"{text!r:.80} is not a valid template: {error}; write {{{{ for a literal brace"
            ) from None
        for _, column, format_spec, conversion in parts:
            if column == "" or format_spec or conversion:
                raise ConfigurationError(
                    f"{text!r:.80} is not a valid template: a placeholder is just {{column}}; write "
                    f"{{{{ for a literal brace"
                )
        self._parts = [(before, column) for before, column, _, _ in parts]

    @property
    def columns(self) -> set[str]:
        return {column for _, column in self._parts if column is not None}

    def fill(self, row: Row) -> str:
        """Return the text for a row. Raises RequestError if the row lacks the column, or has null there."""
        texts: list[str] = []
        for before, column in self._parts:
            texts.append(before)
            if column is None:
                continue
            if column not in row:
                raise RequestError(f"the row has no column {column!r:.80}; it has {', '.join(map(str, row))!s:.200}")
            value: Any = row[column]
            if value is None:
                raise RequestError(f"the column {column!r:.80} of the row is empty")
            texts.append(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
        return "".join(texts)


Labels = str | Callable[[Row], Iterable[str]]
"""The labels of a row: the name of a column, or a function of the row."""


class RowReader:
    """Reads the prompt, an optional system prompt, and the labels of each row."""

    def __init__(self, template: str | Template | None, system: str | None, labels: Labels | None = None) -> None:
        given = f"{{{PROMPT}}}" if template is None else template
        self._prompt = given if isinstance(given, Template) else Template(given)
        self._system = None if system is None else Template(system)
        self._labels = labels

    def check(self, rows: Iterable[Row]) -> None:
        """Raise ConfigurationError for a column that no row has. All rows are read only if the first one lacks it."""
        missing = self._prompt.columns | (set() if self._system is None else self._system.columns)
        known: tuple[str, ...] = ()
        for row in rows:
            known = known or tuple(row)
            missing -= row.keys()
            if not missing:
                return
        if known:
            name = min(missing)
            raise ConfigurationError(f"no row has the column {name!r:.80}{nearest_name(name, known)}")

    def render(self, row: Row) -> tuple[str, ...]:
        """Return the prompt, followed by the system prompt if there is one. Raises RequestError."""
        prompt = self._prompt.fill(row)
        if not prompt.strip():
            raise RequestError("the prompt is empty")
        return (prompt,) if self._system is None else (prompt, self._system.fill(row))

    def known_labels(self, row: Row) -> frozenset[str]:
        """Return the labels; none if they cannot be read: such a row is not sent."""
        try:
            return self.labels(row)
        except RequestError:
            return frozenset()

    def labels(self, row: Row) -> frozenset[str]:
        """Return the labels: those of a list, or of a text that separates them by commas or is a list in JSON, as a
        CSV file of answers has it. Raises RequestError."""
        if self._labels is None:
            return frozenset()
        if callable(self._labels):
            found: Any = self._labels(row)
        elif self._labels in row:
            found = row[self._labels]
        else:
            raise RequestError(f"the row has no column {self._labels!r:.80} with its labels")
        if isinstance(found, str):
            text, found = found, [label.strip() for label in found.split(",")]
            if text.startswith("["):
                with suppress(ValueError):
                    found = list(json.loads(text))
        elif not isinstance(found, Iterable) or isinstance(found, bytes | Mapping):
            found = () if found is None else (found,)
        labels = list(found)
        if not all(isinstance(label, str) for label in labels):
            raise RequestError("the labels of the row must be texts: a list of them, or one text with commas")
        return frozenset(filter(None, labels))


def build_messages(texts: tuple[str, ...]) -> list[Message]:
    prompt, *system = texts
    return [*map(Message.system, system), Message.user(prompt)]


def prompt_digest(texts: tuple[str, ...]) -> str:
    """Identify the rendered prompt, so that a later process notices a changed row."""
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
