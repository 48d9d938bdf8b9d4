"""What replies cost, read for reports: messages without what was said in them."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, RowMapping, Table, false, literal, or_, select, tuple_

from dragoman.canonical.message import Message
from dragoman.store.columns import micros, text
from dragoman.store.rows import message_of
from dragoman.store.schema import attempts, messages

_AT_ONCE = 1000
_UNREAD = frozenset({"extensions_json", "search_text"})

Read = Callable[[Callable[[Connection], Any]], Any]
Wanted = dict[str, str | datetime | None]


class Bill(NamedTuple):
    """A reply that was billed, and its place among the messages of its session, or among its attempts."""

    message: Message
    seq: int
    attempt: bool


def bills(read: Read, wanted: Wanted, *, content: bool = False) -> Iterator[Bill]:
    """In the order of sessions, messages before attempts. What a fork has copied was billed to its first session, and
    is left out. ``content``: with what was said, too."""
    for table in (messages, attempts):
        last: tuple[str, int] | None = None
        while rows := read(_page(table, wanted, last, content)):
            for row in rows:
                yield Bill(message_of(row), row["seq"], table is attempts)
            last = rows[-1]["session_id"], rows[-1]["seq"]


def billed(table: Table, wanted: Wanted) -> Iterator[ColumnElement[bool]]:
    """What holds of the rows of messages, or of attempts, that were billed."""
    yield or_(table.c.provider.is_not(None), table.c.cost_status.is_not(None))
    if "inherited" in table.c:
        yield table.c.inherited == false()
    for name, value in wanted.items():
        if isinstance(value, datetime):
            moment = micros(value)
            yield table.c.created_at >= moment if name == "since" else table.c.created_at < moment
        elif value is not None:
            yield table.c[name] == text(value)


def _page(
    table: Table, wanted: Wanted, after: tuple[str, int] | None, content: bool
) -> Callable[[Connection], list[RowMapping]]:
    columns = table.c
    unread = _UNREAD if content else _UNREAD | {"content_json"}
    chosen = select(*(column for column in columns if column.name not in unread)).where(*billed(table, wanted))
    if not content:
        chosen = chosen.add_columns(literal("[]").label("content_json"))
    if after is not None:
        chosen = chosen.where(tuple_(columns.session_id, columns.seq) > after)
    chosen = chosen.order_by(columns.session_id, columns.seq).limit(_AT_ONCE)
    return lambda connection: list(connection.execute(chosen).mappings())
