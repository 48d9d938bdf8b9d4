"""A fork: a session that begins with the rows of another one, as they are.

They are read, and written again under the new id, in statements of their own: on a cluster the two sessions may be on
different machines, and no statement is about both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, Table, insert, select
from sqlalchemy.exc import IntegrityError

from dragoman.store.columns import encode_id
from dragoman.store.errors import ConflictError, SessionNotFoundError
from dragoman.store.schema import messages, sessions, tool_calls, tool_ids
from dragoman.store.tool_calls import CANCELLED, PENDING
from dragoman.store.writes import session_not_found

Values = Mapping[str, Any]


def fork(connection: Connection, session_id: str, message_id: str | None, new_id: str, now: int) -> None:
    """Up to that message; None means all. Raises SessionNotFoundError and ConflictError."""
    old, new = encode_id(session_id, "the session's id"), encode_id(new_id, "the session's id")
    # Held, so that it is neither deleted nor appended to meanwhile; SQLite has one writer anyway.
    locked = select(sessions).where(sessions.c.id == old).with_for_update(read=True)
    session = connection.execute(locked).mappings().one_or_none()
    if session is None:
        raise session_not_found(session_id)
    count = session["next_seq"] if message_id is None else _find_seq(connection, session_id, message_id) + 1
    message_rows = _rows(
        connection, _select_session(messages, old).where(messages.c.seq < count).order_by(messages.c.seq)
    )
    changed = {
        "id": new,
        "version": 0,
        "next_seq": count,
        "parent_session_id": old,
        "parent_message_id": message_rows[-1]["id"] if message_rows else None,
        "created_at": now,
        "updated_at": now,
    }
    try:
        connection.execute(insert(sessions), {**session, **changed})
    except IntegrityError:
        raise ConflictError(f"a session {new_id!r:.80} is there already") from None
    copied_ids = {row["id"] for row in message_rows}
    call_rows = _rows(connection, _select_session(tool_calls, old).where(tool_calls.c.seq < count))
    id_rows = _rows(connection, _select_session(tool_ids, old).order_by(tool_ids.c.number))
    _add(connection, messages, new, [{**row, "inherited": True} for row in message_rows])
    _add(connection, tool_calls, new, [_reopen_call(row, copied_ids) for row in call_rows])
    _add(connection, tool_ids, new, [{name: row[name] for name in row if name != "number"} for row in id_rows])


def _find_seq(connection: Connection, session_id: str, message_id: str) -> int:
    is_message = messages.c.id == encode_id(message_id, "the message's id")
    query = select(messages.c.seq).where(messages.c.session_id == encode_id(session_id, "the session's id"), is_message)
    seq: int | None = connection.execute(query).scalar_one_or_none()
    if seq is None:
        raise SessionNotFoundError(f"the session {session_id!r:.80} has no message {message_id!r:.80}")
    return seq


def _reopen_call(call: Values, copied_ids: set[str]) -> Values:
    """A call whose result comes after the last message that was copied is pending again."""
    if call["status"] == CANCELLED or call["result_message_id"] is None or call["result_message_id"] in copied_ids:
        return call
    return {**call, "status": PENDING, "result_message_id": None, "completed_at": None}


def _select_session(table: Table, session_id: str) -> Select[Any]:
    return select(table).where(table.c.session_id == session_id)


def _rows(connection: Connection, query: Select[Any]) -> list[Values]:
    return [dict(row) for row in connection.execute(query).mappings()]


def _add(connection: Connection, table: Table, session_id: str, rows: Sequence[Values]) -> None:
    if rows:
        connection.execute(insert(table), [{**row, "session_id": session_id} for row in rows])
