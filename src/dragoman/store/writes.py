"""Transactions that change something. Each takes the connection whose transaction it runs in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from dragoman.adapter.requests.tool_ids import ToolIdMap
from dragoman.canonical.message import Message
from dragoman.store.advance import advance
from dragoman.store.columns import encode_id, encode_optional, encode_optional_json
from dragoman.store.errors import ConflictError, SessionNotFoundError, StoreError
from dragoman.store.records import SessionRecord
from dragoman.store.rows import attempt_row, message_row, session_row
from dragoman.store.schema import attempts, messages, sessions
from dragoman.store.tool_calls import save_tool_calls, save_tool_ids

_MAX_VERSION = 2**63


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """What is kept together. The first ``inherited`` messages are copies that another session was billed for."""

    messages: tuple[Message, ...] = ()
    attempts: tuple[Message, ...] = ()
    tool_ids: Mapping[str, Any] = field(default_factory=dict)
    extensions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    inherited: int = 0

    def __post_init__(self) -> None:
        unknown = self.extensions.keys() - {message.id for message in self.messages}
        if unknown:
            raise StoreError(f"extensions of {min(unknown)!r:.80}, which is no message of this turn")
        for messages_of_kind in (self.messages, self.attempts):
            if len({message.id for message in messages_of_kind}) < len(messages_of_kind):
                raise ConflictError("two messages of the turn have the same id")

    def __bool__(self) -> bool:
        return bool(self.messages or self.attempts or self.tool_ids)

    @property
    def is_one_statement(self) -> bool:
        """Whether `append` changes nothing after `advance`: the turn has messages alone, and no tool in them."""
        tools = any(block.type in ("tool_use", "tool_result") for message in self.messages for block in message.content)
        return not (tools or self.attempts or self.tool_ids)


def dump_tool_ids(tool_ids: ToolIdMap | Mapping[str, Any] | None) -> Mapping[str, Any]:
    return tool_ids.dump() if isinstance(tool_ids, ToolIdMap) else tool_ids or {}


def create(connection: Connection, record: SessionRecord, turn: TurnRecord) -> None:
    """Raises ConflictError where a session of that id is there already."""
    row = session_row(record, next_seq=len(turn.messages))
    try:
        connection.execute(insert(sessions), row)
    except IntegrityError:
        raise ConflictError(f"a session {record.id!r:.80} is there already") from None
    rows = _message_rows(row["id"], turn)
    if rows:
        try:
            connection.execute(insert(messages), rows)
        except IntegrityError:
            raise _duplicate_message_error() from None
    _save_related(connection, row["id"], 0, turn)


def append(
    connection: Connection, session_id: str, turn: TurnRecord, *, expected: int | None, now: int, model: str | None
) -> int:
    """The new version. The session's row is changed first: whoever holds it is the only one who appends."""
    row_id = encode_id(session_id, "the session's id")
    rows = _message_rows(row_id, turn)
    try:
        session = _advance_session(connection, row_id, rows, expected=expected, now=now, model=model)
    except IntegrityError:
        raise _duplicate_message_error() from None
    _save_related(connection, row_id, session.next_seq - len(rows), turn)
    version: int = session.version
    return version


def annotate(
    connection: Connection,
    session_id: str,
    message_id: str,
    extensions: Mapping[str, Any],
    *,
    expected: int | None,
    now: int,
) -> int:
    """The new version. What is kept beside one message is written anew."""
    row_id = encode_id(session_id, "the session's id")
    session = _advance_session(connection, row_id, (), expected=expected, now=now, model=None)
    condition = (messages.c.session_id == row_id) & (messages.c.id == encode_id(message_id, "the message's id"))
    result = connection.execute(
        update(messages).where(condition).values(extensions_json=encode_optional_json(extensions))
    )
    if not result.rowcount:
        raise StoreError(f"the session has no message {message_id!r:.80} that anything could be kept beside")
    version: int = session.version
    return version


def _advance_session(
    connection: Connection,
    row_id: str,
    rows: Sequence[dict[str, Any]],
    *,
    expected: int | None,
    now: int,
    model: str | None,
) -> Row[Any]:
    """The session's row, moved on. Raises SessionNotFoundError and ConflictError."""
    expected_version = expected if expected is None or 0 <= expected < _MAX_VERSION else -1
    session = advance(connection, row_id, rows, expected_version, moment=now, answering=encode_optional(model))
    if session is None:
        found = connection.execute(select(sessions.c.version).where(sessions.c.id == row_id)).scalar_one_or_none()
        if found is None:
            raise session_not_found(row_id)
        raise ConflictError(
            f"the session is at version {found}, not {expected}: load it again, and nothing is overwritten",
            expected=expected,
            found=found,
        )
    return session


def delete_session(connection: Connection, session_id: str) -> None:
    """Everything that hangs on the session goes with it, by its foreign keys."""
    result = connection.execute(delete(sessions).where(sessions.c.id == encode_id(session_id, "the session's id")))
    if not result.rowcount:
        raise session_not_found(session_id)


def session_not_found(session_id: str) -> SessionNotFoundError:
    return SessionNotFoundError(f"the store has no session {session_id!r:.80}")


def _message_rows(session_id: str, turn: TurnRecord) -> list[dict[str, Any]]:
    """Their ``seq`` is their place in the turn."""
    return [
        message_row(message, session_id, place, turn.extensions.get(message.id), inherited=place < turn.inherited)
        for place, message in enumerate(turn.messages)
    ]


def _duplicate_message_error() -> ConflictError:
    return ConflictError("the session has a message with one of these ids already")


def _save_related(connection: Connection, session_id: str, first: int, turn: TurnRecord) -> None:
    """What a turn has beside its messages, the first of which is at that place of the session."""
    if turn.attempts:
        _save_attempts(connection, session_id, turn.attempts)
    save_tool_ids(connection, session_id, turn.tool_ids)
    save_tool_calls(connection, session_id, enumerate(turn.messages, first), turn.tool_ids.get("issued", {}))


def _save_attempts(connection: Connection, session_id: str, broken: Sequence[Message]) -> None:
    query = select(func.max(attempts.c.seq)).where(attempts.c.session_id == session_id)
    last = connection.execute(query).scalar_one()
    first = 0 if last is None else last + 1
    rows = [attempt_row(message, session_id, seq) for seq, message in enumerate(broken, first)]
    connection.execute(insert(attempts), rows)
