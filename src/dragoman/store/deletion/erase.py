"""Erases the content of a message, in its place: the session keeps its order and its ids, and can be continued."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select, update

from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.store.rows import attempt_row, message_from_row, message_row
from dragoman.store.schema import attempts, messages, tool_calls

DELETED = "[deleted]"
KEPT_METADATA = (
    "model", "provider", "status", "stop_reason", "usage", "team_id", "parent_tool_use_id", "summary_of",
)  # fmt: skip


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
    message = _without_content(message_from_row(row), kept_metadata)
    if table is attempts:
        values = attempt_row(message, session_id, seq)
    else:
        values = message_row(message, session_id, seq, extensions, inherited=bool(row["inherited"]))
    connection.execute(delete(table).where(key))
    connection.execute(insert(table), values)
    if table is messages:
        of_message = (tool_calls.c.session_id == session_id) & (tool_calls.c.seq == seq)
        connection.execute(update(tool_calls).where(of_message).values(result_json=None))


def _without_content(message: Message, kept_metadata: tuple[str, ...]) -> Message:
    blocks: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolUseBlock):
            blocks.append(ToolUseBlock(id=block.id, name=block.name, input={}))
        elif isinstance(block, ToolResultBlock):
            blocks.append(ToolResultBlock(tool_use_id=block.tool_use_id, content=(TextBlock(text=DELETED),)))
    metadata = message.metadata
    return Message(
        id=message.id,
        session_id=message.session_id,
        role=message.role,
        content=tuple(blocks) or (TextBlock(text=DELETED),),
        created_at=message.created_at,
        metadata=MessageMetadata(**{name: getattr(metadata, name) for name in kept_metadata}),
    )
