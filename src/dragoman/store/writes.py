"""Transactions that write. Each takes the connection that it runs on.

A turn, or a step, begins with a statement that advances the session and adds the messages. PostgreSQL does both in one
statement, which takes all messages as one JSON text: a turn that has only messages is one round trip, and so is a step
that only begins or ends an open turn. SQLite runs in this process, and takes a statement for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa
from pydantic_core import to_json
from sqlalchemy.exc import IntegrityError

from dragoman.canonical.message import Message
from dragoman.open_turns import TurnStep
from dragoman.store.columns import check_integer, encode_id, encode_optional, encode_optional_json
from dragoman.store.errors import ConflictError, SessionNotFoundError, StoreError
from dragoman.store.records import SessionRecord
from dragoman.store.rows import attempt_row, message_row, session_row
from dragoman.store.schema import attempts, messages, sessions, tool_calls, tool_ids
from dragoman.store.turns import (
    CANCELLED,
    PENDING,
    begin_turn,
    end_turn,
    is_simple,
    save_step,
    save_tool_calls,
    save_tool_ids,
    simple_values,
)

Values = Mapping[str, Any]

_MAX_VERSION = 2**63

# Built once: building a statement takes as long as running it.
_ADVANCE = (
    sa.update(sessions)
    .where(sessions.c.id == sa.bindparam("of_session"))
    .values(
        version=sessions.c.version + 1,
        next_seq=sessions.c.next_seq + sa.bindparam("added"),
        updated_at=sa.bindparam("moment"),
        active_model=sa.func.coalesce(sa.bindparam("answering", type_=sa.Text()), sessions.c.active_model),
    )
    .returning(sessions.c.version, sessions.c.next_seq)
)
_ADVANCE_FROM_VERSION = _ADVANCE.where(sessions.c.version == sa.bindparam("seen"))


@cache
def _in_one_statement(*, expects: bool, adds: bool, begins: bool, ends: bool) -> sa.Select[Any]:
    """Return the statement that advances a session, adds messages, and begins or ends its open turn. It does nothing if
    no session is advanced.
    """
    advanced = (_ADVANCE_FROM_VERSION if expects else _ADVANCE).cte("advanced")
    statement = sa.select(advanced.c.version, advanced.c.next_seq)
    if adds:
        columns = [sa.Column(column.name, column.type) for column in messages.c]
        read = sa.func.json_to_recordset(sa.cast(sa.bindparam("rows", type_=sa.Text()), sa.JSON))
        new = read.table_valued(*columns, name="new", joins_implicitly=True).render_derived(with_types=True)
        known = {
            "session_id": sa.bindparam("of_session"),
            "seq": advanced.c.next_seq - sa.bindparam("added") + new.c.seq,
        }
        selected = sa.select(*(known.get(column.name, new.c[column.name]) for column in messages.c))
        inserted = sa.insert(messages).from_select(
            [column.name for column in messages.c], selected.select_from(advanced)
        )
        statement = statement.add_cte(inserted.cte("kept"))
    if begins:
        statement = statement.add_cte(begin_turn(advanced).cte("begun"))
    if ends:
        statement = statement.add_cte(end_turn(advanced).cte("ended"))
    return statement


_INSERT = sa.insert(messages)
_MAX_NAMED = 5
"""Sessions that an error names."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One turn, or one step. The first ``inherited`` messages are copies that another session was billed for."""

    messages: tuple[Message, ...] = ()
    attempts: tuple[Message, ...] = ()
    tool_ids: Mapping[str, Any] = field(default_factory=dict)
    extensions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    inherited: int = 0
    step: TurnStep | None = None

    def __post_init__(self) -> None:
        unknown = self.extensions.keys() - {message.id for message in self.messages}
        if unknown:
            raise StoreError(f"extensions of {min(unknown)!r:.80}, which is not a message of this turn")
        for messages_of_kind in (self.messages, self.attempts):
            if len({message.id for message in messages_of_kind}) < len(messages_of_kind):
                raise ConflictError("two messages of the turn have the same id")

    def __bool__(self) -> bool:
        return bool(self.messages or self.attempts or self.tool_ids or self.step)

    @property
    def is_one_statement(self) -> bool:
        """Whether `append` is one statement on PostgreSQL: there are only messages, no tool in them, and a step that
        only begins or ends a turn.
        """
        tools = any(block.type in ("tool_use", "tool_result") for message in self.messages for block in message.content)
        return not (tools or self.attempts or self.tool_ids) and (self.step is None or is_simple(self.step))


