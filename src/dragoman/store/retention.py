"""Deletes the data of a user, and enforces how long data may be kept: redacts or deletes what is due, and records
what it did.

A message that holds data with a retention policy is stored with its end. The messages after it may repeat the data, so
they end with it, until the data is gone.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.extensions.message_labels import EARLIER_RECORDS, RECORDS
from dragoman.canonical.extensions.security import RETENTION, read_retention
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.store import columns
from dragoman.store.errors import StoreError
from dragoman.store.records import RetentionAction, RetentionRecord, UserDeletion
from dragoman.store.rows import attempt_row, extensions_from_row, message_from_row, message_row
from dragoman.store.schema import attempts, messages, retention_records, sessions, tool_calls, tool_ids, turns
from dragoman.store.writes import delete_session

DELETED = "[deleted]"
KEPT_METADATA = (
    "model", "provider", "status", "stop_reason", "usage", "team_id", "parent_tool_use_id", "summary_of",
)  # fmt: skip


def delete_user(connection: sa.Connection, user_id: str, now: int) -> UserDeletion:
    """Delete the user's sessions, and the user's words in the sessions of others.

    A session of others keeps its order and its ids, so that it can be continued: of a user's message there, the content
    is replaced, the calls lose their input, and the metadata names nobody.
    """
    if not isinstance(user_id, str) or not user_id:
        raise StoreError("name the user whose data is to be deleted")
    user = columns.encode_text(user_id)
    own = sa.select(sessions.c.id).where(sessions.c.user_id == user)
    is_shared = sa.or_(sessions.c.user_id.is_(None), sessions.c.user_id != user)
    forks = connection.execute(
        sa.select(sessions.c.id).where(sessions.c.parent_session_id.in_(own), is_shared).order_by(sessions.c.id)
    ).scalars()
    forked = tuple(map(columns.decode_text, forks))
    related = (messages, attempts, tool_calls, tool_ids)
    counts: dict[str, Any] = {
        table.name: connection.execute(
            sa.select(sa.func.count()).select_from(table).where(table.c.session_id.in_(own))
        ).scalar_one()
        for table in related
    }
    deleted = connection.execute(sa.delete(sessions).where(sessions.c.user_id == user)).rowcount
    shared: set[str] = set()
    erased = 0
    for table in (messages, attempts):
        places = sa.select(table.c.session_id, table.c.seq).where(table.c.user_id == user)
        for session_id, seq in connection.execute(places).all():
            erase(connection, table, session_id, seq)
            shared.add(session_id)
            erased += 1
    shared.update(connection.execute(sa.select(turns.c.session_id).where(turns.c.user_id == user)).scalars())
    connection.execute(sa.delete(turns).where(turns.c.user_id == user))
    for session_id in shared:
        advanced = sa.update(sessions).where(sessions.c.id == session_id)
        connection.execute(advanced.values(version=sessions.c.version + 1, updated_at=now))
    return UserDeletion(
        user_id=user_id,
        sessions=deleted,
        **counts,
        shared_sessions=tuple(sorted(map(columns.decode_text, shared))),
        erased=erased,
        forks=forked,
    )


def erase(
    connection: sa.Connection,
    table: sa.Table,
    session_id: str,
    seq: int,
    *,
    extensions: Mapping[str, Any] | None = None,
    kept_metadata: tuple[str, ...] = KEPT_METADATA,
) -> None:
    """Replace the row of a message or an attempt; ``extensions`` are those that a message keeps.

    The row is deleted and inserted, because the full-text index follows these two alone.
    """
    key = (table.c.session_id == session_id) & (table.c.seq == seq)
    row = connection.execute(sa.select(table).where(key)).mappings().one()
    message = message_from_row(row)
    blocks: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolUseBlock):  # calls and results stay as pairs, which providers insist on
            blocks.append(ToolUseBlock(id=block.id, name=block.name, input={}))
        elif isinstance(block, ToolResultBlock):
            blocks.append(ToolResultBlock(tool_use_id=block.tool_use_id, content=(TextBlock(text=DELETED),)))
    erased = Message(
        id=message.id,
        session_id=message.session_id,
        role=message.role,
        content=tuple(blocks) or (TextBlock(text=DELETED),),
        created_at=message.created_at,
        metadata=MessageMetadata(**{name: getattr(message.metadata, name) for name in kept_metadata}),
    )
    if table is attempts:
        values = attempt_row(erased, session_id, seq)
    else:
        values = message_row(erased, session_id, seq, extensions, inherited=bool(row["inherited"]))
    connection.execute(sa.delete(table).where(key))
    connection.execute(sa.insert(table), values)
    if table is messages:
        of_message = (tool_calls.c.session_id == session_id) & (tool_calls.c.seq == seq)
        connection.execute(sa.update(tool_calls).where(of_message).values(result_json=None))


_REDACTED_METADATA = (*KEPT_METADATA, "user_id", "labels")
_HAS_RETENTION = messages.c.extensions_json.contains(f'"{RETENTION}"', autoescape=True)
_PROMPT_HAS_RETENTION = turns.c.prompt_json.contains(f'"{RETENTION}"', autoescape=True)
"""Both may be true of others too."""


def find_candidates(connection: sa.Connection) -> tuple[str, ...]:
    """Return the sessions with data that has an end, as the ids of their rows."""
    of_messages = sa.select(messages.c.session_id).where(_HAS_RETENTION)
    of_prompts = sa.select(turns.c.session_id).where(_PROMPT_HAS_RETENTION)
    return tuple(
        sorted({*connection.execute(of_messages.distinct()).scalars(), *connection.execute(of_prompts).scalars()})
    )


def enforce(
    connection: sa.Connection,
    row_id: str,
    *,
    action: RetentionAction,
    now: datetime,
    session_idle: timedelta,
    dry_run: bool,
) -> RetentionRecord | None:
    """Redact or delete what is due in one session. Return the record, or None if nothing is due."""
    session = sa.select(sessions.c.updated_at).where(sessions.c.id == row_id)
    # Locked, so that no turn is added meanwhile; SQLite has one writer anyway.
    used = connection.execute(session if dry_run else session.with_for_update()).scalar_one_or_none()
    if used is None:  # deleted in the meantime
        return None
    is_over = columns.from_micros(used) + session_idle <= now
    sources = [
        row
        for row in _select(connection, messages, row_id, _HAS_RETENTION)
        if (end := read_retention(extensions_from_row(row._mapping) or {})) is not None and _is_due(end, now, is_over)
    ]
    prompts = _due_prompts(connection, row_id, now, is_over)
    if not (sources or prompts):
        return None
    affected = []
    if sources:
        affected = _select(connection, messages, row_id, messages.c.seq >= min(row.seq for row in sources))
    begun = min(row.created_at for row in (*sources, *(row for row, _ in prompts)))
    broken = _select(connection, attempts, row_id, attempts.c.created_at >= begun)
    # The prompt of a turn that nobody has answered is in no message.
    unanswered = {name for _, ids in prompts for name in ids} - {columns.decode_text(row.id) for row in affected}
    record = RetentionRecord(
        session_id=columns.decode_text(row_id),
        action=action,
        at=now,
        messages=len(affected) + len(unanswered),
        attempts=len(broken),
        sources=(*(columns.decode_text(row.id) for row in sources), *sorted(unanswered)),
    )
    if dry_run:
        return record
    if action == "delete":
        delete_session(connection, record.session_id)
    else:
        for row in affected:
            # What stays of the extensions: labels and records, and that the end was enforced.
            known = extensions_from_row(row._mapping) or {}
            kept = {name: known[name] for name in known if name in ("security", RECORDS, EARLIER_RECORDS)}
            if RETENTION in known:
                kept[RETENTION] = {**known[RETENTION], "enforced": now.isoformat()}
            erase(connection, messages, row_id, row.seq, extensions=kept or None, kept_metadata=_REDACTED_METADATA)
        for row in broken:
            erase(connection, attempts, row_id, row.seq, kept_metadata=_REDACTED_METADATA)
        over = turns.c.session_id == row_id
        if not sources:  # an open turn repeats what it read
            over &= turns.c.number.in_([row.number for row, _ in prompts])
        connection.execute(sa.delete(turns).where(over))
        advanced = sa.update(sessions).where(sessions.c.id == row_id)
        connection.execute(advanced.values(version=sessions.c.version + 1))
    table = retention_records
    last = connection.execute(sa.select(sa.func.max(table.c.seq)).where(table.c.session_id == row_id)).scalar_one()
    row_of_record = {
        "session_id": row_id,
        "seq": 0 if last is None else last + 1,
        "at": columns.to_micros(record.at),
        "action": record.action,
        "messages": record.messages,
        "attempts": record.attempts,
        "sources_json": columns.encode_json(list(record.sources)),
    }
    connection.execute(sa.insert(table), row_of_record)
    return record


def read_records(connection: sa.Connection, session_id: str | None) -> tuple[RetentionRecord, ...]:
    """Return what was done, the oldest first."""
    table = retention_records
    query = sa.select(table).order_by(table.c.at, table.c.session_id, table.c.seq)
    if session_id is not None:
        query = query.where(table.c.session_id == columns.encode_text(session_id))
    return tuple(
        RetentionRecord(
            session_id=columns.decode_text(row.session_id),
            action=row.action,
            at=columns.from_micros(row.at),
            messages=row.messages,
            attempts=row.attempts,
            sources=tuple(columns.decode_json(row.sources_json)),
        )
        for row in connection.execute(query)
    )


def _due_prompts(
    connection: sa.Connection, row_id: str, now: datetime, session_is_over: bool
) -> list[tuple[sa.Row[Any], list[str]]]:
    """Return the open and failed turns whose prompt has data that is due, and the ids of these messages."""
    found = []
    for row in _select(connection, turns, row_id, _PROMPT_HAS_RETENTION, order=turns.c.number):
        try:
            kept = {entry["id"]: entry.get(RETENTION) for entry in columns.decode_json(row.prompt_json)}
        except columns.MALFORMED_DATA_ERRORS as error:
            raise columns.unreadable_error(f"a turn of the session {row_id!r:.80}", error) from None
        ids = [name for name, end in kept.items() if isinstance(end, Mapping) and _is_due(end, now, session_is_over)]
        if ids:
            found.append((row, ids))
    return found


def _is_due(retention: Mapping[str, Any], now: datetime, session_is_over: bool) -> bool:
    """A stored time that cannot be read is over."""
    if retention.get("session") and session_is_over:
        return True
    try:
        return "until" in retention and datetime.fromisoformat(retention["until"]) <= now
    except (TypeError, ValueError):
        return True


def _select(
    connection: sa.Connection, table: sa.Table, row_id: str, condition: sa.ColumnElement[bool], order: Any = None
) -> list[sa.Row[Any]]:
    query = sa.select(table).where(table.c.session_id == row_id, condition)
    query = query.order_by(table.c.seq if order is None else order)
    return [*connection.execute(query)]
