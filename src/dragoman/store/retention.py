"""Enforces how long data may be kept: redacts or deletes what is due, and records what it did.

A message that holds data with a retention policy is stored with its end. The messages after it may repeat the data, so
they end with it, until the data is gone.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, func, insert, select, update

from dragoman.canonical.extensions.message_labels import EARLIER_RECORDS, RECORDS
from dragoman.canonical.extensions.security import RETENTION, read_retention
from dragoman.store.columns import (
    MALFORMED_DATA_ERRORS,
    decode_json,
    decode_text,
    encode_json,
    encode_text,
    from_micros,
    to_micros,
    unreadable_error,
)
from dragoman.store.deletion import KEPT_METADATA, erase
from dragoman.store.records import RetentionAction, RetentionRecord
from dragoman.store.rows import extensions_from_row
from dragoman.store.schema import attempts, messages, retention_records, sessions, turns
from dragoman.store.writes import delete_session

_REDACTED_METADATA = (*KEPT_METADATA, "user_id", "labels")
_HAS_RETENTION = messages.c.extensions_json.contains(f'"{RETENTION}"', autoescape=True)
_PROMPT_HAS_RETENTION = turns.c.prompt_json.contains(f'"{RETENTION}"', autoescape=True)
"""Both may be true of others too."""


def find_candidates(connection: Connection) -> tuple[str, ...]:
    """Return the sessions with data that has an end, as the ids of their rows."""
    of_messages = select(messages.c.session_id).where(_HAS_RETENTION)
    of_prompts = select(turns.c.session_id).where(_PROMPT_HAS_RETENTION)
    return tuple(
        sorted({*connection.execute(of_messages.distinct()).scalars(), *connection.execute(of_prompts).scalars()})
    )


def enforce(
    connection: Connection,
    row_id: str,
    *,
    action: RetentionAction,
    now: datetime,
    session_idle: timedelta,
    dry_run: bool,
) -> RetentionRecord | None:
    """Redact or delete what is due in one session. Return the record, or None if nothing is due."""
    session = select(sessions.c.updated_at).where(sessions.c.id == row_id)
    # Locked, so that no turn is added meanwhile; SQLite has one writer anyway.
    used = connection.execute(session if dry_run else session.with_for_update()).scalar_one_or_none()
    if used is None:  # deleted in the meantime
        return None
    is_over = from_micros(used) + session_idle <= now
    sources = [row for row, retention in _sources(connection, row_id) if _is_due(retention, now, is_over)]
    prompts = _due_prompts(connection, row_id, now, is_over)
    if not (sources or prompts):
        return None
    affected = []
    if sources:
        affected = _select(connection, messages, row_id, messages.c.seq >= min(row.seq for row in sources))
    begun = min(row.created_at for row in (*sources, *(row for row, _ in prompts)))
    broken = _select(connection, attempts, row_id, attempts.c.created_at >= begun)
    # The prompt of a turn that nobody has answered is in no message.
    unanswered = {name for _, ids in prompts for name in ids} - {decode_text(row.id) for row in affected}
    record = RetentionRecord(
        session_id=decode_text(row_id),
        action=action,
        at=now,
        messages=len(affected) + len(unanswered),
        attempts=len(broken),
        sources=(*(decode_text(row.id) for row in sources), *sorted(unanswered)),
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
        connection.execute(delete(turns).where(over))
        advanced = update(sessions).where(sessions.c.id == row_id)
        connection.execute(advanced.values(version=sessions.c.version + 1))
    _save(connection, row_id, record)
    return record


def read_records(connection: Connection, session_id: str | None) -> tuple[RetentionRecord, ...]:
    """Return what was done, the oldest first."""
    table = retention_records
    query = select(table).order_by(table.c.at, table.c.session_id, table.c.seq)
    if session_id is not None:
        query = query.where(table.c.session_id == encode_text(session_id))
    return tuple(
        RetentionRecord(
            session_id=decode_text(row.session_id),
            action=row.action,
            at=from_micros(row.at),
            messages=row.messages,
            attempts=row.attempts,
            sources=tuple(decode_json(row.sources_json)),
        )
        for row in connection.execute(query)
    )


def _sources(connection: Connection, row_id: str) -> Iterator[tuple[Row[Any], Mapping[str, Any]]]:
    """Yield the messages whose data has an end that was not enforced yet, and this end."""
    for row in _select(connection, messages, row_id, _HAS_RETENTION):
        retention = read_retention(extensions_from_row(row._mapping) or {})
        if retention is not None:
            yield row, retention


def _due_prompts(
    connection: Connection, row_id: str, now: datetime, session_is_over: bool
) -> list[tuple[Row[Any], list[str]]]:
    """Return the open and failed turns whose prompt has data that is due, and the ids of these messages."""
    found = []
    for row in _select(connection, turns, row_id, _PROMPT_HAS_RETENTION, order=turns.c.number):
        try:
            kept = {entry["id"]: entry.get(RETENTION) for entry in decode_json(row.prompt_json)}
        except MALFORMED_DATA_ERRORS as error:
            raise unreadable_error(f"a turn of the session {row_id!r:.80}", error) from None
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
    connection: Connection, table: Table, row_id: str, condition: ColumnElement[bool], order: Any = None
) -> list[Row[Any]]:
    query = select(table).where(table.c.session_id == row_id, condition)
    query = query.order_by(table.c.seq if order is None else order)
    return [*connection.execute(query)]


def _save(connection: Connection, row_id: str, record: RetentionRecord) -> None:
    table = retention_records
    last = connection.execute(select(func.max(table.c.seq)).where(table.c.session_id == row_id)).scalar_one()
    connection.execute(
        insert(table),
        {
            "session_id": row_id,
            "seq": 0 if last is None else last + 1,
            "at": to_micros(record.at),
            "action": record.action,
            "messages": record.messages,
            "attempts": record.attempts,
            "sources_json": encode_json(list(record.sources)),
        },
    )
