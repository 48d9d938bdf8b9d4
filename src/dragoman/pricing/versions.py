"""Price table versions: every version stays loadable, so that a figure can be computed again at any time.

A version is stored as one archive, ``<version>.zip``, of the table's files. Those of earlier releases are bundled in
the folder ``pricing/versions``; a program that must not depend on them stores its own. Repricing computes past usage at
the rates of another table, time or model. Source: docs/reference/pricing.md#versions, #repricing.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, overload

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.names import full_name
from dragoman.bundled import bundled_path
from dragoman.canonical.message import Message, MessageStatus
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.pricing.table import INDEX, PriceTable

_CACHE_SIZE = 8
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}\+[0-9a-f]{8}")


def price_table(version: str | None = None, archive: Path | None = None) -> PriceTable:
    """Return the bundled table, or the one with this ``version``. A provider's prices are read when they are first
    used.

    Older versions are searched among the bundled ones, and in ``archive``: a folder that `save_table` wrote, or one
    table, as a zip archive or as a folder of TOML files. Overlays are not stored: load the version before the second
    ``+`` and call `PriceTable.with_overlay` again.

    Raises ConfigurationError if the version is not found, or the content does not match it.
    """
    for table in (_bundled_table(_update), _bundled_table(None)):
        if version is None or version == table.version:
            return table
    return _load_older(version, archive)


def cost(usage: TokenUsage, model: str, at: datetime | None = None, table: PriceTable | None = None) -> Usage:
    """Return the usage with its cost, by default with the current prices of the bundled table.

    Raises TypeError if the first argument is not a usage.
    """
    if not isinstance(usage, TokenUsage):
        raise TypeError(f"the first argument of cost must be a usage, not a {type(usage).__name__}")
    return (table or price_table()).price(full_name(model), usage, at or datetime.now(UTC))


def save_table(table: PriceTable, folder: Path) -> Path:
    """Write the table into the folder as ``<version>.zip``, without an overlay, and return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{table.base_version}.zip"
    path.write_bytes(table.pack())
    return path


def list_versions(archive: Path | None = None) -> tuple[str, ...]:
    """Return the versions that can be loaded, the bundled one last."""
    names = {path.stem for folder in _folders(archive) for path in folder.glob("*.zip")}
    newest = _bundled_table(_update).version
    return (*sorted((names | {_bundled_table(None).version}) - {newest}), newest)


_update: Path | None = None


def set_update(path: Path | None) -> None:
    """Replace the update that the bundled table is used with; see `dragoman.pricing.use_update`."""
    global _update  # one for the process, like the table
    _update = path


@lru_cache(_CACHE_SIZE)
def _bundled_table(update: Path | None) -> PriceTable:
    return PriceTable(bundled_path("pricing"), update=update)


@lru_cache(_CACHE_SIZE)
def _load_older(version: str, archive: Path | None) -> PriceTable:
    paths = [] if archive is None else [archive]
    if _VERSION.fullmatch(version):
        paths += [path for folder in _folders(archive) for path in (folder / f"{version}.zip", folder / version)]
    paths = [path for path in paths if path.is_file() or (path / INDEX).is_file()]
    if not paths:
        raise ConfigurationError(
            f"the price table {version!r} is not found: known are {', '.join(list_versions(archive))}. "
            "Pass the folder that holds it as archive. An overlay is not stored: load the version before the second + "
            "and call with_overlay again"
        )
    found = {table.version: table for table in map(PriceTable, paths)}
    if version not in found:
        raise ConfigurationError(f"{paths[0]} is named as the price table {version}, but holds {', '.join(found)}")
    return found[version]


def _folders(archive: Path | None) -> list[Path]:
    return [
        folder for folder in (archive, bundled_path("pricing") / "versions") if folder is not None and folder.is_dir()
    ]


_BROKEN = (MessageStatus.ERROR, MessageStatus.CANCELLED)


class UsageRecord(NamedTuple):
    """The usage of one reply, its model (``provider:name``) and its time."""

    model: str
    """The model that answered, as ``provider:name``."""
    usage: TokenUsage
    """The tokens that were billed."""
    at: datetime
    """When the reply was made, with a time zone: the prices of that moment count."""
    batch: bool = False
    """Whether the reply came from a batch, which has prices of its own."""


@overload
def reprice(
    items: Iterable[Message],
    table: PriceTable | None = None,
    *,
    version: str | None = None,
    at: datetime | None = None,
    as_model: str | None = None,
) -> Iterator[Message]: ...
@overload
def reprice(
    items: Iterable[UsageRecord],
    table: PriceTable | None = None,
    *,
    version: str | None = None,
    at: datetime | None = None,
    as_model: str | None = None,
) -> Iterator[Usage]: ...
def reprice(
    items: Iterable[Message | UsageRecord],
    table: PriceTable | None = None,
    *,
    version: str | None = None,
    at: datetime | None = None,
    as_model: str | None = None,
) -> Iterator[Message | Usage]:
    """Price each item again at its own time with the bundled table. The results have the order of the items.

    ``version`` selects another table (`price_table`), ``at`` one time for all, and ``as_model`` another
    model: at its standard prices if it is of another provider, whose tiers have other names.

    Messages are returned with a new ``metadata.usage`` and are otherwise unchanged; those without usage or without a
    model are returned as they are. The old figures are ignored: repricing twice changes nothing, and an item without a
    price in the table has no cost afterwards.

    Raises RequestError if both a table and a version are given, ConfigurationError for an unknown version, and
    TypeError for an item of another type.
    """
    used, model = choose_table(table, version), as_model and full_name(as_model)
    return (_reprice_item(item, used, at, model) for item in items)


def choose_table(table: PriceTable | None, version: str | None) -> PriceTable:
    """Return the table, or the one of the version. Raises RequestError if both are given."""
    if table is not None and version is not None:
        raise RequestError("pass a table or a version, not both")
    return table or price_table(version)


def _reprice_item(
    item: Message | UsageRecord, table: PriceTable, at: datetime | None, as_model: str | None
) -> Message | Usage:
    if isinstance(item, Message):
        metadata = item.metadata
        if metadata.usage is None or metadata.model is None:
            return item
        record = UsageRecord(metadata.model, metadata.usage, item.created_at)
    elif isinstance(item, UsageRecord):
        record = item
    else:
        raise TypeError(f"reprice takes messages and UsageRecords, not a {type(item).__name__}")
    foreign = as_model is not None and as_model.partition(":")[0] != record.model.partition(":")[0]
    usage = table.reprice(as_model or record.model, record.usage, at or record.at, batch=record.batch, standard=foreign)
    if not isinstance(item, Message):
        return usage
    if item.metadata.status in _BROKEN:
        usage = usage.as_lower_bound()
    return item.model_copy(update={"metadata": item.metadata.model_copy(update={"usage": usage})})
