"""Turns that are open or failed get a table; a call has its start, and belongs to its messages by foreign keys.

A call whose message is missing goes, and so does a reference to a missing result: the keys would refuse them.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_ID = sa.String(200)
_NEW_COLUMNS: dict[str, Any] = {"started_at": sa.BigInteger(), "side_effects": sa.Text(), "result_json": sa.Text()}
_KEYS = {"tool_calls_of_reply": "message_id", "tool_calls_with_result": "result_message_id"}
_COPIED = (
    "session_id, seq, position, id, message_id, result_message_id, name, status, provider_id, provider, created_at,"
    " completed_at"
)


def upgrade() -> None:
    op.create_table(
        "turns",
        _of_session(),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("prompt_json", "attempts_json")),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("user_id", sa.Text),
        sa.Column("schema_version", sa.Integer, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("created_at", "updated_at")),
        sa.PrimaryKeyConstraint("session_id", "number", name="turns_in_order"),
    )
    _drop_orphans()
    if op.get_bind().dialect.name == "sqlite":
        _rebuild_calls()
    else:
        for name, kind in _NEW_COLUMNS.items():
            op.add_column("tool_calls", sa.Column(name, kind))
        for name, column in _KEYS.items():
            op.create_foreign_key(
                name, "tool_calls", "messages", ["session_id", column], ["session_id", "id"],
                deferrable=True, initially="DEFERRED",
            )  # fmt: skip
    for status in ("pending", "failed"):
        condition = sa.text(f"status = '{status}'")
        op.create_index(
            f"tool_calls_{status}", "tool_calls", ["session_id", "created_at"],
            sqlite_where=condition, postgresql_where=condition,
        )  # fmt: skip


def _drop_orphans() -> None:
    missing = (
        "NOT EXISTS (SELECT 1 FROM messages WHERE messages.session_id = tool_calls.session_id AND messages.id = {})"
    )
    op.execute(f"DELETE FROM tool_calls WHERE {missing.format('tool_calls.message_id')}")
    op.execute(
        "UPDATE tool_calls SET result_message_id = NULL WHERE result_message_id IS NOT NULL AND "
        + missing.format("tool_calls.result_message_id")
    )


def _rebuild_calls() -> None:
    """SQLite adds no key to a table that exists."""
    op.drop_index("tool_calls_by_status", "tool_calls")
    op.rename_table("tool_calls", "tool_calls_before")
    op.create_table(
        "tool_calls",
        _of_session(),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("message_id", _ID, nullable=False),
        sa.Column("result_message_id", _ID),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("name", "status")),
        *(sa.Column(name, sa.Text) for name in ("provider_id", "provider")),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("completed_at", sa.BigInteger),
        *(sa.Column(name, kind) for name, kind in _NEW_COLUMNS.items()),
        sa.PrimaryKeyConstraint("session_id", "seq", "position", name="tool_calls_in_order"),
        *(_of_message(name, column) for name, column in _KEYS.items()),
    )
    op.execute(f"INSERT INTO tool_calls ({_COPIED}) SELECT {_COPIED} FROM tool_calls_before")
    op.drop_table("tool_calls_before")
    op.create_index("tool_calls_by_status", "tool_calls", ["session_id", "status"])


def _of_session() -> sa.Column[Any]:
    return sa.Column("session_id", _ID, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False)


def _of_message(name: str, column: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["session_id", column], ["messages.session_id", "messages.id"], name=name, deferrable=True, initially="DEFERRED"
    )
