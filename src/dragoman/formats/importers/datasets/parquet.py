"""Rows of a Parquet file, read by duckdb."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.formats.errors import FormatError

MARK = b"PAR1"
"""The first bytes of a Parquet file, and its last ones."""
_BATCH = 1024


def iter_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file as JSON has them, in constant memory.

    Raises ConfigurationError if duckdb is not installed, and FormatError if the file is damaged.
    """
    try:
        import duckdb
    except ImportError:
        raise ConfigurationError(
            "a Parquet file is read by duckdb: pip install 'dragoman[report]', or write JSON lines"
        ) from None
    with duckdb.connect() as database:
        try:
            database.execute("select to_json(rows)::varchar from read_parquet(?) as rows", [str(path)])
            while found := database.fetchmany(_BATCH):
                for (row,) in found:
                    yield json.loads(row)
        except duckdb.Error as error:
            raise FormatError(f"this is not a readable Parquet file: {str(error)[:200]}") from None
