"""Transactions that change nothing. Each takes the connection whose transaction it runs in."""

import base64
from datetime import datetime
from typing import Any

from pydantic_core import from_json, to_json
from sqlalchemy import Connection, RowMapping, Select, and_, or_, select

from dragoman.store.columns import MALFORMED, key, micros, plain, text
from dragoman.store.errors import StoreError
from dragoman.store.records import Hit, Page, SessionRecord, StoredSession
from dragoman.store.rows import extensions_of, message_of, session_record
from dragoman.store.schema import attempts, messages, sessions
from dragoman.store.search import folded, holds
from dragoman.store.tools import load_tool_ids
from dragoman.store.writing import missing

MOST_ROWS = 1000


def record(connection: Connection, session_id: str) -> SessionRecord:
    row = connection.execute(select(sessions).where(sessions.c.id == key(session_id, "the session's id"))).one_or_none()
    if row is None:
        raise missing(session_id)
    return session_record(row._mapping)


def load(connection: Connection, session_id: str) -> StoredSession:
    found = record(connection, session_id)
    row_id = key(session_id, "the session's id")
    said = _rows(connection, select(messages).where(messages.c.session_id == row_id).order_by(messages.c.seq))
    broken = _rows(connection, select(attempts).where(attempts.c.session_id == row_id).order_by(attempts.c.seq))
    extensions = {plain(row["id"]): extensions_of(row) for row in said if row["extensions_json"] is not None}
    return StoredSession(
        record=found,
        messages=tuple(map(message_of, said)),
        tool_ids=load_tool_ids(connection, row_id),
        attempts=tuple(map(message_of, broken)),
        extensions={message_id: held for message_id, held in extensions.items() if held is not None},
        inherited=sum(bool(row["inherited"]) for row in said),
    )


def page(
    connection: Connection,
    *,
    user_id: str | None,
    team_id: str | None,
    model: str | None,
    since: datetime | None,
    limit: int,
    cursor: str | None,
) -> Page:
    chosen = select(sessions)
    for column, wanted in (("user_id", user_id), ("team_id", team_id), ("active_model", model)):
        if wanted is not None:
            chosen = chosen.where(sessions.c[column] == text(wanted))
    if since is not None:
        chosen = chosen.where(sessions.c.updated_at >= micros(since))
    if cursor is not None:
        at, last_id = _place(cursor)
        same_time = and_(sessions.c.updated_at == at, sessions.c.id < last_id)
        chosen = chosen.where(or_(sessions.c.updated_at < at, same_time))
    chosen = chosen.order_by(sessions.c.updated_at.desc(), sessions.c.id.desc())
    wanted_rows = _bounded(limit)
    rows = _rows(connection, chosen.limit(wanted_rows + 1))
    shown = rows[:wanted_rows]
    more = _cursor(shown[-1]) if len(rows) > wanted_rows else None
    return Page(tuple(map(session_record, shown)), more)


def search(
    connection: Connection,
    said: str,
    *,
    user_id: str | None,
    session_id: str | None,
    limit: int,
    sqlite: bool,
    indexed: bool,
) -> tuple[Hit, ...]:
    """The newest first."""
    text(said)
    needle = folded(said)
    if not needle:
        return ()
    chosen = select(messages).where(holds(needle, sqlite=sqlite, indexed=indexed))
    if session_id is not None:
        chosen = chosen.where(messages.c.session_id == text(session_id))
    if user_id is not None:
        of_user = select(sessions.c.id).where(sessions.c.user_id == text(user_id))
        chosen = chosen.where(messages.c.session_id.in_(of_user))
    newest = chosen.order_by(messages.c.created_at.desc(), messages.c.session_id.desc(), messages.c.seq.desc())
    rows = _rows(connection, newest.limit(_bounded(limit)))
    return tuple(Hit(plain(row["session_id"]), row["seq"], message_of(row)) for row in rows)


def _rows(connection: Connection, chosen: Select[Any]) -> list[RowMapping]:
    return list(connection.execute(chosen).mappings())


def _bounded(limit: int) -> int:
    if not 1 <= limit <= MOST_ROWS:
        raise StoreError(f"limit is from 1 to {MOST_ROWS}")
    return limit


def _cursor(row: RowMapping) -> str:
    return base64.urlsafe_b64encode(to_json([row["updated_at"], row["id"]])).decode()


def _place(cursor: str) -> tuple[int, str]:
    try:
        at, last_id = from_json(base64.urlsafe_b64decode(cursor.encode()))
        if isinstance(at, int) and isinstance(last_id, str) and -(2**63) <= at < 2**63:
            return at, text(plain(last_id))
    except MALFORMED:
        pass
    raise StoreError("this is no cursor of this store: begin with the first page")
