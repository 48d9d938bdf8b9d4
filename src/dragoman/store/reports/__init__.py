"""Reports over stored replies: reads what they cost, as messages without their content."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from dragoman.canonical.message import Message
from dragoman.store.columns import encode_text, to_micros
from dragoman.store.rows import message_from_row
from dragoman.store.schema import attempts, messages

_PAGE_SIZE = 1000
_SKIPPED_COLUMNS = frozenset({"extensions_json", "search_text"})

ReadTransaction = Callable[[Callable[[sa.Connection], Any]], Any]
BillingFilters = Mapping[str, Any]


class BilledReply(NamedTuple):
    """A billed reply, and its index among the messages, or among the attempts, of its session."""

    message: Message
    seq: int
    attempt: bool


def iter_billed_replies(
    read: ReadTransaction, filters: BillingFilters, *, content: bool = False
) -> Iterator[BilledReply]:
    """Billed replies in the order of sessions, messages before attempts. Copies in a fork were billed to its first
    session, and are left out. ``content``: includes the content.
    """
    skipped = _SKIPPED_COLUMNS if content else _SKIPPED_COLUMNS | {"content_json"}
    for table in (messages, attempts):
        columns = table.c
        query = sa.select(*(column for column in columns if column.name not in skipped))
        query = query.where(*billed_conditions(table, filters)).order_by(columns.session_id, columns.seq)
        if not content:
            query = query.add_columns(sa.literal("[]").label("content_json"))
        page = query.limit(_PAGE_SIZE)
        while rows := read(all_rows(page)):
            for row in rows:
                yield BilledReply(message_from_row(row._mapping), row.seq, table is attempts)
            page = query.limit(_PAGE_SIZE).where(sa.tuple_(columns.session_id, columns.seq) > (row.session_id, row.seq))


def all_rows(query: sa.Select[Any]) -> Callable[[sa.Connection], Sequence[sa.Row[Any]]]:
    """Return the transaction that reads all rows of a query."""
    return lambda connection: connection.execute(query).all()


def billed_conditions(table: sa.Table, filters: BillingFilters) -> Iterator[sa.ColumnElement[bool]]:
    """Yield the conditions on the rows of billed messages or attempts."""
    yield sa.or_(table.c.provider.is_not(None), table.c.cost_status.is_not(None))
    if "inherited" in table.c:
        yield table.c.inherited == sa.false()
    for name, value in filters.items():
        if value is None:
            continue
        if name == "since":
            yield table.c.created_at >= to_micros(value)
        elif name == "until":
            yield table.c.created_at < to_micros(value)
        else:
            yield table.c[name] == encode_text(value)
