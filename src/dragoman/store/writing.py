"""Transactions that change something. Each takes the connection whose transaction it runs in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Text, bindparam, delete, func, insert, literal, select, update
from sqlalchemy.exc import IntegrityError

from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.message import Message
from dragoman.store.columns import key, optional
from dragoman.store.errors import ConflictError, SessionNotFoundError, StoreError
from dragoman.store.records import SessionRecord
from dragoman.store.rows import attempt_row, message_row, session_row
from dragoman.store.schema import attempts, messages, sessions, tool_calls, tool_ids
from dragoman.store.tools import CANCELLED, PENDING, keep_calls, keep_tool_ids

_MOST = 2**63

# Made once: to build a statement takes as long as to run it.
_ADVANCE = (
    update(sessions)
    .where(sessions.c.id == bindparam("of_session"))
    .values(
        version=sessions.c.version + 1,
        next_seq=sessions.c.next_seq + bindparam("added"),
        updated_at=bindparam("moment"),
        active_model=func.coalesce(bindparam("answering", type_=Text()), sessions.c.active_model),
    )
    .returning(sessions.c.version, sessions.c.next_seq)
)
_ADVANCE_FROM = _ADVANCE.where(sessions.c.version == bindparam("seen"))
# With RETURNING the rows go in one statement, instead of one each.
_INSERT_MESSAGES = insert(messages).returning(messages.c.number)


@dataclass(frozen=True, slots=True)
class Turn:
    """What is kept together. The first ``inherited`` messages are copies that another session was billed for."""

    messages: tuple[Message, ...] = ()
    attempts: tuple[Message, ...] = ()
    tool_ids: Mapping[str, Any] = field(default_factory=dict)
    extensions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    inherited: int = 0

    def __post_init__(self) -> None:
        strange = self.extensions.keys() - {message.id for message in self.messages}
        if strange:
            raise StoreError(f"extensions of {min(strange)!r:.80}, which is no message of this turn")
        for said in (self.messages, self.attempts):
            if len({message.id for message in said}) < len(said):
                raise ConflictError("two messages of the turn have the same id")

    def __bool__(self) -> bool:
        return bool(self.messages or self.attempts or self.tool_ids)


def dumped(tool_ids: ToolIdMap | Mapping[str, Any] | None) -> Mapping[str, Any]:
    return tool_ids.dump() if isinstance(tool_ids, ToolIdMap) else tool_ids or {}


def create(connection: Connection, record: SessionRecord, turn: Turn) -> None:
    """Raises ConflictError where a session of that id is there already."""
    row = session_row(record, next_seq=len(turn.messages))
    try:
        connection.execute(insert(sessions), row)
    except IntegrityError:
        raise ConflictError(f"a session {record.id!r:.80} is there already") from None
    _keep(connection, row["id"], 0, turn)


def append(
    connection: Connection, session_id: str, turn: Turn, *, expected: int | None, now: int, model: str | None
) -> int:
    """The new version. The session's row is changed first: whoever holds it is the only one who appends."""
    row_id = key(session_id, "the session's id")
    values = {"of_session": row_id, "added": len(turn.messages), "moment": now, "answering": optional(model)}
    if expected is None:
        changed = connection.execute(_ADVANCE, values).one_or_none()
    else:
        seen = expected if 0 <= expected < _MOST else -1
        changed = connection.execute(_ADVANCE_FROM, {**values, "seen": seen}).one_or_none()
    if changed is None:
        found = connection.execute(select(sessions.c.version).where(sessions.c.id == row_id)).scalar_one_or_none()
        if found is None:
            raise missing(session_id)
        raise ConflictError(
            f"the session is at version {found}, not {expected}: load it again, and nothing is overwritten",
            expected=expected,
            found=found,
        )
    _keep(connection, row_id, changed.next_seq - len(turn.messages), turn)
    version: int = changed.version
    return version


def remove(connection: Connection, session_id: str) -> None:
    """Everything that hangs on the session goes with it, by its foreign keys."""
    gone = connection.execute(delete(sessions).where(sessions.c.id == key(session_id, "the session's id")))
    if not gone.rowcount:
        raise missing(session_id)


