"""Prices of the past: what was used, at the rates of another table (specification D4)."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple, overload

from dragoman.canonical.message import Message
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.pricing.table import PriceTable, price_table


class Spent(NamedTuple):
    """What one reply used, of which model (``provider:name``) and when."""

    model: str
    usage: TokenUsage
    at: datetime
    batch: bool = False


@overload
def reprice(items: Iterable[Message], table: PriceTable | None = None) -> Iterator[Message]: ...
@overload
def reprice(items: Iterable[Spent], table: PriceTable | None = None) -> Iterator[Usage]: ...
def reprice(items: Iterable[Message | Spent], table: PriceTable | None = None) -> Iterator[Message | Usage]:
    """Each item at the prices of its own time in the table (the bundled one), one for one and in order.

    Messages come back with a new ``metadata.usage``; those without usage or without a model come back as they are.
    The old figures are not consulted: doing it twice changes nothing, and where the table knows no price there is
    none afterwards.
    """
    table = table or price_table()
    for item in items:
        if isinstance(item, Message):
            yield _message(item, table)
        else:
            yield table.price(item.model, item.usage, item.at, batch=item.batch)


def _message(message: Message, table: PriceTable) -> Message:
    metadata = message.metadata
    if metadata.usage is None or metadata.model is None:
        return message
    usage = table.price(metadata.model, metadata.usage, message.created_at)
    return message.model_copy(update={"metadata": metadata.model_copy(update={"usage": usage})})
