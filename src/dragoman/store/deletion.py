"""Deletes the data of one user: the user's sessions, and the user's words in the sessions of others.

A session of others keeps its order and its ids, so that it can be continued: of a user's message there, the content is
replaced, the calls lose their input, and the metadata names nobody.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, or_, select, update

from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.store.columns import decode_text, encode_text
from dragoman.store.errors import StoreError
from dragoman.store.records import UserDeletion
from dragoman.store.rows import attempt_row, message_from_row, message_row
from dragoman.store.schema import attempts, messages, sessions, tool_calls, tool_ids, turns

DELETED = "[deleted]"
KEPT_METADATA = (
    "model", "provider", "status", "stop_reason", "usage", "team_id", "parent_tool_use_id", "summary_of",
)  # fmt: skip


def delete_user(connection: Connection, user_id: str, now: int) -> UserDeletion:
    if not isinstance(user_id, str) or not user_id:
        raise StoreError("name the user whose data is to be deleted")
    user = encode_text(user_id)
    own = select(sessions.c.id).where(sessions.c.user_id == user)
    is_shared = or_(sessions.c.user_id.is_(None), sessions.c.user_id != user)
    forks = connection.execute(
        select(sessions.c.id).where(sessions.c.parent_session_id.in_(own), is_shared).order_by(sessions.c.id)
    ).scalars()
    forked = tuple(map(decode_text, forks))
    related = (messages, attempts, tool_calls, tool_ids)
    counts = {
        table.name: connection.execute(
            select(func.count()).select_from(table).where(table.c.session_id.in_(own))
        ).scalar_one()
        for table in related
    }
    deleted = connection.execute(delete(sessions).where(sessions.c.user_id == user)).rowcount
    shared: set[str] = set()
    erased = 0
    for table in (messages, attempts):
        places = select(table.c.session_id, table.c.seq).where(table.c.user_id == user)
        for session_id, seq in connection.execute(places).all():
            erase(connection, table, session_id, seq)
            shared.add(session_id)
            erased += 1
    shared.update(connection.execute(select(turns.c.session_id).where(turns.c.user_id == user)).scalars())
    connection.execute(delete(turns).where(turns.c.user_id == user))
    for session_id in shared:
        advanced = update(sessions).where(sessions.c.id == session_id)
        connection.execute(advanced.values(version=sessions.c.version + 1, updated_at=now))
    return UserDeletion(
        user_id=user_id,
        sessions=deleted,
        messages=counts["messages"],
        attempts=counts["attempts"],
        tool_calls=counts["tool_calls"],
        tool_ids=counts["tool_ids"],
        shared_sessions=tuple(sorted(map(decode_text, shared))),
        erased=erased,
        forks=forked,
    )


def erase(
    connection: Connection,
    table: Table,
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
    row = connection.execute(select(table).where(key)).mappings().one()
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
    connection.execute(delete(table).where(key))
    connection.execute(insert(table), values)
    if table is messages:
        of_message = (tool_calls.c.session_id == session_id) & (tool_calls.c.seq == seq)
        connection.execute(update(tool_calls).where(of_message).values(result_json=None))
