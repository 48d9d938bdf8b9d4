"""Prices of the past: what was used, at the rates of another table, another moment or another model (D4)."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple, overload

from dragoman.adapter.errors import RequestError
from dragoman.canonical.message import Message, MessageStatus
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.pricing.table import PriceTable
from dragoman.pricing.versions import price_table

_BROKEN = (MessageStatus.ERROR, MessageStatus.CANCELLED)


class UsageRecord(NamedTuple):
    """What one reply used, of which model (``provider:name``) and when."""

    model: str
    usage: TokenUsage
    at: datetime
    batch: bool = False


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
    """Each item at the prices of its own time in the table (the bundled one), one for one and in order.

    ``version`` names another table instead (`price_table`), ``at`` one moment for all, and ``as_model`` a model that
    might have been asked: at its standard prices where it is another provider's, whose tiers have other names.

    Messages come back with a new ``metadata.usage`` and are not changed otherwise; those without usage or without a
    model come back as they are. The old figures are not consulted: doing it twice changes nothing, and where the
    table knows no price there is none afterwards.

    Raises RequestError for both a table and a version, ConfigurationError for a version that is not here, and TypeError
    at an item that is neither.
    """
    if table is not None and version is not None:
        raise RequestError("give a table or the version of one, not both")
    return _iter_repriced(items, table or price_table(version), at, as_model)


def _iter_repriced(
    items: Iterable[Message | UsageRecord], table: PriceTable, at: datetime | None, as_model: str | None
) -> Iterator[Message | Usage]:
    for item in items:
        if isinstance(item, Message):
            yield _reprice_message(item, table, at, as_model)
        elif isinstance(item, UsageRecord):
            yield _reprice_usage(item, table, at, as_model)
        else:
            raise TypeError(f"messages are repriced, and what was Spent, not a {type(item).__name__}")


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
