"""What replies cost, read for reports: messages without what was said in them."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Table, false, literal, or_, select, tuple_

from dragoman.canonical.message import Message
from dragoman.store.columns import micros, text
from dragoman.store.rows import message_of
from dragoman.store.schema import attempts, messages

_AT_ONCE = 1000
_UNREAD = frozenset({"content_json", "extensions_json", "search_text"})

Wanted = dict[str, str | datetime | None]


def bills(read: Callable[[Callable[[Connection], Any]], Any], wanted: Wanted) -> Iterator[Message]:
    """In the order of sessions. What a fork has copied was billed to its first session, and is left out."""
    for table in (messages, attempts):
        last: tuple[str, int] | None = None
        while rows := read(_page(table, wanted, last)):
            yield from map(message_of, rows)
            last = rows[-1]["session_id"], rows[-1]["seq"]


def _page(table: Table, wanted: Wanted, after: tuple[str, int] | None) -> Callable[[Connection], list[RowMapping]]:
    columns = table.c
    chosen = select(
        *(column for column in columns if column.name not in _UNREAD), literal("[]").label("content_json")
    ).where(or_(columns.provider.is_not(None), columns.cost_status.is_not(None)), *_filters(table, wanted))
    if after is not None:
        chosen = chosen.where(tuple_(columns.session_id, columns.seq) > after)
    chosen = chosen.order_by(columns.session_id, columns.seq).limit(_AT_ONCE)
    return lambda connection: list(connection.execute(chosen).mappings())


def _filters(table: Table, wanted: Wanted) -> Iterator[ColumnElement[bool]]:
    if "inherited" in table.c:
        yield table.c.inherited == false()
    for name, value in wanted.items():
        if isinstance(value, datetime):
            moment = micros(value)
            yield table.c.created_at >= moment if name == "since" else table.c.created_at < moment
        elif value is not None:
            yield table.c[name] == text(value)