def create(connection: sa.Connection, made: Sequence[tuple[SessionRecord, TurnRecord]]) -> None:
    """Raise ConflictError if an id is taken."""
    if not made:
        return
    new_sessions = [session_row(record, next_seq=len(turn.messages)) for record, turn in made]
    try:
        connection.execute(sa.insert(sessions), new_sessions)
    except IntegrityError:
        names = ", ".join(f"{record.id!r:.80}" for record, _ in made[:_MAX_NAMED])
        taken = f"a session {names}" if len(made) == 1 else f"one of {len(made)} sessions ({names})"
        raise ConflictError(f"{taken} exists already") from None
    turns = [(row, record, turn) for row, (record, turn) in zip(new_sessions, made, strict=True)]
    if new_messages := [each for row, _, turn in turns for each in _message_rows(row["id"], turn)]:
        try:
            connection.execute(sa.insert(messages), new_messages)
        except IntegrityError:
            raise _duplicate_message_error() from None
    for row, record, turn in turns:
        _save_related(connection, row["id"], 0, turn)
        if turn.step is not None:
            save_step(connection, row["id"], record.version, turn.step, row["created_at"])


def append(
    connection: sa.Connection, session_id: str, turn: TurnRecord, *, expected: int | None, now: int, model: str | None
) -> int:
    """Return the new version. The session's row is updated first: its lock admits one writer."""
    row_id = encode_id(session_id, "the session's id")
    rows = _message_rows(row_id, turn)
    step = turn.step if connection.dialect.name == "postgresql" and turn.is_one_statement else None
    try:
        session = _advance_session(connection, row_id, rows, expected=expected, now=now, model=model, step=step)
    except IntegrityError:
        raise _duplicate_message_error() from None
    _save_related(connection, row_id, session.next_seq - len(rows), turn)
    version: int = session.version
    if turn.step is not None and step is None:
        save_step(connection, row_id, version, turn.step, now)
    return version


def annotate(
    connection: sa.Connection, session_id: str, message_id: str, extensions: Values, expected: int | None, now: int
) -> int:
    """Replace the extensions of one message. Returns the new version."""
    row_id = encode_id(session_id, "the session's id")
    session = _advance_session(connection, row_id, (), expected=expected, now=now, model=None)
    condition = (messages.c.session_id == row_id) & (messages.c.id == encode_id(message_id, "the message's id"))
    result = connection.execute(
        sa.update(messages).where(condition).values(extensions_json=encode_optional_json(extensions))
    )
    if not result.rowcount:
        raise StoreError(f"the session has no message {message_id!r:.80} to annotate")
    version: int = session.version
    return version


def _advance_session(
    connection: sa.Connection,
    row_id: str,
    rows: Sequence[Values],
    *,
    expected: int | None,
    now: int,
    model: str | None,
    step: TurnStep | None = None,
) -> sa.Row[Any]:
    """Return the session's new ``version`` and ``next_seq``. ``rows`` are the messages, with their index in the turn as
    ``seq``. ``step`` is simple.

    Raises SessionNotFoundError, ConflictError for another version than expected, and IntegrityError if the session has
    a message with one of the ids.
    """
    values = {"of_session": row_id, "added": len(rows), "moment": now, "answering": encode_optional(model)}
    if expected is not None:
        check_integer("expected_version", expected)
        values["seen"] = expected if 0 <= expected < _MAX_VERSION else -1
    session: sa.Row[Any] | None
    if (rows or step) and connection.dialect.name == "postgresql":
        if rows:
            values["rows"] = to_json(rows).decode()
        if step is not None:
            values |= simple_values(row_id, step, now)
        statement = _in_one_statement(
            expects=expected is not None,
            adds=bool(rows),
            begins=step is not None and step.begins,
            ends=step is not None and not step.begins,
        )
        session = connection.execute(statement, values).one_or_none()
    else:
        session = _advance_in_steps(connection, rows, values)
    if session is None:
        found = connection.execute(sa.select(sessions.c.version).where(sessions.c.id == row_id)).scalar_one_or_none()
        if found is None:
            raise session_not_found(row_id)
        raise ConflictError(
            f"the session is at version {found}, not {expected}: load it again; nothing was overwritten",
            expected=expected,
            found=found,
        )
    return session


def _advance_in_steps(connection: sa.Connection, rows: Sequence[Values], values: Values) -> sa.Row[Any] | None:
    """Return the session's new ``version`` and ``next_seq``, None if there is no such session or version."""
    session = connection.execute(_ADVANCE_FROM_VERSION if "seen" in values else _ADVANCE, values).one_or_none()
    if session is not None and not all(isinstance(number, int) for number in session):  # a damaged row of SQLite
        raise StoreError("the session's row holds values that cannot be read: restore a backup")
    if rows and session is not None:
        first = session.next_seq - len(rows)
        connection.execute(_INSERT, [{**row, "seq": first + row["seq"]} for row in rows])
    return session


