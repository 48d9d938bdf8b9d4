"""Rows of a Parquet file, read by duckdb or by pyarrow if one of them is installed."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.formats.errors import FormatError

MARK = b"PAR1"
"""The first bytes of a Parquet file, and its last ones."""
_BATCH = 1024


def iter_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file as JSON has them, in constant memory.

    Raises ConfigurationError if neither library is installed, and FormatError if the file is damaged.
    """
    if find_spec("duckdb") is not None:
        yield from _by_duckdb(path)
    elif find_spec("pyarrow") is not None:
        yield from _by_pyarrow(path)
    else:
        raise ConfigurationError(
            "a Parquet file is read by duckdb or pyarrow: pip install 'dragoman[report]', or write JSON lines"
        )


def _by_duckdb(path: Path) -> Iterator[dict[str, Any]]:
    import duckdb

    with duckdb.connect() as database:
        try:
            database.execute("select to_json(rows)::varchar from read_parquet(?) as rows", [str(path)])
            while found := database.fetchmany(_BATCH):
                for (row,) in found:
                    yield json.loads(row)
        except duckdb.Error as error:
            raise FormatError(f"this is no readable Parquet file: {str(error)[:200]}") from None


def _by_pyarrow(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        for batch in parquet.ParquetFile(path).iter_batches(_BATCH):
            yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise FormatError(f"this is no readable Parquet file: {str(error)[:200]}") from None
