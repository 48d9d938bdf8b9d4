"""Repricing: past usage at the rates of another table, time or model. Source: docs/reference/pricing.md#repricing."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple, overload

from dragoman.adapter.errors import RequestError
from dragoman.adapter.names import full_name
from dragoman.canonical.message import Message, MessageStatus
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.pricing.table import PriceTable
from dragoman.pricing.versions import price_table

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
    if table is not None and version is not None:
        raise RequestError("pass a table or a version, not both")
    return _iter_repriced(items, table or price_table(version), at, as_model and full_name(as_model))


def _iter_repriced(
    items: Iterable[Message | UsageRecord], table: PriceTable, at: datetime | None, as_model: str | None
) -> Iterator[Message | Usage]:
    for item in items:
        if isinstance(item, Message):
            yield _reprice_message(item, table, at, as_model)
        elif isinstance(item, UsageRecord):
            yield _reprice_usage(item, table, at, as_model)
        else:
            raise TypeError(f"reprice takes messages and UsageRecords, not a {type(item).__name__}")


def _reprice_usage(record: UsageRecord, table: PriceTable, at: datetime | None, as_model: str | None) -> Usage:
    model = as_model or record.model
    foreign = model.partition(":")[0] != record.model.partition(":")[0]
    return table.reprice(model, record.usage, at or record.at, batch=record.batch, standard=foreign)


def _reprice_message(message: Message, table: PriceTable, at: datetime | None, as_model: str | None) -> Message:
    metadata = message.metadata
    if metadata.usage is None or metadata.model is None:
        return message
    usage = _reprice_usage(UsageRecord(metadata.model, metadata.usage, message.created_at), table, at, as_model)
    if metadata.status in _BROKEN:
        usage = usage.as_lower_bound()
    return message.model_copy(update={"metadata": metadata.model_copy(update={"usage": usage})})