def delete_session(connection: sa.Connection, session_id: str) -> None:
    """Delete the session; its foreign keys delete the rest."""
    result = connection.execute(sa.delete(sessions).where(sessions.c.id == encode_id(session_id, "the session's id")))
    if not result.rowcount:
        raise session_not_found(session_id)


def session_not_found(session_id: str) -> SessionNotFoundError:
    return SessionNotFoundError(f"the store has no session {session_id!r:.80}")


def _message_rows(session_id: str, turn: TurnRecord) -> list[dict[str, Any]]:
    """``seq`` is the index in the turn."""
    return [
        message_row(message, session_id, place, turn.extensions.get(message.id), inherited=place < turn.inherited)
        for place, message in enumerate(turn.messages)
    ]


def _duplicate_message_error() -> ConflictError:
    return ConflictError("the session has a message with one of these ids already")


def _save_related(connection: sa.Connection, session_id: str, first: int, turn: TurnRecord) -> None:
    """Write the rest of a turn; ``first`` is the index of its first message in the session."""
    if turn.attempts:
        query = sa.select(sa.func.max(attempts.c.seq)).where(attempts.c.session_id == session_id)
        last = connection.execute(query).scalar_one()
        broken = enumerate(turn.attempts, 0 if last is None else last + 1)
        connection.execute(sa.insert(attempts), [attempt_row(message, session_id, seq) for seq, message in broken])
    if turn.tool_ids:
        save_tool_ids(connection, session_id, turn.tool_ids)
    save_tool_calls(connection, session_id, enumerate(turn.messages, first), turn.tool_ids.get("issued", {}))


def fork(connection: sa.Connection, session_id: str, message_id: str | None, new_id: str, now: int) -> None:
    """Copy the rows of a session into a new one, up to that message; None copies all. Raises SessionNotFoundError and
    ConflictError.

    Rows are read, and written under the new id, in separate statements: on a cluster the two sessions may be on
    different machines.
    """
    old, new = encode_id(session_id, "the session's id"), encode_id(new_id, "the session's id")
    # Locked, so that it is neither deleted nor appended to; SQLite has one writer anyway.
    locked = sa.select(sessions).where(sessions.c.id == old).with_for_update(read=True)
    session = connection.execute(locked).mappings().one_or_none()
    if session is None:
        raise session_not_found(session_id)
    count = session["next_seq"]
    if message_id is not None:
        is_last = (messages.c.session_id == old) & (messages.c.id == encode_id(message_id, "the message's id"))
        last: int | None = connection.execute(sa.select(messages.c.seq).where(is_last)).scalar_one_or_none()
        if last is None:
            raise SessionNotFoundError(f"the session {session_id!r:.80} has no message {message_id!r:.80}")
        count = last + 1
    message_rows = _read_rows(connection, messages, old, messages.c.seq, before=count)
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
        connection.execute(sa.insert(sessions), {**session, **changed})
    except IntegrityError:
        raise ConflictError(f"a session {new_id!r:.80} exists already") from None
    copied_ids = {row["id"] for row in message_rows}
    call_rows = _read_rows(connection, tool_calls, old, tool_calls.c.seq, before=count)
    for call in call_rows:
        # A call is pending again if its result comes after the last copied message, or is not in the history yet.
        if call["status"] != CANCELLED and call["result_message_id"] not in copied_ids:
            call.update(status=PENDING, result_message_id=None, completed_at=None, started_at=None, result_json=None)
    id_rows = _read_rows(connection, tool_ids, old, tool_ids.c.number)
    _insert_rows(connection, messages, new, [{**row, "inherited": True} for row in message_rows])
    _insert_rows(connection, tool_calls, new, call_rows)
    _insert_rows(connection, tool_ids, new, [{name: row[name] for name in row if name != "number"} for row in id_rows])


def _read_rows(
    connection: sa.Connection, table: sa.Table, session_id: str, order: sa.ColumnElement[Any], before: int | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a session, in order: all, or those whose value of the order is less than ``before``."""
    query = sa.select(table).where(table.c.session_id == session_id).order_by(order)
    if before is not None:
        query = query.where(order < before)
    return [dict(row) for row in connection.execute(query).mappings()]


def _insert_rows(connection: sa.Connection, table: sa.Table, session_id: str, rows: Sequence[Values]) -> None:
    if rows:
        connection.execute(sa.insert(table), [{**row, "session_id": session_id} for row in rows])