def fork(connection: Connection, session_id: str, message_id: str | None, new_id: str, now: int) -> None:
    """Copies the rows as they are, up to that message."""
    old, new = key(session_id, "the session's id"), key(new_id, "the session's id")
    # Held, so that it is not deleted meanwhile; SQLite has one writer anyway.
    held = select(sessions.c.next_seq).where(sessions.c.id == old).with_for_update(read=True)
    next_seq = connection.execute(held).scalar_one_or_none()
    if next_seq is None:
        raise missing(session_id)
    last = _last(connection, session_id, old, message_id, next_seq)
    count = 0 if last is None else last.seq + 1
    _copy_session(connection, old, new, None if last is None else last.id, count, now)
    _copy(connection, messages, old, new, count, inherited=literal(True))
    _copy(connection, tool_calls, old, new, count)
    _copy(connection, tool_ids, old, new, None)
    kept = select(messages.c.id).where(messages.c.session_id == new)
    connection.execute(
        update(tool_calls)
        .where(tool_calls.c.session_id == new, tool_calls.c.status != CANCELLED)
        .where(tool_calls.c.result_message_id.not_in(kept))
        .values(status=PENDING, result_message_id=None, completed_at=None)
    )


def missing(session_id: str) -> SessionNotFoundError:
    return SessionNotFoundError(f"the store has no session {session_id!r:.80}")


def _keep(connection: Connection, session_id: str, first: int, turn: Turn) -> None:
    numbered = list(enumerate(turn.messages, first))
    rows = [
        message_row(message, session_id, seq, turn.extensions.get(message.id), inherited=seq - first < turn.inherited)
        for seq, message in numbered
    ]
    if rows:
        try:
            connection.execute(_INSERT_MESSAGES, rows)
        except IntegrityError:
            raise ConflictError("the session has a message with one of these ids already") from None
    if turn.attempts:
        _keep_attempts(connection, session_id, turn.attempts)
    keep_tool_ids(connection, session_id, turn.tool_ids)
    keep_calls(connection, session_id, numbered, turn.tool_ids.get("issued", {}))


def _keep_attempts(connection: Connection, session_id: str, broken: Sequence[Message]) -> None:
    newest = select(func.max(attempts.c.seq)).where(attempts.c.session_id == session_id)
    last = connection.execute(newest).scalar_one()
    first = 0 if last is None else last + 1
    rows = [attempt_row(message, session_id, seq) for seq, message in enumerate(broken, first)]
    connection.execute(insert(attempts), rows)


def _last(connection: Connection, session_id: str, row_id: str, message_id: str | None, next_seq: int) -> Any:
    """The last row to copy; None where there is none."""
    wanted = messages.c.seq == next_seq - 1 if message_id is None else messages.c.id == key(message_id, "the message")
    row = connection.execute(
        select(messages.c.seq, messages.c.id).where(messages.c.session_id == row_id, wanted)
    ).one_or_none()
    if row is None and message_id is not None:
        raise SessionNotFoundError(f"the session {session_id!r:.80} has no message {message_id!r:.80}")
    return row


def _copy_session(connection: Connection, old: str, new: str, last: str | None, count: int, now: int) -> None:
    changed = {
        "id": new,
        "version": 0,
        "next_seq": count,
        "parent_session_id": old,
        "parent_message_id": last,
        "created_at": now,
        "updated_at": now,
    }
    values = [literal(changed[column.name]) if column.name in changed else column for column in sessions.c]
    source = select(*values).where(sessions.c.id == old)
    try:
        connection.execute(insert(sessions).from_select([column.name for column in sessions.c], source))
    except IntegrityError:
        raise ConflictError(f"a session {new!r:.80} is there already") from None


def _copy(connection: Connection, table: Any, old: str, new: str, count: int | None, **changed: Any) -> None:
    columns = [column for column in table.c if column.name != "number"]
    values = [literal(new) if column.name == "session_id" else changed.get(column.name, column) for column in columns]
    source = select(*values).where(table.c.session_id == old)
    if count is None:
        source = source.order_by(table.c.number)
    else:
        source = source.where(table.c.seq < count).order_by(table.c.seq)
    connection.execute(insert(table).from_select([column.name for column in columns], source))
