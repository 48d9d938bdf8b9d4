"""On PostgreSQL every key begins with the session's id, so that a cluster can distribute the sessions.

SQLite is never distributed and keeps its numbered rows: its full-text index refers to them.
"""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        return
    for table in ("messages", "attempts"):
        op.drop_column(table, "number")  # and its key
    op.drop_constraint("tool_ids_pkey", "tool_ids")
    for table, key, columns in (
        ("messages", "messages_in_order", ["session_id", "seq"]),
        ("attempts", "attempts_in_order", ["session_id", "seq"]),
        ("tool_calls", "tool_calls_in_order", ["session_id", "seq", "position"]),
        ("tool_ids", "tool_ids_once", ["session_id", "entry"]),
    ):
        op.drop_constraint(key, table)
        op.create_primary_key(key, table, columns)
