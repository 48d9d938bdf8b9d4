"""Read-only transactions. Each takes the connection that it runs on."""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic_core import from_json, to_json
from sqlalchemy.sql import column

from dragoman.canonical.extensions.message_labels import label_messages
from dragoman.store.columns import MALFORMED_DATA_ERRORS, check_integer, decode_text, encode_id, encode_text, to_micros
from dragoman.store.errors import StoreError
from dragoman.store.records import SearchHit, SessionPage, SessionRecord, StoredCall, StoredSession
from dragoman.store.rows import extensions_from_row, fold, message_from_row, record_from_row
from dragoman.store.schema import SEARCH_TABLE, attempts, messages, sessions, tool_calls, turns
from dragoman.store.turns import OPEN, call_from_row, load_tool_ids, load_turn
from dragoman.store.writes import session_not_found

MAX_ROWS = 1000

_PIECE = 3
"""Characters of a trigram in SQLite's index."""
_MAX_PIECES = 32


def record(connection: sa.Connection, session_id: str) -> SessionRecord:
    row = connection.execute(
        sa.select(sessions).where(sessions.c.id == encode_id(session_id, "the session's id"))
    ).one_or_none()
    if row is None:
        raise session_not_found(session_id)
    return record_from_row(row._mapping)


def load(connection: sa.Connection, session_id: str) -> StoredSession:
    found = record(connection, session_id)
    row_id = encode_id(session_id, "the session's id")
    message_rows = _rows(
        connection, sa.select(messages).where(messages.c.session_id == row_id).order_by(messages.c.seq)
    )
    attempt_rows = _rows(
        connection, sa.select(attempts).where(attempts.c.session_id == row_id).order_by(attempts.c.seq)
    )
    extensions = {
        decode_text(row["id"]): known for row in message_rows if (known := extensions_from_row(row)) is not None
    }
    history = label_messages([*map(message_from_row, message_rows)], extensions)
    return StoredSession(
        record=found,
        messages=history,
        tool_ids=load_tool_ids(connection, row_id),
        attempts=tuple(map(message_from_row, attempt_rows)),
        extensions=extensions,
        inherited=sum(bool(row["inherited"]) for row in message_rows),
        turn=load_turn(connection, row_id, history),
    )


def page(
    connection: sa.Connection,
    filters: Mapping[str, str | None],
    *,
    since: datetime | None,
    limit: int,
    cursor: str | None,
) -> SessionPage:
    """Return one page of the sessions with these values, by the names of columns."""
    selected = sa.select(sessions)
    for name, value in filters.items():
        if value is not None:
            selected = selected.where(sessions.c[name] == encode_text(value))
    if since is not None:
        selected = selected.where(sessions.c.updated_at >= to_micros(since))
    if cursor is not None:
        at, last_id = _decode_cursor(cursor)
        same_time = sa.and_(sessions.c.updated_at == at, sessions.c.id < last_id)
        selected = selected.where(sa.or_(sessions.c.updated_at < at, same_time))
    selected = selected.order_by(sessions.c.updated_at.desc(), sessions.c.id.desc())
    size = _check_limit(limit)
    rows = _rows(connection, selected.limit(size + 1))
    page_rows = rows[:size]
    next_cursor = None
    if len(rows) > size:
        last = page_rows[-1]
        next_cursor = base64.urlsafe_b64encode(to_json([last["updated_at"], last["id"]])).decode()
    return SessionPage(tuple(map(record_from_row, page_rows)), next_cursor)


def search(
    connection: sa.Connection, query: str, *, user_id: str | None, session_id: str | None, limit: int
) -> tuple[SearchHit, ...]:
    """Return the hits, the newest first."""
    encode_text(query)
    folded_query = fold(query)
    if not folded_query:
        return ()
    selected = sa.select(messages).where(_contains(connection, folded_query))
    newest = _newest(selected, messages, user_id, session_id)
    rows = _rows(connection, newest.limit(_check_limit(limit)))
    return tuple(SearchHit(decode_text(row["session_id"]), row["seq"], message_from_row(row)) for row in rows)


def calls(
    connection: sa.Connection, *, status: str, user_id: str | None, session_id: str | None, limit: int
) -> tuple[StoredCall, ...]:
    """Return the calls of that status, the newest first."""
    is_status = tool_calls.c.status == sa.bindparam(
        "status", status, literal_execute=True
    )  # for the index of the status
    selected = sa.select(tool_calls).where(is_status)
    newest = _newest(selected, tool_calls, user_id, session_id).order_by(tool_calls.c.position)
    return tuple(map(call_from_row, _rows(connection, newest.limit(_check_limit(limit)))))


def _newest(selected: sa.Select[Any], table: sa.Table, user_id: str | None, session_id: str | None) -> sa.Select[Any]:
    """Return the query for the rows of this user's sessions, or of this session, the newest first."""
    if session_id is not None:
        selected = selected.where(table.c.session_id == encode_text(session_id))
    if user_id is not None:
        of_user = sa.select(sessions.c.id).where(sessions.c.user_id == encode_text(user_id))
        selected = selected.where(table.c.session_id.in_(of_user))
    return selected.order_by(table.c.created_at.desc(), table.c.session_id.desc(), table.c.seq.desc())


def unfinished(connection: sa.Connection, *, limit: int) -> tuple[str, ...]:
    """Return the ids of sessions with an open turn, the oldest turn first."""
    selected = (
        sa.select(turns.c.session_id).where(turns.c.state == OPEN).order_by(turns.c.created_at, turns.c.session_id)
    )
    return tuple(map(decode_text, connection.execute(selected.limit(_check_limit(limit))).scalars()))


def _rows(connection: sa.Connection, selected: sa.Select[Any]) -> list[sa.RowMapping]:
    return list(connection.execute(selected).mappings())


def _check_limit(limit: int) -> int:
    check_integer("limit", limit)
    if not 1 <= limit <= MAX_ROWS:
        raise StoreError(f"limit must be from 1 to {MAX_ROWS}")
    return limit


def _decode_cursor(cursor: str) -> tuple[int, str]:
    try:
        at, last_id = from_json(base64.urlsafe_b64decode(cursor.encode()))
        if isinstance(at, int) and isinstance(last_id, str) and -(2**63) <= at < 2**63:
            return at, encode_text(decode_text(last_id))
    except MALFORMED_DATA_ERRORS:
        pass
    raise StoreError("this is not a cursor of this store: start with the first page")


def _contains(connection: sa.Connection, folded_query: str) -> sa.ColumnElement[bool]:
    """Return the condition on messages. Nothing in ``folded_query`` is a pattern, an operator or SQL."""
    if connection.dialect.name != "sqlite":
        # LIKE, because an index with gin_trgm_ops supports it.
        return messages.c.search_text.contains(folded_query, autoescape=True)
    condition: sa.ColumnElement[bool] = sa.func.instr(messages.c.search_text, folded_query) > 0
    if len(folded_query) < _PIECE or not sa.inspect(connection).has_table(SEARCH_TABLE):
        return condition
    pieces = dict.fromkeys(folded_query[start : start + _PIECE] for start in range(len(folded_query) - _PIECE + 1))
    wanted = " AND ".join('"' + piece.replace('"', '""') + '"' for piece in list(pieces)[:_MAX_PIECES])
    candidates: sa.Select[Any] = (
        sa.select(column("rowid"))
        .select_from(sa.table(SEARCH_TABLE))
        .where(sa.text(f"{SEARCH_TABLE} MATCH :wanted").bindparams(wanted=wanted))
    )
    return sa.literal_column("messages.rowid").in_(candidates.scalar_subquery()) & condition
